"""BrokerHeartbeatRequest (key 63) and its answer, version 2.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class BrokerHeartbeatRequest(Asks[BrokerHeartbeatResponse]):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[UUID | None, ...] | None
    cordoned_log_dirs: tuple[UUID | None, ...] | None

class BrokerHeartbeatRequestFields(TypedDict, total=False):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: Iterable[UUID | None] | None
    cordoned_log_dirs: Iterable[UUID | None] | None

@final
@dataclass(frozen=True, kw_only=True)
class BrokerHeartbeatResponse(Answers[BrokerHeartbeatRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool

class BrokerHeartbeatResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool

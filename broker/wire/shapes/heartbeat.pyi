"""HeartbeatRequest (key 12) and its answer, versions 0-4.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class HeartbeatRequest(Asks[HeartbeatResponse]):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None  # since version 3

class HeartbeatRequestFields(TypedDict, total=False):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class HeartbeatResponse(Answers[HeartbeatRequest]):
    error_code: ErrorCode
    throttle_time: timedelta  # since version 1

class HeartbeatResponseFields(TypedDict, total=False):
    error_code: int
    throttle_time: timedelta | int  # since version 1

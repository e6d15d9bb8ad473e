"""UnregisterBrokerRequest (key 64) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class UnregisterBrokerRequest(Asks[UnregisterBrokerResponse]):
    broker_id: int

class UnregisterBrokerRequestFields(TypedDict, total=False):
    broker_id: int

@final
@dataclass(frozen=True, kw_only=True)
class UnregisterBrokerResponse(Answers[UnregisterBrokerRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None

class UnregisterBrokerResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None

"""InitProducerIdRequest (key 22) and its answer, versions 0-5.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class InitProducerIdRequest(Asks[InitProducerIdResponse]):
    transactional_id: str | None
    transaction_timeout: timedelta
    producer_id: int  # since version 3
    producer_epoch: int  # since version 3

class InitProducerIdRequestFields(TypedDict, total=False):
    transactional_id: str | None
    transaction_timeout: timedelta | int
    producer_id: int  # since version 3
    producer_epoch: int  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class InitProducerIdResponse(Answers[InitProducerIdRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    producer_id: int
    producer_epoch: int

class InitProducerIdResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    producer_id: int
    producer_epoch: int

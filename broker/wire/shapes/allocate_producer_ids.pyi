"""AllocateProducerIdsRequest (key 67) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class AllocateProducerIdsRequest(Asks[AllocateProducerIdsResponse]):
    broker_id: int
    broker_epoch: int

class AllocateProducerIdsRequestFields(TypedDict, total=False):
    broker_id: int
    broker_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AllocateProducerIdsResponse(Answers[AllocateProducerIdsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    producer_id_start: int
    producer_id_len: int

class AllocateProducerIdsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    producer_id_start: int
    producer_id_len: int

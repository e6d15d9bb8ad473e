"""AddOffsetsToTxnRequest (key 25) and its answer, versions 0-4.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class AddOffsetsToTxnRequest(Asks[AddOffsetsToTxnResponse]):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

class AddOffsetsToTxnRequestFields(TypedDict, total=False):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

@final
@dataclass(frozen=True, kw_only=True)
class AddOffsetsToTxnResponse(Answers[AddOffsetsToTxnRequest]):
    throttle_time: timedelta
    error_code: ErrorCode

class AddOffsetsToTxnResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int

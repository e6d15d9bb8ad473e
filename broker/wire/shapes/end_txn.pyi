"""EndTxnRequest (key 26) and its answer, versions 0-5.

Written by `python -m broker.wire.shape_writer`.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class EndTxnRequest(Asks[EndTxnResponse]):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

class EndTxnRequestFields(TypedDict, total=False):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

@final
@dataclass(frozen=True, kw_only=True)
class EndTxnResponse(Answers[EndTxnRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    producer_id: int  # since version 5
    producer_epoch: int  # since version 5

class EndTxnResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    producer_id: int  # since version 5
    producer_epoch: int  # since version 5

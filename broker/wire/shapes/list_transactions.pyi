"""ListTransactionsRequest (key 66) and its answer, versions 0-2.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class ListTransactionsRequest(Asks[ListTransactionsResponse]):
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]
    duration_filter: int  # since version 1
    transactional_id_pattern: str | None  # since version 2

class ListTransactionsRequestFields(TypedDict, total=False):
    state_filters: Iterable[str]
    producer_id_filters: Iterable[int]
    duration_filter: int  # since version 1
    transactional_id_pattern: str | None  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class TransactionState:
    transactional_id: str
    producer_id: int
    transaction_state: str

class TransactionStateFields(TypedDict, total=False):
    transactional_id: str
    producer_id: int
    transaction_state: str

@final
@dataclass(frozen=True, kw_only=True)
class ListTransactionsResponse(Answers[ListTransactionsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[TransactionState, ...]

class ListTransactionsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    unknown_state_filters: Iterable[str]
    transaction_states: Iterable[TransactionStateFields]

"""DescribeTransactionsRequest (key 65) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict, final

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTransactionsRequest(Asks[DescribeTransactionsResponse]):
    transactional_ids: tuple[str, ...]

class DescribeTransactionsRequestFields(TypedDict, total=False):
    transactional_ids: Iterable[str]

@final
@dataclass(frozen=True, kw_only=True)
class TopicData:
    topic: str
    partitions: tuple[int, ...]

class TopicDataFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class TransactionState:
    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: timedelta
    transaction_start_time: datetime | None
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicData, ...]

class TransactionStateFields(TypedDict, total=False):
    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout: timedelta | int
    transaction_start_time: datetime | int | None
    producer_id: int
    producer_epoch: int
    topics: Iterable[TopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTransactionsResponse(Answers[DescribeTransactionsRequest]):
    throttle_time: timedelta
    transaction_states: tuple[TransactionState, ...]

class DescribeTransactionsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    transaction_states: Iterable[TransactionStateFields]

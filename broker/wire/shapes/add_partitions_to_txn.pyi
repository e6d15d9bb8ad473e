"""AddPartitionsToTxnRequest (key 24) and its answer, versions 0-5.

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
class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[int, ...]

class AddPartitionsToTxnTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]

class AddPartitionsToTxnTransactionFields(TypedDict, total=False):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: Iterable[AddPartitionsToTxnTopicFields]

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnRequest(Asks[AddPartitionsToTxnResponse]):
    v3_and_below_transactional_id: str  # until version 3
    v3_and_below_producer_id: int  # until version 3
    v3_and_below_producer_epoch: int  # until version 3
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]  # until version 3
    transactions: tuple[AddPartitionsToTxnTransaction, ...]  # since version 4

class AddPartitionsToTxnRequestFields(TypedDict, total=False):
    v3_and_below_transactional_id: str  # until version 3
    v3_and_below_producer_id: int  # until version 3
    v3_and_below_producer_epoch: int  # until version 3
    v3_and_below_topics: Iterable[AddPartitionsToTxnTopicFields]  # until version 3
    transactions: Iterable[AddPartitionsToTxnTransactionFields]  # since version 4

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int
    partition_error_code: ErrorCode

class AddPartitionsToTxnPartitionResultFields(TypedDict, total=False):
    partition_index: int
    partition_error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]

class AddPartitionsToTxnTopicResultFields(TypedDict, total=False):
    name: str
    results_by_partition: Iterable[AddPartitionsToTxnPartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnResult:
    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]

class AddPartitionsToTxnResultFields(TypedDict, total=False):
    transactional_id: str
    topic_results: Iterable[AddPartitionsToTxnTopicResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnResponse(Answers[AddPartitionsToTxnRequest]):
    throttle_time: timedelta
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]  # until version 3
    error_code: ErrorCode  # since version 4
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]  # since version 4

class AddPartitionsToTxnResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results_by_topic_v3_and_below: Iterable[AddPartitionsToTxnTopicResultFields]  # until version 3
    error_code: int  # since version 4
    results_by_transaction: Iterable[AddPartitionsToTxnResultFields]  # since version 4

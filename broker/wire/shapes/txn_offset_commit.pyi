"""TxnOffsetCommitRequest (key 28) and its answer, versions 0-5.

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
class TxnOffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int  # since version 2

class TxnOffsetCommitRequestPartitionFields(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int  # since version 2

@final
@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]

class TxnOffsetCommitRequestTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[TxnOffsetCommitRequestPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitRequest(Asks[TxnOffsetCommitResponse]):
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    generation_id: int  # since version 3
    member_id: str  # since version 3
    group_instance_id: str | None  # since version 3

class TxnOffsetCommitRequestFields(TypedDict, total=False):
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: Iterable[TxnOffsetCommitRequestTopicFields]
    generation_id: int  # since version 3
    member_id: str  # since version 3
    group_instance_id: str | None  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    partition_index: int
    error_code: ErrorCode

class TxnOffsetCommitResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]

class TxnOffsetCommitResponseTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[TxnOffsetCommitResponsePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponse(Answers[TxnOffsetCommitRequest]):
    throttle_time: timedelta
    topics: tuple[TxnOffsetCommitResponseTopic, ...]

class TxnOffsetCommitResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[TxnOffsetCommitResponseTopicFields]

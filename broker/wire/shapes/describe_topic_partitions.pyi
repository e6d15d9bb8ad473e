"""DescribeTopicPartitionsRequest (key 75) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class TopicRequest:
    name: str

class TopicRequestFields(TypedDict, total=False):
    name: str

@final
@dataclass(frozen=True, kw_only=True)
class AskedCursor:
    topic_name: str
    partition_index: int

class AskedCursorFields(TypedDict, total=False):
    topic_name: str
    partition_index: int

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsRequest(Asks[DescribeTopicPartitionsResponse]):
    topics: tuple[TopicRequest, ...]
    response_partition_limit: int
    cursor: AskedCursor | None

class DescribeTopicPartitionsRequestFields(TypedDict, total=False):
    topics: Iterable[TopicRequestFields]
    response_partition_limit: int
    cursor: AskedCursorFields | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]

class DescribeTopicPartitionsResponsePartitionFields(TypedDict, total=False):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Iterable[int]
    isr_nodes: Iterable[int]
    eligible_leader_replicas: Iterable[int] | None
    last_known_elr: Iterable[int] | None
    offline_replicas: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int

class DescribeTopicPartitionsResponseTopicFields(TypedDict, total=False):
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: Iterable[DescribeTopicPartitionsResponsePartitionFields]
    topic_authorized_operations: int

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredCursor:
    topic_name: str
    partition_index: int

class AnsweredCursorFields(TypedDict, total=False):
    topic_name: str
    partition_index: int

@final
@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponse(Answers[DescribeTopicPartitionsRequest]):
    throttle_time: timedelta
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: AnsweredCursor | None

class DescribeTopicPartitionsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[DescribeTopicPartitionsResponseTopicFields]
    next_cursor: AnsweredCursorFields | None

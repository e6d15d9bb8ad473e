"""AlterShareGroupOffsetsRequest (key 91) and its answer, version 0.

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
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int
    start_offset: int

class AlterShareGroupOffsetsRequestPartitionFields(TypedDict, total=False):
    partition_index: int
    start_offset: int

@final
@dataclass(frozen=True, kw_only=True)
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]

class AlterShareGroupOffsetsRequestTopicFields(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[AlterShareGroupOffsetsRequestPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterShareGroupOffsetsRequest(Asks[AlterShareGroupOffsetsResponse]):
    group_id: str
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]

class AlterShareGroupOffsetsRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[AlterShareGroupOffsetsRequestTopicFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None

class AlterShareGroupOffsetsResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]

class AlterShareGroupOffsetsResponseTopicFields(TypedDict, total=False):
    topic_name: str
    topic_id: UUID | None
    partitions: Iterable[AlterShareGroupOffsetsResponsePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterShareGroupOffsetsResponse(Answers[AlterShareGroupOffsetsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...]

class AlterShareGroupOffsetsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: Iterable[AlterShareGroupOffsetsResponseTopicFields]

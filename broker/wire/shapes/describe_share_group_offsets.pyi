"""DescribeShareGroupOffsetsRequest (key 90) and its answer, versions 0-1.

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
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str
    partitions: tuple[int, ...]

class DescribeShareGroupOffsetsRequestTopicFields(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None

class DescribeShareGroupOffsetsRequestGroupFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[DescribeShareGroupOffsetsRequestTopicFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsRequest(Asks[DescribeShareGroupOffsetsResponse]):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]

class DescribeShareGroupOffsetsRequestFields(TypedDict, total=False):
    groups: Iterable[DescribeShareGroupOffsetsRequestGroupFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int
    start_offset: int
    leader_epoch: int
    error_code: ErrorCode
    error_message: str | None
    lag: int  # since version 1

class DescribeShareGroupOffsetsResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    start_offset: int
    leader_epoch: int
    error_code: int
    error_message: str | None
    lag: int  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str
    topic_id: UUID | None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]

class DescribeShareGroupOffsetsResponseTopicFields(TypedDict, total=False):
    topic_name: str
    topic_id: UUID | None
    partitions: Iterable[DescribeShareGroupOffsetsResponsePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...]
    error_code: ErrorCode
    error_message: str | None

class DescribeShareGroupOffsetsResponseGroupFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[DescribeShareGroupOffsetsResponseTopicFields]
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class DescribeShareGroupOffsetsResponse(Answers[DescribeShareGroupOffsetsRequest]):
    throttle_time: timedelta
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]

class DescribeShareGroupOffsetsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    groups: Iterable[DescribeShareGroupOffsetsResponseGroupFields]

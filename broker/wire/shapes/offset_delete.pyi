"""OffsetDeleteRequest (key 47) and its answer, version 0.

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
class OffsetDeleteRequestPartition:
    partition_index: int

class OffsetDeleteRequestPartitionFields(TypedDict, total=False):
    partition_index: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]

class OffsetDeleteRequestTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[OffsetDeleteRequestPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetDeleteRequest(Asks[OffsetDeleteResponse]):
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]

class OffsetDeleteRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[OffsetDeleteRequestTopicFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponsePartition:
    partition_index: int
    error_code: ErrorCode

class OffsetDeleteResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponseTopic:
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]

class OffsetDeleteResponseTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[OffsetDeleteResponsePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponse(Answers[OffsetDeleteRequest]):
    error_code: ErrorCode
    throttle_time: timedelta
    topics: tuple[OffsetDeleteResponseTopic, ...]

class OffsetDeleteResponseFields(TypedDict, total=False):
    error_code: int
    throttle_time: timedelta | int
    topics: Iterable[OffsetDeleteResponseTopicFields]

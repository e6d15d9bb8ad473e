"""OffsetFetchRequest (key 9) and its answer, versions 1-10.

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
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[int, ...]

class OffsetFetchRequestTopicFields(TypedDict, total=False):
    name: str
    partition_indexes: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequestTopics:
    name: str  # until version 9
    partition_indexes: tuple[int, ...]
    topic_id: UUID | None  # since version 10

class OffsetFetchRequestTopicsFields(TypedDict, total=False):
    name: str  # until version 9
    partition_indexes: Iterable[int]
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: str
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    member_id: str | None  # since version 9
    member_epoch: int  # since version 9

class OffsetFetchRequestGroupFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[OffsetFetchRequestTopicsFields] | None
    member_id: str | None  # since version 9
    member_epoch: int  # since version 9

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequest(Asks[OffsetFetchResponse]):
    group_id: str  # until version 7
    topics: tuple[OffsetFetchRequestTopic, ...] | None  # until version 7
    require_stable: bool  # since version 7
    groups: tuple[OffsetFetchRequestGroup, ...]  # since version 8

class OffsetFetchRequestFields(TypedDict, total=False):
    group_id: str  # until version 7
    topics: Iterable[OffsetFetchRequestTopicFields] | None  # until version 7
    require_stable: bool  # since version 7
    groups: Iterable[OffsetFetchRequestGroupFields]  # since version 8

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponsePartition:
    partition_index: int
    committed_offset: int
    metadata: str | None
    error_code: ErrorCode
    committed_leader_epoch: int  # since version 5

class OffsetFetchResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    metadata: str | None
    error_code: int
    committed_leader_epoch: int  # since version 5

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseTopic:
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]

class OffsetFetchResponseTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[OffsetFetchResponsePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponsePartitions:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: ErrorCode

class OffsetFetchResponsePartitionsFields(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseTopics:
    name: str  # until version 9
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    topic_id: UUID | None  # since version 10

class OffsetFetchResponseTopicsFields(TypedDict, total=False):
    name: str  # until version 9
    partitions: Iterable[OffsetFetchResponsePartitionsFields]
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseGroup:
    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode

class OffsetFetchResponseGroupFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[OffsetFetchResponseTopicsFields]
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponse(Answers[OffsetFetchRequest]):
    topics: tuple[OffsetFetchResponseTopic, ...]  # until version 7
    error_code: ErrorCode  # versions 2 to 7
    throttle_time: timedelta  # since version 3
    groups: tuple[OffsetFetchResponseGroup, ...]  # since version 8

class OffsetFetchResponseFields(TypedDict, total=False):
    topics: Iterable[OffsetFetchResponseTopicFields]  # until version 7
    error_code: int  # versions 2 to 7
    throttle_time: timedelta | int  # since version 3
    groups: Iterable[OffsetFetchResponseGroupFields]  # since version 8

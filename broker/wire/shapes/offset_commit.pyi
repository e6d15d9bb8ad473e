"""OffsetCommitRequest (key 8) and its answer, versions 2-10.

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
class OffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int  # since version 6

class OffsetCommitRequestPartitionFields(TypedDict, total=False):
    partition_index: int
    committed_offset: int
    committed_metadata: str | None
    committed_leader_epoch: int  # since version 6

@final
@dataclass(frozen=True, kw_only=True)
class OffsetCommitRequestTopic:
    name: str  # until version 9
    partitions: tuple[OffsetCommitRequestPartition, ...]
    topic_id: UUID | None  # since version 10

class OffsetCommitRequestTopicFields(TypedDict, total=False):
    name: str  # until version 9
    partitions: Iterable[OffsetCommitRequestPartitionFields]
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class OffsetCommitRequest(Asks[OffsetCommitResponse]):
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    retention_time: timedelta  # until version 4
    topics: tuple[OffsetCommitRequestTopic, ...]
    group_instance_id: str | None  # since version 7

class OffsetCommitRequestFields(TypedDict, total=False):
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    retention_time: timedelta | int  # until version 4
    topics: Iterable[OffsetCommitRequestTopicFields]
    group_instance_id: str | None  # since version 7

@final
@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponsePartition:
    partition_index: int
    error_code: ErrorCode

class OffsetCommitResponsePartitionFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponseTopic:
    name: str  # until version 9
    partitions: tuple[OffsetCommitResponsePartition, ...]
    topic_id: UUID | None  # since version 10

class OffsetCommitResponseTopicFields(TypedDict, total=False):
    name: str  # until version 9
    partitions: Iterable[OffsetCommitResponsePartitionFields]
    topic_id: UUID | None  # since version 10

@final
@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponse(Answers[OffsetCommitRequest]):
    topics: tuple[OffsetCommitResponseTopic, ...]
    throttle_time: timedelta  # since version 3

class OffsetCommitResponseFields(TypedDict, total=False):
    topics: Iterable[OffsetCommitResponseTopicFields]
    throttle_time: timedelta | int  # since version 3

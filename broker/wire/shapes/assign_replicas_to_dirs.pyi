"""AssignReplicasToDirsRequest (key 73) and its answer, version 0.

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
class AskedPartitionData:
    partition_index: int

class AskedPartitionDataFields(TypedDict, total=False):
    partition_index: int

@final
@dataclass(frozen=True, kw_only=True)
class AskedTopicData:
    topic_id: UUID | None
    partitions: tuple[AskedPartitionData, ...]

class AskedTopicDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AskedPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AskedDirectoryData:
    id_: UUID | None
    topics: tuple[AskedTopicData, ...]

class AskedDirectoryDataFields(TypedDict, total=False):
    id_: UUID | None
    topics: Iterable[AskedTopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AssignReplicasToDirsRequest(Asks[AssignReplicasToDirsResponse]):
    broker_id: int
    broker_epoch: int
    directories: tuple[AskedDirectoryData, ...]

class AssignReplicasToDirsRequestFields(TypedDict, total=False):
    broker_id: int
    broker_epoch: int
    directories: Iterable[AskedDirectoryDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionData:
    partition_index: int
    error_code: ErrorCode

class AnsweredPartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTopicData:
    topic_id: UUID | None
    partitions: tuple[AnsweredPartitionData, ...]

class AnsweredTopicDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AnsweredPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredDirectoryData:
    id_: UUID | None
    topics: tuple[AnsweredTopicData, ...]

class AnsweredDirectoryDataFields(TypedDict, total=False):
    id_: UUID | None
    topics: Iterable[AnsweredTopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AssignReplicasToDirsResponse(Answers[AssignReplicasToDirsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    directories: tuple[AnsweredDirectoryData, ...]

class AssignReplicasToDirsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    directories: Iterable[AnsweredDirectoryDataFields]

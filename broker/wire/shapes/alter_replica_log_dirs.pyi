"""AlterReplicaLogDirsRequest (key 34) and its answer, versions 1-2.

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
class AlterReplicaLogDirTopic:
    name: str
    partitions: tuple[int, ...]

class AlterReplicaLogDirTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class AlterReplicaLogDir:
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]

class AlterReplicaLogDirFields(TypedDict, total=False):
    path: str
    topics: Iterable[AlterReplicaLogDirTopicFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterReplicaLogDirsRequest(Asks[AlterReplicaLogDirsResponse]):
    dirs: tuple[AlterReplicaLogDir, ...]

class AlterReplicaLogDirsRequestFields(TypedDict, total=False):
    dirs: Iterable[AlterReplicaLogDirFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int
    error_code: ErrorCode

class AlterReplicaLogDirPartitionResultFields(TypedDict, total=False):
    partition_index: int
    error_code: int

@final
@dataclass(frozen=True, kw_only=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]

class AlterReplicaLogDirTopicResultFields(TypedDict, total=False):
    topic_name: str
    partitions: Iterable[AlterReplicaLogDirPartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterReplicaLogDirsResponse(Answers[AlterReplicaLogDirsRequest]):
    throttle_time: timedelta
    results: tuple[AlterReplicaLogDirTopicResult, ...]

class AlterReplicaLogDirsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    results: Iterable[AlterReplicaLogDirTopicResultFields]

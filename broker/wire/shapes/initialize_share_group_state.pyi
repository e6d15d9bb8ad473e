"""InitializeShareGroupStateRequest (key 83) and its answer, version 0.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class PartitionData:
    partition: int
    state_epoch: int
    start_offset: int

class PartitionDataFields(TypedDict, total=False):
    partition: int
    state_epoch: int
    start_offset: int

@final
@dataclass(frozen=True, kw_only=True)
class InitializeStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class InitializeStateDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class InitializeShareGroupStateRequest(Asks[InitializeShareGroupStateResponse]):
    group_id: str
    topics: tuple[InitializeStateData, ...]

class InitializeShareGroupStateRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[InitializeStateDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class PartitionResult:
    partition: int
    error_code: ErrorCode
    error_message: str | None

class PartitionResultFields(TypedDict, total=False):
    partition: int
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class InitializeStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]

class InitializeStateResultFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class InitializeShareGroupStateResponse(Answers[InitializeShareGroupStateRequest]):
    results: tuple[InitializeStateResult, ...]

class InitializeShareGroupStateResponseFields(TypedDict, total=False):
    results: Iterable[InitializeStateResultFields]

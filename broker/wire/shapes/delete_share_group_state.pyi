"""DeleteShareGroupStateRequest (key 86) and its answer, version 0.

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

class PartitionDataFields(TypedDict, total=False):
    partition: int

@final
@dataclass(frozen=True, kw_only=True)
class DeleteStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class DeleteStateDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteShareGroupStateRequest(Asks[DeleteShareGroupStateResponse]):
    group_id: str
    topics: tuple[DeleteStateData, ...]

class DeleteShareGroupStateRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[DeleteStateDataFields]

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
class DeleteStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]

class DeleteStateResultFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class DeleteShareGroupStateResponse(Answers[DeleteShareGroupStateRequest]):
    results: tuple[DeleteStateResult, ...]

class DeleteShareGroupStateResponseFields(TypedDict, total=False):
    results: Iterable[DeleteStateResultFields]

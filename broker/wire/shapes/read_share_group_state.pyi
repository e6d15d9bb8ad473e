"""ReadShareGroupStateRequest (key 84) and its answer, version 0.

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
    leader_epoch: int

class PartitionDataFields(TypedDict, total=False):
    partition: int
    leader_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class ReadStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class ReadStateDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReadShareGroupStateRequest(Asks[ReadShareGroupStateResponse]):
    group_id: str
    topics: tuple[ReadStateData, ...]

class ReadShareGroupStateRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[ReadStateDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class StateBatch:
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

class StateBatchFields(TypedDict, total=False):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

@final
@dataclass(frozen=True, kw_only=True)
class PartitionResult:
    partition: int
    error_code: ErrorCode
    error_message: str | None
    state_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]

class PartitionResultFields(TypedDict, total=False):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    start_offset: int
    state_batches: Iterable[StateBatchFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReadStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]

class ReadStateResultFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReadShareGroupStateResponse(Answers[ReadShareGroupStateRequest]):
    results: tuple[ReadStateResult, ...]

class ReadShareGroupStateResponseFields(TypedDict, total=False):
    results: Iterable[ReadStateResultFields]

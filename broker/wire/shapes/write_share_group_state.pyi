"""WriteShareGroupStateRequest (key 85) and its answer, versions 0-1.

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
class PartitionData:
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    state_batches: tuple[StateBatch, ...]
    delivery_complete_count: int  # since version 1

class PartitionDataFields(TypedDict, total=False):
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    state_batches: Iterable[StateBatchFields]
    delivery_complete_count: int  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class WriteStateData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class WriteStateDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class WriteShareGroupStateRequest(Asks[WriteShareGroupStateResponse]):
    group_id: str
    topics: tuple[WriteStateData, ...]

class WriteShareGroupStateRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[WriteStateDataFields]

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
class WriteStateResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]

class WriteStateResultFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class WriteShareGroupStateResponse(Answers[WriteShareGroupStateRequest]):
    results: tuple[WriteStateResult, ...]

class WriteShareGroupStateResponseFields(TypedDict, total=False):
    results: Iterable[WriteStateResultFields]

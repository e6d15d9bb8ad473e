"""ReadShareGroupStateSummaryRequest (key 87) and its answer, versions 0-1.

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
class ReadStateSummaryData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

class ReadStateSummaryDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReadShareGroupStateSummaryRequest(Asks[ReadShareGroupStateSummaryResponse]):
    group_id: str
    topics: tuple[ReadStateSummaryData, ...]

class ReadShareGroupStateSummaryRequestFields(TypedDict, total=False):
    group_id: str
    topics: Iterable[ReadStateSummaryDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class PartitionResult:
    partition: int
    error_code: ErrorCode
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int  # since version 1

class PartitionResultFields(TypedDict, total=False):
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class ReadStateSummaryResult:
    topic_id: UUID | None
    partitions: tuple[PartitionResult, ...]

class ReadStateSummaryResultFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class ReadShareGroupStateSummaryResponse(Answers[ReadShareGroupStateSummaryRequest]):
    results: tuple[ReadStateSummaryResult, ...]

class ReadShareGroupStateSummaryResponseFields(TypedDict, total=False):
    results: Iterable[ReadStateSummaryResultFields]

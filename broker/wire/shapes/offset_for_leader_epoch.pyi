"""OffsetForLeaderEpochRequest (key 23) and its answer, versions 2-4.

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
class OffsetForLeaderPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int

class OffsetForLeaderPartitionFields(TypedDict, total=False):
    partition: int
    current_leader_epoch: int
    leader_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]

class OffsetForLeaderTopicFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[OffsetForLeaderPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderEpochRequest(Asks[OffsetForLeaderEpochResponse]):
    topics: tuple[OffsetForLeaderTopic, ...]
    replica_id: int  # since version 3

class OffsetForLeaderEpochRequestFields(TypedDict, total=False):
    topics: Iterable[OffsetForLeaderTopicFields]
    replica_id: int  # since version 3

@final
@dataclass(frozen=True, kw_only=True)
class EpochEndOffset:
    error_code: ErrorCode
    partition: int
    leader_epoch: int
    end_offset: int

class EpochEndOffsetFields(TypedDict, total=False):
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int

@final
@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderTopicResult:
    topic: str
    partitions: tuple[EpochEndOffset, ...]

class OffsetForLeaderTopicResultFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[EpochEndOffsetFields]

@final
@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderEpochResponse(Answers[OffsetForLeaderEpochRequest]):
    throttle_time: timedelta
    topics: tuple[OffsetForLeaderTopicResult, ...]

class OffsetForLeaderEpochResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[OffsetForLeaderTopicResultFields]

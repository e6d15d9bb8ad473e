"""ElectLeadersRequest (key 43) and its answer, versions 0-2.

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
class TopicPartitions:
    topic: str
    partitions: tuple[int, ...]

class TopicPartitionsFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class ElectLeadersRequest(Asks[ElectLeadersResponse]):
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: timedelta
    election_type: int  # since version 1

class ElectLeadersRequestFields(TypedDict, total=False):
    topic_partitions: Iterable[TopicPartitionsFields] | None
    timeout: timedelta | int
    election_type: int  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class PartitionResult:
    partition_id: int
    error_code: ErrorCode
    error_message: str | None

class PartitionResultFields(TypedDict, total=False):
    partition_id: int
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class ReplicaElectionResult:
    topic: str
    partition_result: tuple[PartitionResult, ...]

class ReplicaElectionResultFields(TypedDict, total=False):
    topic: str
    partition_result: Iterable[PartitionResultFields]

@final
@dataclass(frozen=True, kw_only=True)
class ElectLeadersResponse(Answers[ElectLeadersRequest]):
    throttle_time: timedelta
    replica_election_results: tuple[ReplicaElectionResult, ...]
    error_code: ErrorCode  # since version 1

class ElectLeadersResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    replica_election_results: Iterable[ReplicaElectionResultFields]
    error_code: int  # since version 1

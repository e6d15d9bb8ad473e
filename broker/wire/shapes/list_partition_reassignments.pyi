"""ListPartitionReassignmentsRequest (key 46) and its answer, version 0.

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
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[int, ...]

class ListPartitionReassignmentsTopicsFields(TypedDict, total=False):
    name: str
    partition_indexes: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class ListPartitionReassignmentsRequest(Asks[ListPartitionReassignmentsResponse]):
    timeout: timedelta
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

class ListPartitionReassignmentsRequestFields(TypedDict, total=False):
    timeout: timedelta | int
    topics: Iterable[ListPartitionReassignmentsTopicsFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class OngoingPartitionReassignment:
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

class OngoingPartitionReassignmentFields(TypedDict, total=False):
    partition_index: int
    replicas: Iterable[int]
    adding_replicas: Iterable[int]
    removing_replicas: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class OngoingTopicReassignment:
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]

class OngoingTopicReassignmentFields(TypedDict, total=False):
    name: str
    partitions: Iterable[OngoingPartitionReassignmentFields]

@final
@dataclass(frozen=True, kw_only=True)
class ListPartitionReassignmentsResponse(Answers[ListPartitionReassignmentsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]

class ListPartitionReassignmentsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    topics: Iterable[OngoingTopicReassignmentFields]

"""AlterPartitionReassignmentsRequest (key 45) and its answer, versions 0-1.

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
class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None

class ReassignablePartitionFields(TypedDict, total=False):
    partition_index: int
    replicas: Iterable[int] | None

@final
@dataclass(frozen=True, kw_only=True)
class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]

class ReassignableTopicFields(TypedDict, total=False):
    name: str
    partitions: Iterable[ReassignablePartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterPartitionReassignmentsRequest(Asks[AlterPartitionReassignmentsResponse]):
    timeout: timedelta
    topics: tuple[ReassignableTopic, ...]
    allow_replication_factor_change: bool  # since version 1

class AlterPartitionReassignmentsRequestFields(TypedDict, total=False):
    timeout: timedelta | int
    topics: Iterable[ReassignableTopicFields]
    allow_replication_factor_change: bool  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class ReassignablePartitionResponse:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None

class ReassignablePartitionResponseFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    error_message: str | None

@final
@dataclass(frozen=True, kw_only=True)
class ReassignableTopicResponse:
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]

class ReassignableTopicResponseFields(TypedDict, total=False):
    name: str
    partitions: Iterable[ReassignablePartitionResponseFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterPartitionReassignmentsResponse(Answers[AlterPartitionReassignmentsRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]
    allow_replication_factor_change: bool  # since version 1

class AlterPartitionReassignmentsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    responses: Iterable[ReassignableTopicResponseFields]
    allow_replication_factor_change: bool  # since version 1

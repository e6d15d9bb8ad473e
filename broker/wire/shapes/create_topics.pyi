"""CreateTopicsRequest (key 19) and its answer, versions 2-7.

Written by `python -m broker.wire.shape_writer`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, final
from uuid import UUID

from broker.wire.errors import ErrorCode
from broker.wire.shapes.kinds import Answers, Asks

@final
@dataclass(frozen=True, kw_only=True)
class CreatableReplicaAssignment:
    partition_index: int
    broker_ids: tuple[int, ...]

class CreatableReplicaAssignmentFields(TypedDict, total=False):
    partition_index: int
    broker_ids: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class CreatableTopicConfig:
    name: str
    value: str | None

class CreatableTopicConfigFields(TypedDict, total=False):
    name: str
    value: str | None

@final
@dataclass(frozen=True, kw_only=True)
class CreatableTopic:
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]

class CreatableTopicFields(TypedDict, total=False):
    name: str
    num_partitions: int
    replication_factor: int
    assignments: Iterable[CreatableReplicaAssignmentFields]
    configs: Iterable[CreatableTopicConfigFields]

@final
@dataclass(frozen=True, kw_only=True)
class CreateTopicsRequest(Asks[CreateTopicsResponse]):
    topics: tuple[CreatableTopic, ...]
    timeout: timedelta
    validate_only: bool

class CreateTopicsRequestFields(TypedDict, total=False):
    topics: Iterable[CreatableTopicFields]
    timeout: timedelta | int
    validate_only: bool

@final
@dataclass(frozen=True, kw_only=True)
class CreatableTopicResult:
    name: str
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: int  # since version 5
    num_partitions: int  # since version 5
    replication_factor: int  # since version 5
    configs: tuple[CreatableTopicConfigs, ...] | None  # since version 5
    topic_id: UUID | None  # since version 7

class CreatableTopicResultFields(TypedDict, total=False):
    name: str
    error_code: int
    error_message: str | None
    topic_config_error_code: int  # since version 5
    num_partitions: int  # since version 5
    replication_factor: int  # since version 5
    configs: Iterable[CreatableTopicConfigsFields] | None  # since version 5
    topic_id: UUID | None  # since version 7

@final
@dataclass(frozen=True, kw_only=True)
class CreatableTopicConfigs:
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

class CreatableTopicConfigsFields(TypedDict, total=False):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

@final
@dataclass(frozen=True, kw_only=True)
class CreateTopicsResponse(Answers[CreateTopicsRequest]):
    throttle_time: timedelta
    topics: tuple[CreatableTopicResult, ...]

class CreateTopicsResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    topics: Iterable[CreatableTopicResultFields]

"""AlterPartitionRequest (key 56) and its answer, version 3.

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
class BrokerState:
    broker_id: int
    broker_epoch: int

class BrokerStateFields(TypedDict, total=False):
    broker_id: int
    broker_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AskedPartitionData:
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...]
    leader_recovery_state: int
    partition_epoch: int

class AskedPartitionDataFields(TypedDict, total=False):
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: Iterable[BrokerStateFields]
    leader_recovery_state: int
    partition_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AskedTopicData:
    topic_id: UUID | None
    partitions: tuple[AskedPartitionData, ...]

class AskedTopicDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AskedPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterPartitionRequest(Asks[AlterPartitionResponse]):
    broker_id: int
    broker_epoch: int
    topics: tuple[AskedTopicData, ...]

class AlterPartitionRequestFields(TypedDict, total=False):
    broker_id: int
    broker_epoch: int
    topics: Iterable[AskedTopicDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredPartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int

class AnsweredPartitionDataFields(TypedDict, total=False):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int
    isr: Iterable[int]
    leader_recovery_state: int
    partition_epoch: int

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTopicData:
    topic_id: UUID | None
    partitions: tuple[AnsweredPartitionData, ...]

class AnsweredTopicDataFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[AnsweredPartitionDataFields]

@final
@dataclass(frozen=True, kw_only=True)
class AlterPartitionResponse(Answers[AlterPartitionRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    topics: tuple[AnsweredTopicData, ...]

class AlterPartitionResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    topics: Iterable[AnsweredTopicDataFields]

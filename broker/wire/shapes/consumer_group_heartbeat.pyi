"""ConsumerGroupHeartbeatRequest (key 68) and its answer, versions 0-1.

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
class AskedTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class AskedTopicPartitionsFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(Asks[ConsumerGroupHeartbeatResponse]):
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta
    subscribed_topic_names: tuple[str, ...] | None
    server_assignor: str | None
    topic_partitions: tuple[AskedTopicPartitions, ...] | None
    subscribed_topic_regex: str | None  # since version 1

class ConsumerGroupHeartbeatRequestFields(TypedDict, total=False):
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta | int
    subscribed_topic_names: Iterable[str] | None
    server_assignor: str | None
    topic_partitions: Iterable[AskedTopicPartitionsFields] | None
    subscribed_topic_regex: str | None  # since version 1

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class AnsweredTopicPartitionsFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[AnsweredTopicPartitions, ...]

class AssignmentFields(TypedDict, total=False):
    topic_partitions: Iterable[AnsweredTopicPartitionsFields]

@final
@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(Answers[ConsumerGroupHeartbeatRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta
    assignment: Assignment | None

class ConsumerGroupHeartbeatResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta | int
    assignment: AssignmentFields | None

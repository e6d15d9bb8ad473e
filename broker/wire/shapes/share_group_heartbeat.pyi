"""ShareGroupHeartbeatRequest (key 76) and its answer, version 1.

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
class ShareGroupHeartbeatRequest(Asks[ShareGroupHeartbeatResponse]):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: tuple[str, ...] | None

class ShareGroupHeartbeatRequestFields(TypedDict, total=False):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: Iterable[str] | None

@final
@dataclass(frozen=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

class TopicPartitionsFields(TypedDict, total=False):
    topic_id: UUID | None
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]

class AssignmentFields(TypedDict, total=False):
    topic_partitions: Iterable[TopicPartitionsFields]

@final
@dataclass(frozen=True, kw_only=True)
class ShareGroupHeartbeatResponse(Answers[ShareGroupHeartbeatRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta
    assignment: Assignment | None

class ShareGroupHeartbeatResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: timedelta | int
    assignment: AssignmentFields | None

"""ShareGroupDescribeRequest (key 77) and its answer, version 1.

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
class ShareGroupDescribeRequest(Asks[ShareGroupDescribeResponse]):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool

class ShareGroupDescribeRequestFields(TypedDict, total=False):
    group_ids: Iterable[str]
    include_authorized_operations: bool

@final
@dataclass(frozen=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...]

class TopicPartitionsFields(TypedDict, total=False):
    topic_id: UUID | None
    topic_name: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]

class AssignmentFields(TypedDict, total=False):
    topic_partitions: Iterable[TopicPartitionsFields]

@final
@dataclass(frozen=True, kw_only=True)
class Member:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: Assignment

class MemberFields(TypedDict, total=False):
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: Iterable[str]
    assignment: AssignmentFields

@final
@dataclass(frozen=True, kw_only=True)
class DescribedGroup:
    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: int

class DescribedGroupFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Iterable[MemberFields]
    authorized_operations: int

@final
@dataclass(frozen=True, kw_only=True)
class ShareGroupDescribeResponse(Answers[ShareGroupDescribeRequest]):
    throttle_time: timedelta
    groups: tuple[DescribedGroup, ...]

class ShareGroupDescribeResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    groups: Iterable[DescribedGroupFields]

"""StreamsGroupDescribeRequest (key 89) and its answer, version 0.

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
class StreamsGroupDescribeRequest(Asks[StreamsGroupDescribeResponse]):
    group_ids: tuple[str, ...]
    include_authorized_operations: bool

class StreamsGroupDescribeRequestFields(TypedDict, total=False):
    group_ids: Iterable[str]
    include_authorized_operations: bool

@final
@dataclass(frozen=True, kw_only=True)
class KeyValue:
    key: str
    value: str

class KeyValueFields(TypedDict, total=False):
    key: str
    value: str

@final
@dataclass(frozen=True, kw_only=True)
class TopicInfo:
    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[KeyValue, ...]

class TopicInfoFields(TypedDict, total=False):
    name: str
    partitions: int
    replication_factor: int
    topic_configs: Iterable[KeyValueFields]

@final
@dataclass(frozen=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_source_topics: tuple[TopicInfo, ...]

class SubtopologyFields(TypedDict, total=False):
    subtopology_id: str
    source_topics: Iterable[str]
    repartition_sink_topics: Iterable[str]
    state_changelog_topics: Iterable[TopicInfoFields]
    repartition_source_topics: Iterable[TopicInfoFields]

@final
@dataclass(frozen=True, kw_only=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...] | None

class TopologyFields(TypedDict, total=False):
    epoch: int
    subtopologies: Iterable[SubtopologyFields] | None

@final
@dataclass(frozen=True, kw_only=True)
class Endpoint:
    host: str
    port: int

class EndpointFields(TypedDict, total=False):
    host: str
    port: int

@final
@dataclass(frozen=True, kw_only=True)
class TaskOffset:
    subtopology_id: str
    partition: int
    offset: int

class TaskOffsetFields(TypedDict, total=False):
    subtopology_id: str
    partition: int
    offset: int

@final
@dataclass(frozen=True, kw_only=True)
class TaskIds:
    subtopology_id: str
    partitions: tuple[int, ...]

class TaskIdsFields(TypedDict, total=False):
    subtopology_id: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class Assignment:
    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]

class AssignmentFields(TypedDict, total=False):
    active_tasks: Iterable[TaskIdsFields]
    standby_tasks: Iterable[TaskIdsFields]
    warmup_tasks: Iterable[TaskIdsFields]

@final
@dataclass(frozen=True, kw_only=True)
class Member:
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]
    task_offsets: tuple[TaskOffset, ...]
    task_end_offsets: tuple[TaskOffset, ...]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool

class MemberFields(TypedDict, total=False):
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: EndpointFields | None
    client_tags: Iterable[KeyValueFields]
    task_offsets: Iterable[TaskOffsetFields]
    task_end_offsets: Iterable[TaskOffsetFields]
    assignment: AssignmentFields
    target_assignment: AssignmentFields
    is_classic: bool

@final
@dataclass(frozen=True, kw_only=True)
class DescribedGroup:
    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: Topology | None
    members: tuple[Member, ...]
    authorized_operations: int

class DescribedGroupFields(TypedDict, total=False):
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    topology: TopologyFields | None
    members: Iterable[MemberFields]
    authorized_operations: int

@final
@dataclass(frozen=True, kw_only=True)
class StreamsGroupDescribeResponse(Answers[StreamsGroupDescribeRequest]):
    throttle_time: timedelta
    groups: tuple[DescribedGroup, ...]

class StreamsGroupDescribeResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    groups: Iterable[DescribedGroupFields]

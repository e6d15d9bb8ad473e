"""StreamsGroupHeartbeatRequest (key 88) and its answer, version 0.

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
class CopartitionGroup:
    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]

class CopartitionGroupFields(TypedDict, total=False):
    source_topics: Iterable[int]
    source_topic_regex: Iterable[int]
    repartition_source_topics: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[TopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[TopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

class SubtopologyFields(TypedDict, total=False):
    subtopology_id: str
    source_topics: Iterable[str]
    source_topic_regex: Iterable[str]
    state_changelog_topics: Iterable[TopicInfoFields]
    repartition_sink_topics: Iterable[str]
    repartition_source_topics: Iterable[TopicInfoFields]
    copartition_groups: Iterable[CopartitionGroupFields]

@final
@dataclass(frozen=True, kw_only=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...]

class TopologyFields(TypedDict, total=False):
    epoch: int
    subtopologies: Iterable[SubtopologyFields]

@final
@dataclass(frozen=True, kw_only=True)
class AskedTaskIds:
    subtopology_id: str
    partitions: tuple[int, ...]

class AskedTaskIdsFields(TypedDict, total=False):
    subtopology_id: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class AskedEndpoint:
    host: str
    port: int

class AskedEndpointFields(TypedDict, total=False):
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
class StreamsGroupHeartbeatRequest(Asks[StreamsGroupHeartbeatResponse]):
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta
    topology: Topology | None
    active_tasks: tuple[AskedTaskIds, ...] | None
    standby_tasks: tuple[AskedTaskIds, ...] | None
    warmup_tasks: tuple[AskedTaskIds, ...] | None
    process_id: str | None
    user_endpoint: AskedEndpoint | None
    client_tags: tuple[KeyValue, ...] | None
    task_offsets: tuple[TaskOffset, ...] | None
    task_end_offsets: tuple[TaskOffset, ...] | None
    shutdown_application: bool

class StreamsGroupHeartbeatRequestFields(TypedDict, total=False):
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta | int
    topology: TopologyFields | None
    active_tasks: Iterable[AskedTaskIdsFields] | None
    standby_tasks: Iterable[AskedTaskIdsFields] | None
    warmup_tasks: Iterable[AskedTaskIdsFields] | None
    process_id: str | None
    user_endpoint: AskedEndpointFields | None
    client_tags: Iterable[KeyValueFields] | None
    task_offsets: Iterable[TaskOffsetFields] | None
    task_end_offsets: Iterable[TaskOffsetFields] | None
    shutdown_application: bool

@final
@dataclass(frozen=True, kw_only=True)
class Status:
    status_code: int
    status_detail: str

class StatusFields(TypedDict, total=False):
    status_code: int
    status_detail: str

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredTaskIds:
    subtopology_id: str
    partitions: tuple[int, ...]

class AnsweredTaskIdsFields(TypedDict, total=False):
    subtopology_id: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class AnsweredEndpoint:
    host: str
    port: int

class AnsweredEndpointFields(TypedDict, total=False):
    host: str
    port: int

@final
@dataclass(frozen=True, kw_only=True)
class TopicPartition:
    topic: str
    partitions: tuple[int, ...]

class TopicPartitionFields(TypedDict, total=False):
    topic: str
    partitions: Iterable[int]

@final
@dataclass(frozen=True, kw_only=True)
class EndpointToPartitions:
    user_endpoint: AnsweredEndpoint
    active_partitions: tuple[TopicPartition, ...]
    standby_partitions: tuple[TopicPartition, ...]

class EndpointToPartitionsFields(TypedDict, total=False):
    user_endpoint: AnsweredEndpointFields
    active_partitions: Iterable[TopicPartitionFields]
    standby_partitions: Iterable[TopicPartitionFields]

@final
@dataclass(frozen=True, kw_only=True)
class StreamsGroupHeartbeatResponse(Answers[StreamsGroupHeartbeatRequest]):
    throttle_time: timedelta
    error_code: ErrorCode
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval: timedelta
    acceptable_recovery_lag: int
    task_offset_interval: timedelta
    status: tuple[Status, ...] | None
    active_tasks: tuple[AnsweredTaskIds, ...] | None
    standby_tasks: tuple[AnsweredTaskIds, ...] | None
    warmup_tasks: tuple[AnsweredTaskIds, ...] | None
    endpoint_information_epoch: int
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None

class StreamsGroupHeartbeatResponseFields(TypedDict, total=False):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval: timedelta | int
    acceptable_recovery_lag: int
    task_offset_interval: timedelta | int
    status: Iterable[StatusFields] | None
    active_tasks: Iterable[AnsweredTaskIdsFields] | None
    standby_tasks: Iterable[AnsweredTaskIdsFields] | None
    warmup_tasks: Iterable[AnsweredTaskIdsFields] | None
    endpoint_information_epoch: int
    partitions_by_user_endpoint: Iterable[EndpointToPartitionsFields] | None

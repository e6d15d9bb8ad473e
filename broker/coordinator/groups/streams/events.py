"""The requests to the group coordinator about streams groups (KIP-1071) and its answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from broker.coordinator.groups.streams.configured import InternalTopic
from broker.coordinator.groups.streams.tasks import TaskMap, Tasks
from broker.coordinator.groups.streams.topology import Topology
from broker.wire.errors import ErrorCode

Endpoint: TypeAlias = tuple[str, int]  # host and port, for interactive queries
TopicPartitions: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeat:
    """A field that is None (for the timeout: -1) has the same value as in the previous heartbeat."""

    token: int
    group_id: str
    member_id: str
    member_epoch: int  # 0 joins, -1 and -2 leave
    endpoint_epoch: int  # the last endpoint information that the member has
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: Topology | None
    owned: Tasks | None
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: Mapping[str, str] | None
    shutdown_application: bool
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPartitions:
    endpoint: Endpoint
    active: TopicPartitions
    standby: TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeatResult:
    """`topics_to_create` are internal topics that the caller must now create. `assignment` and `endpoints` are None if
    the member knows them already."""

    error_code: ErrorCode
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    is_heartbeat: bool = False  # the member stays: the answer has a heartbeat interval
    statuses: tuple[tuple[StatusCode, str], ...] = ()
    assignment: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    topics_to_create: Mapping[str, InternalTopic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeStreamsGroup:
    token: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsMember:
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    user_endpoint: Endpoint | None
    client_tags: Mapping[str, str]
    assignment: Tasks
    target: Tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedSubtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_source_topics: tuple[InternalTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsGroup:
    """The internal topics have their number of partitions if the topology fits the topics of the cluster."""

    state: str
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[DescribedSubtopology, ...]
    members: tuple[DescribedStreamsMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSettingsChanged:
    """The settings of streams groups that have their own, by group id. They take effect with the next heartbeat of a
    member."""

    session_timeouts_ms: Mapping[str, int] = field(default_factory=dict)
    assignment_intervals_ms: Mapping[str, int] = field(default_factory=dict)
    initial_delays_ms: Mapping[str, int] = field(default_factory=dict)
    standby_replicas: Mapping[str, int] = field(default_factory=dict)
    assignment_interval_ms: int | None = None  # of the other groups; None: that of the configuration


def sets_of(held: Mapping[str, Mapping[int, int]]) -> TaskMap:
    """Active tasks without their epochs."""
    return {subtopology_id: frozenset(epochs) for subtopology_id, epochs in held.items()}

"""Fits the topology of a streams group to the topics of the cluster (KIP-1071). It is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from broker.coordinator.groups.streams.tasks import TaskMap
from broker.coordinator.groups.streams.topology import Topology


class InvalidTopologyError(Exception):
    """No topics can make this topology work. On the wire it is STREAMS_INVALID_TOPOLOGY, with the same message."""


class ProblemCode(IntEnum):
    """The numbers are those of the status in the response of a heartbeat."""

    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    code: ProblemCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    name: str
    partitions: int
    replication_factor: int  # 0: the default of the cluster
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredSubtopology:
    tasks: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, InternalTopic]

    @property
    def is_stateful(self) -> bool:
        return bool(self.state_changelog_topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredTopology:
    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None  # sorted by id; None if the topics do not fit
    topics_to_create: Mapping[str, InternalTopic] = field(default_factory=dict)
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, topic_partitions: Mapping[str, int]) -> ConfiguredTopology:
    """`topic_partitions` are the topics of the cluster that the member may see. Raises InvalidTopologyError."""
    raise NotImplementedError


def endpoint_partitions(
    tasks: TaskMap, topology: ConfiguredTopology, topic_partitions: Mapping[str, int]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The partitions of source topics that these tasks read, by topic: what interactive queries are routed by."""
    raise NotImplementedError

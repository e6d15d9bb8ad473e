"""The topology of a streams group (KIP-1071), as the members send it and as the log keeps it. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """An internal topic of the group: a changelog or a repartition topic."""

    name: str
    partitions: int = 0  # 0: the coordinator decides
    replication_factor: int = 0  # 0: the default of the cluster
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    """Topics that must have the same number of partitions. The fields are indexes into the lists of the subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

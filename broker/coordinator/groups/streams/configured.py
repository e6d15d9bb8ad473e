"""Fits the topology of a streams group to the topics of the cluster (KIP-1071). It is pure.

1. All source topics must exist.
2. A repartition topic gets as many partitions as the largest input of a subtopology that writes to it.
3. Co-partitioned topics must have the same number. Repartition topics among them take the number of the others.
4. A changelog topic gets as many partitions as its subtopology has tasks.
5. Internal topics that exist must have these numbers. Those that do not exist must be created.

Subtopologies and topics are taken in the order of Kafka's hash maps (java_order.py): the order decides which topic a
message names, and in some topologies which number a topic gets. Shown by
tests/broker_coordinator/test_coordinator_streams_configured.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum

from broker.coordinator.groups.streams.java_order import hash_order
from broker.coordinator.groups.streams.tasks import TaskMap
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology

# All tasks of a group are assigned at once: 5,000 take about 50 ms, so these take about a second. Kafka has no limit.
TASKS_MAX = 100_000
_NAMED_TOPICS = 3  # how many topics a message names


class InvalidTopologyError(Exception):
    """No topics can make this topology work. On the wire it is STREAMS_INVALID_TOPOLOGY, with the same message."""


class BrokenTopologyError(Exception):
    """The topology contradicts itself: a name is there twice, or an index or a number is out of range. Kafka does not
    check this before, and answers UNKNOWN_SERVER_ERROR."""


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


class _Misfit(Exception):
    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(code=code, message=message)


def configure(topology: Topology, topic_partitions: Mapping[str, int]) -> ConfiguredTopology:
    """`topic_partitions` are the topics of the cluster. Raises InvalidTopologyError and BrokenTopologyError.

    If source topics are missing or a number of partitions is wrong, there are no subtopologies. If only internal topics
    are missing, there are.
    """
    subtopologies = _ordered(topology)
    groups = [_topics_of(each, group) for each in subtopologies for group in each.copartition_groups]
    try:
        _check_source_topics(subtopologies, topic_partitions)
        counts = _Counts(subtopologies, topic_partitions)
        counts.decide_repartition_topics()
        for group in groups:
            counts.decide_copartitioned(group)
        counts.decide_changelog_topics()
        configured = {each.subtopology_id: _configured(each, counts) for each in subtopologies}
        configured = dict(sorted(configured.items()))
        tasks = sum(each.tasks for each in configured.values())
        if tasks > TASKS_MAX:
            raise InvalidTopologyError(f"The topology has {tasks} tasks; at most {TASKS_MAX} are supported.")
        to_create = _missing_topics(configured, subtopologies, topic_partitions)
    except _Misfit as misfit:
        return ConfiguredTopology(epoch=topology.epoch, subtopologies=None, problem=misfit.problem)
    problem = None
    if to_create:
        message = f"Internal topics are missing: {_summary(to_create)}"
        problem = Problem(code=ProblemCode.MISSING_INTERNAL_TOPICS, message=message)
    return ConfiguredTopology(
        epoch=topology.epoch, subtopologies=configured, topics_to_create=to_create, problem=problem
    )


def endpoint_partitions(
    tasks: TaskMap, topology: ConfiguredTopology, topic_partitions: Mapping[str, int]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The partitions that these tasks read, for each topic of each subtopology. Interactive queries are routed by them.

    If a topic has fewer partitions than there are tasks in the set, Kafka names the first task indexes, as many as the
    topic has partitions. So do we, though some of them may be no partitions of the topic. All topics must exist.
    """
    assert topology.subtopologies is not None
    inputs = {
        name: sorted(each.source_topics | each.repartition_source_topics.keys())
        for name, each in topology.subtopologies.items()
    }
    return tuple(
        (topic, tuple(sorted(indexes)[: topic_partitions[topic]]))
        for name, indexes in sorted(tasks.items())
        for topic in inputs[name]
    )


class _Counts:
    """The numbers of partitions: those of the topics that exist, and those that are decided for the others."""

    def __init__(self, subtopologies: Sequence[Subtopology], existing: Mapping[str, int]) -> None:
        self._subtopologies = subtopologies
        self._existing = existing
        self.decided: dict[str, int] = {}
        topics = [topic for each in subtopologies for topic in each.repartition_source_topics]
        self._fixed = {topic.name for topic in topics if topic.partitions != 0}
        self._flexible = {topic.name for topic in topics if topic.partitions == 0}
        self._fixed_counts: set[int] = set()

    def of(self, topic: str) -> int:
        """The number of a topic that exists counts more than a decision."""
        return self._existing[topic] if topic in self._existing else self.decided[topic]

    def decide_repartition_topics(self) -> None:
        decided = {
            topic.name: topic.partitions
            for each in self._subtopologies
            for topic in each.repartition_source_topics
            if topic.partitions != 0
        }
        self._decide_sinks(decided)
        if any(topic not in decided for each in self._subtopologies for topic in each.repartition_sink_topics):
            raise InvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved."
            )
        if not self._fixed | self._flexible <= decided.keys():
            raise InvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics, because a repartition source topic "
                "is never used as a sink topic."
            )
        self.decided.update(decided)
        self._fixed_counts = {self.of(topic) for topic in self._fixed}

    def _decide_sinks(self, decided: dict[str, int]) -> None:
        """Kafka goes through the subtopologies in rounds. When it meets the first known input of a subtopology, it
        decides all the sinks, even if other inputs are still unknown. The heap gives the same order, and meets each
        subtopology once: otherwise a long chain of subtopologies would take time by the square of its length."""
        readers: dict[str, list[int]] = {}
        for index, each in enumerate(self._subtopologies):
            for source in each.repartition_source_topics:
                readers.setdefault(source.name, []).append(index)
        due = [(0, index) for index, each in enumerate(self._subtopologies) if self._known_inputs(each, decided)]
        met = {index for _, index in due}
        while due:
            round_number, index = heapq.heappop(due)
            subtopology = self._subtopologies[index]
            count = max(self._known_inputs(subtopology, decided))
            for topic in subtopology.repartition_sink_topics:
                if topic in decided:
                    continue
                decided[topic] = count
                for reader in readers.get(topic, ()):
                    if reader not in met:
                        met.add(reader)
                        heapq.heappush(due, (round_number + (reader < index), reader))

    def _known_inputs(self, subtopology: Subtopology, decided: Mapping[str, int]) -> list[int]:
        inputs = [decided.get(source.name) for source in subtopology.repartition_source_topics]
        inputs += [self._existing.get(source) for source in subtopology.source_topics]
        return [count for count in inputs if count is not None]

    def decide_copartitioned(self, group: Collection[str]) -> None:
        if not group:
            return
        internal = {topic: self.of(topic) for topic in group if topic in self._fixed or topic in self._flexible}
        external = {topic: self.of(topic) for topic in group if topic not in internal}
        if external:
            count = _common(set(external.values()), external)
        elif self._fixed:
            # Kafka compares all topics with a given number, whether they belong to this group or not.
            count = _common(self._fixed_counts, internal)
        else:
            count = max(internal.values())
            if count < 1:
                names = ", ".join(_map_order(group, internal))
                raise InvalidTopologyError(
                    f"All topics in the copartition group had undefined partition number: [{names}]"
                )
        wrong = {topic for topic, present in internal.items() if topic in self._fixed and present != count}
        if wrong:
            topic = next(topic for topic in _map_order(group, internal) if topic in wrong)
            raise _Misfit(
                ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{internal[topic]}] of repartition topic [{topic}] doesn't match number of "
                f"partitions [{count}] of the source topic.",
            )
        self.decided.update(dict.fromkeys(internal, count))

    def decide_changelog_topics(self) -> None:
        decided: dict[str, int] = {}
        for subtopology in self._subtopologies:
            if not _inputs(subtopology):
                raise InvalidTopologyError(f"No source topics found for subtopology {subtopology.subtopology_id}")
            tasks = max(self.of(topic) for topic in _inputs(subtopology))
            decided.update({topic.name: tasks for topic in subtopology.state_changelog_topics})
        self.decided.update(decided)


def _map_order(group: Collection[str], internal: Collection[str]) -> list[str]:
    """The topics of a hash map that is filled with some of the topics of a hash set."""
    return hash_order(topic for topic in hash_order(group) if topic in internal)


def _common(counts: Set[int], topics: Mapping[str, int]) -> int:
    if len(counts) > 1:
        listed = ", ".join(f"{topic}={count}" for topic, count in sorted(topics.items()))
        raise _Misfit(
            ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
            f"Following topics do not have the same number of partitions: [{{{listed}}}]",
        )
    return next(iter(counts))


def _ordered(topology: Topology) -> list[Subtopology]:
    by_id = {each.subtopology_id: each for each in topology.subtopologies}
    if len(by_id) < len(topology.subtopologies):
        raise BrokenTopologyError("two subtopologies have the same id")
    return [by_id[subtopology_id] for subtopology_id in hash_order(by_id)]


def _topics_of(subtopology: Subtopology, group: CopartitionGroup) -> list[str]:
    """Topics that a pattern matches are left out, as in Kafka."""
    internal = [topic.name for topic in subtopology.repartition_source_topics]
    for indexes, topics in (
        (group.source_topics, subtopology.source_topics),
        (group.repartition_source_topics, internal),
    ):
        if not all(0 <= index < len(topics) for index in indexes):
            raise BrokenTopologyError(
                f"subtopology {subtopology.subtopology_id}: a co-partition group has a wrong index"
            )
    names = [subtopology.source_topics[index] for index in group.source_topics]
    return list(dict.fromkeys([*names, *(internal[index] for index in group.repartition_source_topics)]))


def _inputs(subtopology: Subtopology) -> list[str]:
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def _check_source_topics(subtopologies: Collection[Subtopology], existing: Mapping[str, int]) -> None:
    missing = {topic for each in subtopologies for topic in each.source_topics if topic not in existing}
    if missing:
        raise _Misfit(ProblemCode.MISSING_SOURCE_TOPICS, f"Source topics {_summary(sorted(missing))} are missing.")


def _configured(subtopology: Subtopology, counts: _Counts) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(
        tasks=max(counts.of(topic) for topic in _inputs(subtopology)),
        source_topics=frozenset(subtopology.source_topics),
        repartition_source_topics=_internal_topics(subtopology.repartition_source_topics, counts),
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        state_changelog_topics=_internal_topics(subtopology.state_changelog_topics, counts),
    )


def _internal_topics(topics: Collection[TopicInfo], counts: _Counts) -> dict[str, InternalTopic]:
    found: dict[str, InternalTopic] = {}
    for topic in topics:
        partitions = topic.partitions or counts.decided[topic.name]
        if topic.name in found or partitions < 1 or len(dict(topic.configs)) < len(topic.configs):
            raise BrokenTopologyError(
                f"internal topic {topic.name}: it is there twice, or has a wrong number or settings"
            )
        found[topic.name] = InternalTopic(
            name=topic.name,
            partitions=partitions,
            replication_factor=topic.replication_factor,
            configs=topic.configs,
        )
    return found


def _missing_topics(
    configured: Mapping[str, ConfiguredSubtopology],
    subtopologies: Collection[Subtopology],
    existing: Mapping[str, int],
) -> dict[str, InternalTopic]:
    internal: dict[str, InternalTopic] = {}
    for each in configured.values():
        for topics in (each.repartition_source_topics, each.state_changelog_topics):
            internal.update({name: topics[name] for name in hash_order(topics)})
    for name in hash_order(_required(subtopologies)):
        topic = internal.get(name)
        if topic is not None and name in existing and existing[name] != topic.partitions:
            raise _Misfit(
                ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {topic.partitions}, "
                f"found {existing[name]}",
            )
    return {name: internal[name] for name in hash_order(internal) if name not in existing}


def _required(subtopologies: Collection[Subtopology]) -> Iterator[str]:
    for each in subtopologies:
        yield from _inputs(each)
        yield from (topic.name for topic in each.state_changelog_topics)


def _summary(topics: Collection[str]) -> str:
    named = ", ".join(list(topics)[:_NAMED_TOPICS])
    more = len(topics) - _NAMED_TOPICS
    return f"{named} and {more} additional topics" if more > 0 else named

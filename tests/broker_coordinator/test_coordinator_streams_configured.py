"""The topology of a streams group is fitted to the topics of the cluster: numbers of partitions, and what is wrong."""

from __future__ import annotations

import time

import pytest
from streams_cases import BROKEN

from broker.coordinator.groups.streams.configured import (
    TASKS_MAX,
    BrokenTopologyError,
    InternalTopic,
    InvalidTopologyError,
    Problem,
    ProblemCode,
    configure,
    endpoint_partitions,
)
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology

CPU_S_MAX = 5.0  # the chain of 10,000 subtopologies takes 0.3 s on a quiet host


def topology(*subtopologies: Subtopology) -> Topology:
    return Topology(epoch=3, subtopologies=subtopologies)


def writer(*sinks: str, source: str = "in", name: str = "0") -> Subtopology:
    return Subtopology(subtopology_id=name, source_topics=(source,), repartition_sink_topics=sinks)


def reader(*internal: TopicInfo, source: str | None = None, copartitioned: bool = False) -> Subtopology:
    group = CopartitionGroup(
        source_topics=(0,) if source else (), repartition_source_topics=tuple(range(len(internal)))
    )
    return Subtopology(
        subtopology_id="1",
        source_topics=(source,) if source else (),
        repartition_source_topics=internal,
        copartition_groups=(group,) if copartitioned else (),
    )


def partitions(given: Topology, topics: dict[str, int]) -> dict[str, int]:
    return {name: topic.partitions for name, topic in configure(given, topics).topics_to_create.items()}


def problem(given: Topology, topics: dict[str, int]) -> tuple[ProblemCode, str]:
    configured = configure(given, topics)
    assert not configured.is_ready
    assert configured.problem is not None
    if configured.problem.code is not ProblemCode.MISSING_INTERNAL_TOPICS:
        assert configured.subtopologies is None
        assert not configured.topics_to_create
    return configured.problem.code, configured.problem.message


# -- source topics ---------------------------------------------------------------------------------------------------


def test_a_subtopology_has_as_many_tasks_as_its_largest_input() -> None:
    given = topology(Subtopology(subtopology_id="0", source_topics=("a", "b")))
    configured = configure(given, {"a": 2, "b": 5, "other": 9})
    assert configured.is_ready
    assert configured.epoch == 3
    assert configured.subtopologies is not None
    assert configured.subtopologies["0"].tasks == 5
    assert not configured.subtopologies["0"].is_stateful


def test_missing_source_topics_are_named_three_at_most() -> None:
    given = topology(Subtopology(subtopology_id="0", source_topics=("e", "b", "c", "a", "d")))
    assert problem(given, {"d": 1}) == (
        ProblemCode.MISSING_SOURCE_TOPICS,
        "Source topics a, b, c and 1 additional topics are missing.",
    )
    assert problem(given, {"a": 1, "c": 1, "d": 1}) == (
        ProblemCode.MISSING_SOURCE_TOPICS,
        "Source topics b, e are missing.",
    )


def test_a_subtopology_without_inputs_is_invalid() -> None:
    with pytest.raises(InvalidTopologyError, match="No source topics found for subtopology 0"):
        configure(topology(Subtopology(subtopology_id="0")), {})


# -- repartition topics ----------------------------------------------------------------------------------------------


def test_a_repartition_topic_gets_the_number_of_the_largest_input_of_its_writer() -> None:
    first = Subtopology(subtopology_id="0", source_topics=("a", "b"), repartition_sink_topics=("r",))
    given = topology(first, reader(TopicInfo(name="r", replication_factor=3, configs=(("k", "v"),))))
    configured = configure(given, {"a": 2, "b": 4})
    expected = InternalTopic(name="r", partitions=4, replication_factor=3, configs=(("k", "v"),))
    assert configured.topics_to_create == {"r": expected}
    assert configured.problem == Problem(
        code=ProblemCode.MISSING_INTERNAL_TOPICS, message="Internal topics are missing: r"
    )
    assert configured.subtopologies is not None, "the numbers of tasks are known already"
    assert configured.subtopologies["1"].tasks == 4


def test_a_given_number_counts_more_than_the_input() -> None:
    assert partitions(topology(writer("r"), reader(TopicInfo(name="r", partitions=7))), {"in": 2}) == {"r": 7}


def test_numbers_are_handed_down_a_chain_of_subtopologies_in_any_order() -> None:
    chain = [
        Subtopology(
            subtopology_id=str(index),
            repartition_source_topics=(TopicInfo(name=f"r{index + 1}"),),
            repartition_sink_topics=(f"r{index}",) if index else (),
        )
        for index in range(4)
    ]
    last = Subtopology(subtopology_id="4", source_topics=("in",), repartition_sink_topics=("r4",))
    assert partitions(topology(*chain, last), {"in": 6}) == {"r1": 6, "r2": 6, "r3": 6, "r4": 6}


def test_the_first_known_input_decides_even_if_a_larger_one_is_known_later() -> None:
    first = Subtopology(
        subtopology_id="0",
        source_topics=("small",),
        repartition_source_topics=(TopicInfo(name="late"),),
        repartition_sink_topics=("out",),
    )
    second = Subtopology(subtopology_id="1", source_topics=("large",), repartition_sink_topics=("late",))
    third = Subtopology(subtopology_id="2", repartition_source_topics=(TopicInfo(name="out"),))
    given = topology(first, second, third)
    assert partitions(given, {"small": 1, "large": 5}) == {"late": 5, "out": 1}


def test_a_loop_without_an_entry_is_invalid() -> None:
    loop = Subtopology(
        subtopology_id="0", repartition_source_topics=(TopicInfo(name="r"),), repartition_sink_topics=("r",)
    )
    with pytest.raises(InvalidTopologyError, match="There may be loops in the topology"):
        configure(topology(loop), {})


def test_a_repartition_topic_that_nobody_writes_is_invalid() -> None:
    with pytest.raises(InvalidTopologyError, match="a repartition source topic is never used as a sink topic"):
        configure(topology(reader(TopicInfo(name="r"), source="in")), {"in": 1})


# -- co-partitioned topics -------------------------------------------------------------------------------------------


def test_a_flexible_topic_takes_the_number_of_the_source_topic_beside_it() -> None:
    given = topology(writer("r"), reader(TopicInfo(name="r"), source="other", copartitioned=True))
    assert partitions(given, {"in": 2, "other": 5}) == {"r": 5}


def test_a_flexible_topic_takes_the_number_of_a_fixed_one() -> None:
    given = topology(
        writer("r", "f"), reader(TopicInfo(name="r"), TopicInfo(name="f", partitions=3), copartitioned=True)
    )
    assert partitions(given, {"in": 2}) == {"r": 3, "f": 3}


def test_flexible_topics_take_the_largest_number() -> None:
    given = topology(
        writer("r"),
        Subtopology(subtopology_id="2", source_topics=("other",), repartition_sink_topics=("s",)),
        reader(TopicInfo(name="r"), TopicInfo(name="s"), copartitioned=True),
    )
    assert partitions(given, {"in": 2, "other": 5}) == {"r": 5, "s": 5}


def test_source_topics_of_a_group_must_have_the_same_number() -> None:
    group = CopartitionGroup(source_topics=(1, 0))
    given = topology(Subtopology(subtopology_id="0", source_topics=("b", "a"), copartition_groups=(group,)))
    assert configure(given, {"a": 2, "b": 2}).is_ready
    assert problem(given, {"a": 2, "b": 3}) == (
        ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Following topics do not have the same number of partitions: [{a=2, b=3}]",
    )


def test_a_fixed_topic_must_have_the_number_of_the_source_topic() -> None:
    given = topology(writer("f"), reader(TopicInfo(name="f", partitions=3), source="other", copartitioned=True))
    assert problem(given, {"in": 2, "other": 5}) == (
        ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Number of partitions [3] of repartition topic [f] doesn't match number of partitions [5] of the source topic.",
    )


def test_fixed_topics_must_all_have_the_same_number_if_a_group_has_no_source_topic() -> None:
    given = topology(
        writer("f", "g"),
        reader(TopicInfo(name="f", partitions=3), copartitioned=True),
        Subtopology(subtopology_id="2", repartition_source_topics=(TopicInfo(name="g", partitions=4),)),
    )
    code, message = problem(given, {"in": 2})
    assert code is ProblemCode.INCORRECTLY_PARTITIONED_TOPICS
    assert message == "Following topics do not have the same number of partitions: [{f=3}]", "as Kafka names them"


def test_an_empty_group_asks_for_nothing() -> None:
    given = topology(Subtopology(subtopology_id="0", source_topics=("in",), copartition_groups=(CopartitionGroup(),)))
    assert configure(given, {"in": 1}).is_ready


# -- internal topics -------------------------------------------------------------------------------------------------


def stateful(*changelogs: str) -> Topology:
    infos = tuple(TopicInfo(name=name) for name in changelogs)
    return topology(Subtopology(subtopology_id="0", source_topics=("in",), state_changelog_topics=infos))


def test_a_changelog_topic_gets_a_partition_for_each_task() -> None:
    configured = configure(stateful("c"), {"in": 4})
    assert {name: topic.partitions for name, topic in configured.topics_to_create.items()} == {"c": 4}
    assert configured.subtopologies is not None
    assert configured.subtopologies["0"].is_stateful


def test_topics_that_exist_are_not_created() -> None:
    configured = configure(stateful("c", "d"), {"in": 4, "c": 4, "d": 4})
    assert configured.is_ready
    assert not configured.topics_to_create


def test_an_internal_topic_that_exists_must_have_the_right_number() -> None:
    assert problem(stateful("c"), {"in": 4, "c": 3}) == (
        ProblemCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic c has different number of partitions: expected 4, found 3",
    )


def test_missing_internal_topics_are_named_three_at_most() -> None:
    assert problem(stateful("a", "b", "c", "d"), {"in": 1}) == (
        ProblemCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: a, b, c and 1 additional topics",
    )


# -- what no client sends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtopologies", BROKEN)
def test_a_topology_that_contradicts_itself_is_refused(subtopologies: tuple[Subtopology, ...]) -> None:
    with pytest.raises(BrokenTopologyError):
        configure(topology(*subtopologies), {"in": 2})


def test_a_group_has_a_limit_of_tasks() -> None:
    given = topology(*(writer(name=str(index)) for index in range(4)))
    assert configure(given, {"in": TASKS_MAX // 4}).is_ready
    with pytest.raises(InvalidTopologyError, match=f"has {TASKS_MAX + 4} tasks"):
        configure(given, {"in": TASKS_MAX // 4 + 1})


def test_a_long_chain_takes_time_by_its_length_alone() -> None:
    chain = [
        Subtopology(
            subtopology_id=str(index),
            repartition_source_topics=(TopicInfo(name=f"r{index + 1}"),),
            repartition_sink_topics=(f"r{index}",),
        )
        for index in range(10_000)
    ]
    last = Subtopology(subtopology_id="last", source_topics=("in",), repartition_sink_topics=("r10000",))
    begin = time.thread_time()
    assert set(partitions(topology(*chain, last), {"in": 2}).values()) == {2}
    assert time.thread_time() - begin < CPU_S_MAX


# -- endpoints -------------------------------------------------------------------------------------------------------


def test_an_endpoint_has_the_partitions_of_all_inputs_of_its_tasks() -> None:
    given = topology(writer("r"), reader(TopicInfo(name="r"), source="other"))
    topics = {"in": 2, "other": 3, "r": 2}
    configured = configure(given, topics)
    tasks = {"1": frozenset({0, 2}), "0": frozenset({1})}
    assert endpoint_partitions(tasks, configured, topics) == (("in", (1,)), ("other", (0, 2)), ("r", (0, 2)))


def test_a_topic_with_fewer_partitions_gets_the_first_tasks() -> None:
    given = topology(Subtopology(subtopology_id="0", source_topics=("a", "b")))
    topics = {"a": 1, "b": 3}
    found = endpoint_partitions({"0": frozenset({1, 2})}, configure(given, topics), topics)
    assert found == (("a", (1,)), ("b", (1, 2))), "as Kafka does it, though the topic a has no partition 1"

"""Random cases for the cores of streams groups, and how they are written for java/StreamsCores.java."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from broker.coordinator.groups.streams.assignor import StreamsMemberSpec, assign
from broker.coordinator.groups.streams.configured import ConfiguredSubtopology, ConfiguredTopology, InternalTopic
from broker.coordinator.groups.streams.reconcile import Current, Holders, MemberState
from broker.coordinator.groups.streams.tasks import EpochMap, HeldTasks, TaskId, TaskMap, Tasks
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology

Json = dict[str, Any]


# -- assignments -----------------------------------------------------------------------------------------------------


def ready(subtopologies: Mapping[str, tuple[int, bool]]) -> ConfiguredTopology:
    """Of each subtopology: the number of its tasks, and whether it has state."""
    return ConfiguredTopology(
        epoch=1,
        subtopologies={
            name: ConfiguredSubtopology(
                tasks=tasks,
                source_topics=frozenset({f"input-{name}"}),
                repartition_source_topics={},
                repartition_sink_topics=frozenset(),
                state_changelog_topics={
                    f"changelog-{name}": InternalTopic(
                        name=f"changelog-{name}", partitions=tasks, replication_factor=0, configs=()
                    )
                }
                if is_stateful
                else {},
            )
            for name, (tasks, is_stateful) in sorted(subtopologies.items())
        },
    )


def _name(rng: random.Random) -> str:
    """Short names fall into the same bucket of a hash map often, long names are as in life."""
    return "".join(rng.choices("0123456789abcdefé", k=rng.choice((1, 2, 20, 36))))


def assignment_case(rng: random.Random) -> tuple[list[StreamsMemberSpec], dict[str, tuple[int, bool]], int]:
    """A group that has an assignment of before, after some members left and others came; or one with odd claims."""
    subtopologies = {
        str(number): (rng.randint(1, 12), rng.random() < 0.6) for number in range(rng.choice((1, 2, 3, 14)))
    }
    processes = [_name(rng) for _ in range(rng.randint(1, 12))]
    replicas = rng.choice((0, 0, 1, 1, 2, 3))
    names = {_name(rng) for _ in range(rng.randint(1, 25))}
    before = [StreamsMemberSpec(member_id=name, process_id=rng.choice(processes)) for name in sorted(names)]
    is_odd = rng.random() < 0.4
    for _ in range(rng.randint(0, 3)):
        if not before:
            break
        targets = assign(before, ready(subtopologies), standby_replicas=replicas)
        stayed = [member for member in before if rng.random() < 0.8]
        came = {_name(rng) for _ in range(rng.randint(0, 5))} - {member.member_id for member in before}
        present = {m.member_id: _odd(rng, targets[m.member_id]) if is_odd else targets[m.member_id] for m in stayed}
        before = [
            StreamsMemberSpec(member_id=m.member_id, process_id=m.process_id, present=present[m.member_id])
            for m in stayed
        ] + [StreamsMemberSpec(member_id=name, process_id=rng.choice(processes)) for name in sorted(came)]
    return [] if rng.random() < 0.03 else before, subtopologies, replicas


def _odd(rng: random.Random, tasks: Tasks) -> Tasks:
    """Tasks that others have too, that do not exist any more, or that change their kind."""
    some = {"0": frozenset(rng.sample(range(14), 3)), "gone": frozenset({1})}
    choices = (tasks, Tasks(active=tasks.standby, standby=tasks.active), Tasks(active=some), Tasks(standby=some))
    return rng.choice(choices)


def assignment_json(
    members: Collection[StreamsMemberSpec], subtopologies: Mapping[str, tuple[int, bool]], replicas: int
) -> Json:
    """Members are in the order of their ids: Kafka's hash map keeps it within a bucket."""
    return {
        "kind": "assign",
        "members": [
            {"id": member.member_id, "process": member.process_id, "present": tasks_json(member.present)}
            for member in sorted(members, key=lambda each: each.member_id)
        ],
        "subtopologies": [
            {"id": name, "tasks": tasks, "stateful": is_stateful}
            for name, (tasks, is_stateful) in subtopologies.items()
        ],
        "replicas": replicas,
    }


def tasks_json(tasks: Tasks) -> Json:
    return {"active": _sets(tasks.active), "standby": _sets(tasks.standby), "warmup": _sets(tasks.warmup)}


def _sets(tasks: TaskMap) -> dict[str, list[int]]:
    return {name: sorted(indexes) for name, indexes in sorted(tasks.items())}


def held_json(tasks: HeldTasks) -> Json:
    active = {name: [list(pair) for pair in sorted(epochs.items())] for name, epochs in sorted(tasks.active.items())}
    return {"active": active, "standby": _sets(tasks.standby), "warmup": _sets(tasks.warmup)}


# -- topics ----------------------------------------------------------------------------------------------------------


def topology_case(rng: random.Random) -> tuple[Topology, dict[str, int]]:
    """Few names and small numbers, so that topics often fit and often do not."""
    if rng.random() < 0.4:
        return _net_case(rng)
    sources = [f"in-{number}" for number in range(5)]
    internal = [f"{rng.choice('abcdefgh')}-repartition-{number}" for number in range(5)]
    numbers = (1, 2) if rng.random() < 0.5 else (1, 2, 3, 4)
    given = {name: rng.choice((0, 0, 0, *numbers)) for name in internal}
    subtopologies = [
        _subtopology(rng, str(number), sources, given) for number in range(rng.choice((1, 2, 2, 3, 4, 13)))
    ]
    if rng.random() < 0.7:  # each repartition topic has somebody who writes to it
        used = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
        first = subtopologies[0]
        written = {topic for each in subtopologies for topic in each.repartition_sink_topics}
        subtopologies[0] = Subtopology(
            subtopology_id=first.subtopology_id,
            source_topics=first.source_topics or ("in-0",),
            state_changelog_topics=first.state_changelog_topics,
            repartition_sink_topics=(*first.repartition_sink_topics, *sorted(used - written)),
            repartition_source_topics=first.repartition_source_topics,
            copartition_groups=first.copartition_groups,
        )
    topics = {name: rng.choice(numbers) for name in sources if rng.random() < 0.98}
    changelogs = [topic.name for each in subtopologies for topic in each.state_changelog_topics]
    if rng.random() < 0.6:
        topics.update({name: rng.choice(numbers) for name in [*internal, *changelogs] if rng.random() < 0.7})
    return Topology(epoch=rng.randint(0, 9), subtopologies=tuple(subtopologies)), topics


def _net_case(rng: random.Random) -> tuple[Topology, dict[str, int]]:
    """Subtopologies that get numbers from each other: the order in which they are met decides which number counts."""
    size = rng.randint(3, 9)
    topics = {f"in-{index}": index + 1 for index in range(size)}
    internal = [f"r{index}" for index in range(size)]
    writers = {name: rng.randrange(size) for name in internal}
    subtopologies = [
        Subtopology(
            subtopology_id=str(index),
            source_topics=(f"in-{index}",) if rng.random() < 0.4 else (),
            repartition_source_topics=tuple(
                TopicInfo(name=name) for name in rng.sample(internal, rng.choice((1, 2, 2)))
            ),
            repartition_sink_topics=tuple(name for name in internal if writers[name] == index),
        )
        for index in range(size)
    ]
    return Topology(epoch=1, subtopologies=tuple(subtopologies)), topics


def _subtopology(rng: random.Random, name: str, sources: list[str], given: Mapping[str, int]) -> Subtopology:
    inputs = tuple(rng.sample(sources, rng.choice((0, 1, 1, 1, 2, 3))))
    internal = tuple(
        TopicInfo(name=topic, partitions=given[topic], replication_factor=rng.choice((0, 1, 3)), configs=_configs(rng))
        for topic in rng.sample(sorted(given), rng.choice((0, 0, 1, 2)) if inputs else rng.choice((0, 1, 1, 1, 2, 2)))
    )
    changelogs = tuple(
        TopicInfo(name=f"{name}{letter}-changelog", replication_factor=rng.choice((0, 2)), configs=_configs(rng))
        for letter in rng.sample("xyz", rng.choice((0, 1, 2)))
    )
    return Subtopology(
        subtopology_id=name,
        source_topics=inputs,
        state_changelog_topics=changelogs,
        repartition_sink_topics=tuple(rng.sample(sorted(given), rng.choice((0, 0, 1, 2)))),
        repartition_source_topics=internal,
        copartition_groups=tuple(_group(rng, len(inputs), len(internal)) for _ in range(rng.choice((0, 0, 1, 2)))),
    )


def _group(rng: random.Random, inputs: int, internal: int) -> CopartitionGroup:
    wrong = rng.random() < 0.01
    return CopartitionGroup(
        source_topics=tuple(rng.sample(range(inputs), rng.randint(0, inputs))) + ((inputs,) if wrong else ()),
        repartition_source_topics=tuple(rng.sample(range(internal), rng.randint(0, internal))),
    )


def _configs(rng: random.Random) -> tuple[tuple[str, str], ...]:
    configs = (("cleanup.policy", "delete"), ("retention.ms", "-1"))
    return configs[: rng.randint(0, 2)] + ((configs[0],) if rng.random() < 0.003 else ())


def _broken(internal: tuple[TopicInfo, ...], *groups: CopartitionGroup) -> tuple[Subtopology, ...]:
    return (
        Subtopology(subtopology_id="0", source_topics=("in",), repartition_sink_topics=("r",)),
        Subtopology(
            subtopology_id="1",
            source_topics=("in",),
            repartition_source_topics=internal,
            copartition_groups=groups,
        ),
    )


# Kafka's classes fail on them, and the broker answers UNKNOWN_SERVER_ERROR. All have the source topic `in`.
BROKEN: tuple[tuple[Subtopology, ...], ...] = (
    (Subtopology(subtopology_id="0", source_topics=("in",)), Subtopology(subtopology_id="0", source_topics=("in",))),
    _broken((TopicInfo(name="r"), TopicInfo(name="r"))),
    _broken((TopicInfo(name="r", partitions=-1),)),
    _broken((TopicInfo(name="r", configs=(("k", "1"), ("k", "2"))),)),
    _broken((), CopartitionGroup(source_topics=(1,))),
    _broken((), CopartitionGroup(source_topics=(-1,))),
    _broken((), CopartitionGroup(repartition_source_topics=(0,))),
)


def topology_json(topology: Topology, topics: Mapping[str, int], active: EpochMap | None) -> Json:
    return {
        "kind": "configure",
        "topology": {
            "epoch": topology.epoch,
            "subtopologies": [
                {
                    "id": each.subtopology_id,
                    "sources": each.source_topics,
                    "regexes": each.source_topic_regex,
                    "changelog": [_topic_json(topic) for topic in each.state_changelog_topics],
                    "sinks": each.repartition_sink_topics,
                    "repartition": [_topic_json(topic) for topic in each.repartition_source_topics],
                    "copartition": [
                        [group.source_topics, group.source_topic_regex, group.repartition_source_topics]
                        for group in each.copartition_groups
                    ],
                }
                for each in topology.subtopologies
            ],
        },
        "topics": dict(topics),
        "active": None if active is None else held_json(HeldTasks(active=active)),
    }


def _topic_json(topic: TopicInfo) -> list[object]:
    return [topic.name, topic.partitions, topic.replication_factor, topic.configs]


def configured_json(configured: ConfiguredTopology) -> Json:
    found: Json = {"epoch": configured.epoch}
    if configured.problem is not None:
        found["problem"] = [int(configured.problem.code), configured.problem.message]
    # Kafka asks for the default of the cluster with -1 here, and writes 0 in descriptions.
    created = configured.topics_to_create.values()
    found["create"] = [[t.name, t.partitions, t.replication_factor or -1, dict(t.configs)] for t in created]
    if configured.subtopologies is not None:
        found["subtopologies"] = [
            {
                "id": name,
                "tasks": each.tasks,
                "sources": sorted(each.source_topics),
                "sinks": sorted(each.repartition_sink_topics),
                "repartition": _internal_json(each.repartition_source_topics),
                "changelog": _internal_json(each.state_changelog_topics),
            }
            for name, each in configured.subtopologies.items()
        ]
    return found


def _internal_json(topics: Mapping[str, InternalTopic]) -> list[list[object]]:
    return [[t.name, t.partitions, t.replication_factor, dict(t.configs)] for _, t in sorted(topics.items())]


# -- reconciliation --------------------------------------------------------------------------------------------------

_NAMES, _INDEXES, _PROCESSES = ("0", "1"), range(4), ("p1", "p2", "p3")


def _some(rng: random.Random) -> TaskMap:
    density = rng.choice((0.0, 0.3, 0.7, 1.0))
    found = {name: frozenset(index for index in _INDEXES if rng.random() < density) for name in _NAMES}
    return {name: indexes for name, indexes in found.items() if indexes}


def _some_tasks(rng: random.Random) -> Tasks:
    return Tasks(active=_some(rng), standby=_some(rng), warmup=_some(rng))


def _some_held(rng: random.Random, epoch: int) -> HeldTasks:
    tasks = _some_tasks(rng)
    active = {name: {index: rng.randint(1, epoch) for index in indexes} for name, indexes in tasks.active.items()}
    return HeldTasks(active=active, standby=tasks.standby, warmup=tasks.warmup)


def _flat(tasks: HeldTasks) -> Tasks:
    return Tasks(
        active={name: frozenset(epochs) for name, epochs in tasks.active.items()},
        standby=tasks.standby,
        warmup=tasks.warmup,
    )


def reconcile_case(rng: random.Random) -> Json:
    """The case itself, as `current`, `target`, ..., with the holders as maps."""
    epoch = rng.randint(1, 5)
    state = rng.choice(tuple(MemberState))
    current = Current(
        member_epoch=epoch,
        previous_member_epoch=rng.randint(0, epoch),
        state=state,
        assigned=_some_held(rng, epoch),
        pending_revocation=_some_held(rng, epoch) if state is MemberState.UNREVOKED_TASKS else HeldTasks(),
    )
    target = _flat(current.assigned) if rng.random() < 0.3 else _some_tasks(rng)
    owned = rng.choice((None, Tasks(), _flat(current.assigned), target, _some_tasks(rng)))
    tasks = [(name, index) for name in _NAMES for index in _INDEXES]
    density = rng.choice((0.0, 0.2, 0.6))
    return {
        "current": current,
        "target": target,
        "target_epoch": epoch + rng.choice((0, 0, 1, 2)),
        "owned": owned,
        "process": "p1",
        "active": {task: rng.choice(_PROCESSES) for task in tasks if rng.random() < density},
        "standby": _copies(rng, tasks, density),
        "warmup": _copies(rng, tasks, density),
    }


def _copies(rng: random.Random, tasks: list[TaskId], density: float) -> dict[TaskId, list[str]]:
    return {task: rng.sample(_PROCESSES, rng.randint(1, 2)) for task in tasks if rng.random() < density}


def holders_of(case: Json) -> Holders:
    active, standby, warmup = case["active"], case["standby"], case["warmup"]
    return Holders(
        active=lambda task: active.get(task),
        standby=lambda task: frozenset(standby.get(task, ())),
        warmup=lambda task: frozenset(warmup.get(task, ())),
    )


def reconcile_json(case: Json) -> Json:
    current: Current = case["current"]
    owned: Tasks | None = case["owned"]
    return {
        "kind": "reconcile",
        **current_json(current),
        "target": tasks_json(case["target"]),
        "target_epoch": case["target_epoch"],
        "owned": None if owned is None else tasks_json(owned),
        "process": case["process"],
        "holders": {
            kind: {f"{name}_{index}": value for (name, index), value in case[kind].items()}
            for kind in ("active", "standby", "warmup")
        },
    }


def current_json(current: Current) -> Json:
    return {
        "state": int(current.state),
        "epoch": current.member_epoch,
        "previous": current.previous_member_epoch,
        "assigned": held_json(current.assigned),
        "pending": held_json(current.pending_revocation),
    }

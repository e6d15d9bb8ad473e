"""The sticky assignor of streams groups: complete, even, and nothing moves without need."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams_cases import ready

from broker.coordinator.groups.streams.assignor import AssignorError, StreamsMemberSpec, assign
from broker.coordinator.groups.streams.configured import ConfiguredTopology, Problem, ProblemCode
from broker.coordinator.groups.streams.java_order import PriorityQueue, hash_order
from broker.coordinator.groups.streams.tasks import TaskId, TaskMap, Tasks
from tests.amount import examples

CPU_S_MAX = 2.0  # 1,000 members and 5,000 tasks with two standby replicas take 0.08 s on a quiet host


def member(name: str, process: str, present: Tasks | None = None) -> StreamsMemberSpec:
    return StreamsMemberSpec(member_id=name, process_id=process, present=present or Tasks())


def each(tasks: TaskMap) -> list[TaskId]:
    return [(name, index) for name, indexes in tasks.items() for index in indexes]


def again(
    members: Collection[StreamsMemberSpec], result: Mapping[str, Tasks], without: str = ""
) -> list[StreamsMemberSpec]:
    """The members with their new tasks, before the next assignment."""
    return [member(m.member_id, m.process_id, result[m.member_id]) for m in members if m.member_id != without]


def active_counts(result: Mapping[str, Tasks]) -> list[int]:
    return sorted(len(each(tasks.active)) for tasks in result.values())


# -- rules -----------------------------------------------------------------------------------------------------------


def test_active_tasks_are_spread_over_processes_before_members() -> None:
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b")]
    result = assign(members, ready({"0": (3, False)}))
    assert active_counts(result) == [1, 1, 1]
    result = assign(members, ready({"0": (2, False)}))
    assert len(each(result["b1"].active)) == 1, "each process has one of the two"


def test_a_task_stays_with_its_member_even_if_a_standby_is_elsewhere() -> None:
    members = [
        member("a", "p1", Tasks(active={"0": frozenset({1})}, standby={"0": frozenset({0})})),
        member("b", "p2", Tasks(active={"0": frozenset({0})}, standby={"0": frozenset({1})})),
    ]
    result = assign(members, ready({"0": (2, True)}), standby_replicas=1)
    assert result == {each.member_id: each.present for each in members}


def test_a_standby_becomes_active_when_the_owner_has_left() -> None:
    members = [
        member("a", "p1", Tasks(active={"0": frozenset({0})})),
        member("b", "p2", Tasks(active={"0": frozenset({1})}, standby={"0": frozenset({2})})),
        member("c", "p3"),
    ]
    result = assign(members, ready({"0": (5, True)}))
    assert 2 in result["b"].active["0"]


def test_of_several_standbys_the_one_with_the_least_load_becomes_active() -> None:
    had = Tasks(standby={"0": frozenset({2})})
    busy = Tasks(active={"0": frozenset({0})}, standby={"0": frozenset({2})})
    result = assign([member("a", "p1", busy), member("b", "p2", had)], ready({"0": (3, True)}))
    assert 2 in result["b"].active["0"]


def test_a_member_keeps_no_more_than_its_share() -> None:
    members = [member("a", "p1", Tasks(active={"0": frozenset(range(6))})), member("b", "p2"), member("c", "p3")]
    result = assign(members, ready({"0": (6, False)}))
    assert active_counts(result) == [2, 2, 2]
    assert result["a"].active["0"] == frozenset({0, 1}), "the lowest partitions stay"


def test_the_share_of_the_others_becomes_smaller_when_a_member_has_reached_it() -> None:
    claims = [frozenset({0, 1, 2}), frozenset({3, 4, 5}), frozenset({6, 7, 8}), frozenset({9})]
    members = [member(f"m{i}", f"p{i}", Tasks(active={"0": claim})) for i, claim in enumerate(claims)]
    assert active_counts(assign(members, ready({"0": (10, False)}))) == [2, 2, 3, 3]


def test_standby_tasks_are_only_of_subtopologies_with_state_and_on_other_processes() -> None:
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b")]
    result = assign(members, ready({"0": (3, True), "1": (3, False)}), standby_replicas=2)
    copies = Counter(task for tasks in result.values() for task in each(tasks.standby))
    assert copies == {("0", index): 1 for index in range(3)}, "two processes have room for one copy"


def test_without_replicas_nobody_has_standby_tasks() -> None:
    before = [member("a", "p1", Tasks(standby={"0": frozenset({0})})), member("b", "p2")]
    assert all(not tasks.standby for tasks in assign(before, ready({"0": (2, True)})).values())


def test_an_active_task_that_moves_leaves_a_standby_behind() -> None:
    members = [member("a", "p1", Tasks(active={"0": frozenset(range(4))})), member("b", "p2")]
    result = assign(members, ready({"0": (4, True)}), standby_replicas=1)
    assert each(result["a"].standby) == each(result["b"].active)


def test_tasks_that_do_not_exist_any_more_are_dropped() -> None:
    present = Tasks(active={"0": frozenset({0, 7}), "gone": frozenset({0})}, standby={"0": frozenset({8})})
    result = assign([member("a", "p1", present)], ready({"0": (2, True)}), standby_replicas=1)
    assert result == {"a": Tasks(active={"0": frozenset({0, 1})})}


def test_a_group_without_members_cannot_be_assigned() -> None:
    with pytest.raises(AssignorError, match="No process available to assign active task 0_0"):
        assign([], ready({"0": (1, False)}))


def test_nobody_has_tasks_while_topics_are_missing() -> None:
    problem = Problem(code=ProblemCode.MISSING_SOURCE_TOPICS, message="gone")
    topology = ConfiguredTopology(epoch=1, subtopologies=None, problem=problem)
    assert assign([member("a", "p", Tasks(active={"0": frozenset({0})}))], topology) == {"a": Tasks()}


# -- properties ------------------------------------------------------------------------------------------------------

SUBTOPOLOGIES = st.dictionaries(st.sampled_from("0123"), st.tuples(st.integers(1, 9), st.booleans()), min_size=1)


@st.composite
def groups(draw: st.DrawFn) -> list[StreamsMemberSpec]:
    processes = draw(st.lists(st.sampled_from("pqrst"), min_size=1, max_size=9))
    return [member(f"m{index}", process) for index, process in enumerate(processes)]


@st.composite
def claims(draw: st.DrawFn, members: list[StreamsMemberSpec]) -> list[StreamsMemberSpec]:
    """Any present tasks, also tasks that several members claim and tasks that do not exist."""
    sets = st.dictionaries(st.sampled_from("01234"), st.frozensets(st.integers(0, 10), max_size=5), max_size=3)
    return [
        member(m.member_id, m.process_id, Tasks(active=draw(sets), standby=draw(sets), warmup=draw(sets)))
        for m in members
    ]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), subtopologies=SUBTOPOLOGIES, replicas=st.integers(0, 3))
def test_each_task_is_assigned_as_often_as_it_must_be_whatever_the_members_claim(
    data: st.DataObject, subtopologies: dict[str, tuple[int, bool]], replicas: int
) -> None:
    members = data.draw(claims(data.draw(groups())))
    result = assign(members, ready(subtopologies), standby_replicas=replicas)
    assert set(result) == {m.member_id for m in members}
    tasks = [(name, index) for name, (count, _) in subtopologies.items() for index in range(count)]
    assert sorted(task for found in result.values() for task in each(found.active)) == sorted(tasks)
    processes = {m.member_id: m.process_id for m in members}
    in_process = Counter(
        (processes[name], task)
        for name, found in result.items()
        for task in [*each(found.active), *each(found.standby)]
    )
    assert all(count == 1 for count in in_process.values()), "no process has a task twice"
    copies = Counter(task for found in result.values() for task in each(found.standby))
    wanted = min(replicas, len(set(processes.values())) - 1)
    assert copies == Counter({task: wanted for task in tasks if subtopologies[task[0]][1] and wanted})
    assert not any(found.warmup for found in result.values())
    assert all(indexes for found in result.values() for indexes in [*found.active.values(), *found.standby.values()])
    assert result == assign(members[::-1], ready(subtopologies), standby_replicas=replicas)


def alone(members: list[StreamsMemberSpec]) -> list[StreamsMemberSpec]:
    """Each in its own process. Where several members are in a process, Kafka balances the processes, and members that
    keep tasks may then differ by two or three."""
    return [member(m.member_id, f"process of {m.member_id}", m.present) for m in members]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), subtopologies=SUBTOPOLOGIES, replicas=st.integers(0, 3))
def test_active_tasks_are_even_whatever_the_members_claim(
    data: st.DataObject, subtopologies: dict[str, tuple[int, bool]], replicas: int
) -> None:
    members = alone(data.draw(claims(data.draw(groups()))))
    counts = active_counts(assign(members, ready(subtopologies), standby_replicas=replicas))
    assert counts[-1] - counts[0] <= 1


@settings(max_examples=examples(100), deadline=None)
@given(members=groups(), subtopologies=SUBTOPOLOGIES)
def test_active_tasks_of_a_new_group_are_even_in_any_processes(
    members: list[StreamsMemberSpec], subtopologies: dict[str, tuple[int, bool]]
) -> None:
    counts = active_counts(assign(members, ready(subtopologies)))
    assert counts[-1] - counts[0] <= 1


@settings(max_examples=examples(150), deadline=None)
@given(members=groups(), subtopologies=SUBTOPOLOGIES)
def test_nothing_moves_without_need(
    members: list[StreamsMemberSpec], subtopologies: dict[str, tuple[int, bool]]
) -> None:
    topology = ready(subtopologies)
    result = assign(alone(members), topology)
    settled = again(alone(members), result)
    assert assign(settled, topology) == result, "nobody came or left"
    if len(members) > 1:
        left = assign(again(settled, result, without="m0"), topology)
        for name, tasks in left.items():
            assert set(each(result[name].active)) <= set(each(tasks.active)), "others keep what they have"
    came = assign([*settled, member("new", "new process")], topology)
    for name in result:
        assert set(each(came[name].active)) <= set(each(result[name].active)), "tasks move to the new member alone"


@settings(max_examples=examples(100), deadline=None)
@given(members=groups(), count=st.integers(1, 9), replicas=st.integers(0, 2))
def test_an_owner_that_leaves_is_followed_by_its_standbys(
    members: list[StreamsMemberSpec], count: int, replicas: int
) -> None:
    topology = ready({"0": (count, True)})
    group = alone(members)
    result = assign(group, topology, standby_replicas=replicas)
    if len(group) == 1:
        return
    after = assign(again(group, result, without="m0"), topology, standby_replicas=replicas)
    taken = [(name, task) for name in after for task in set(each(after[name].active)) - set(each(result[name].active))]
    share = -(-count // (len(group) - 1))
    for name, task in taken:
        had_copy = {other for other in after if task in each(result[other].standby)}
        full = {other for other in after if len(each(after[other].active)) >= share}
        assert name in had_copy or had_copy <= full


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_large_group_is_assigned_in_a_moment() -> None:
    members = [member(f"member-{index:030}", f"process-{index % 700:030}") for index in range(1_000)]
    topology = ready({str(name): (1_000, True) for name in range(5)})
    begin = time.thread_time()
    result = assign(members, topology, standby_replicas=2)
    assert active_counts(result)[-1] <= 10
    assign(again(members, result, without="member-0"), topology, standby_replicas=2)
    assert time.thread_time() - begin < CPU_S_MAX


# -- the order of Java's collections ---------------------------------------------------------------------------------


def test_names_come_in_the_order_of_a_java_hash_map() -> None:
    assert hash_order(["2", "10", "0", "1"]) == ["0", "1", "2", "10"]
    assert hash_order(["BB", "Aa"]) == ["BB", "Aa"], "the same hash code: the first stays first"
    assert hash_order(["Aa", "BB", "Aa"]) == ["Aa", "BB"]
    twelve = [str(number) for number in range(12)]
    assert hash_order(twelve) == ["0", "11", *twelve[1:11]], "the hash code of 11 is 1568, which is 0 modulo 16"
    assert hash_order(["p", "a"], capacity=32) == ["a", "p"]
    assert hash_order(["p", "a"]) == ["p", "a"], "112 is 0 modulo 16, and 97 is 1"


@given(keys=st.lists(st.integers(0, 5)))
def test_the_least_key_leaves_the_queue_first(keys: list[int]) -> None:
    queue: PriorityQueue[int] = PriorityQueue()
    for key in keys:
        queue.push(key, key)
    assert [queue.pop() for _ in keys] == sorted(keys)
    assert queue.pop() is None

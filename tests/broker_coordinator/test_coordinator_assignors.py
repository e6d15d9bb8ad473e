"""Server-side assignors: complete, disjoint, even, and `uniform` sticky."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.coordinator.groups.assignors import ASSIGNORS, MemberSpec, Result, assign_range, assign_uniform
from tests.amount import examples
from tests.work import assert_linear

IDS = [UUID(int=number) for number in range(1, 5)]


def member(name: str, topics: list[UUID], owned: dict[UUID, frozenset[int]] | None = None) -> MemberSpec:
    return MemberSpec(member_id=name, instance_id=None, topic_ids=frozenset(topics), owned=owned or {})


def size(result: Result, name: str) -> int:
    return sum(len(partitions) for partitions in result[name].values())


TOPICS = st.dictionaries(st.sampled_from(IDS), st.integers(1, 12), min_size=1)


@st.composite
def groups(draw: st.DrawFn) -> tuple[tuple[MemberSpec, ...], dict[UUID, int]]:
    topics = draw(TOPICS)
    names = [f"m{number}" for number in range(draw(st.integers(1, 5)))]
    is_same = draw(st.booleans())
    free = {(topic_id, partition) for topic_id, count in topics.items() for partition in range(count + 2)}
    members = []
    for name in names:
        wanted = sorted(topics) if is_same else draw(st.lists(st.sampled_from(sorted(topics)), unique=True))
        owned: dict[UUID, frozenset[int]] = {}
        for topic_id, partition in draw(st.lists(st.sampled_from(sorted(free)), unique=True)) if free else []:
            owned[topic_id] = owned.get(topic_id, frozenset()) | {partition}
            free.discard((topic_id, partition))
        members.append(member(name, list(wanted), owned))
    return tuple(members), topics


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@settings(max_examples=examples(80), deadline=None)
@given(group=groups())
def test_every_partition_with_a_subscriber_has_one_owner_who_subscribes(
    name: str, group: tuple[tuple[MemberSpec, ...], dict[UUID, int]]
) -> None:
    members, topics = group
    result = ASSIGNORS[name](members, topics)
    assert set(result) == {each.member_id for each in members}
    owners: list[tuple[UUID, int]] = []
    for each in members:
        assert set(result[each.member_id]) <= each.topic_ids
        assert all(result[each.member_id].values()), "no empty sets"
        owners += [(topic_id, index) for topic_id, indexes in result[each.member_id].items() for index in indexes]
    subscribed = set().union(*(each.topic_ids for each in members))
    expected = [(topic_id, index) for topic_id in topics if topic_id in subscribed for index in range(topics[topic_id])]
    assert sorted(owners) == sorted(expected)
    assert result == ASSIGNORS[name](tuple(reversed(members)), topics), "the order of members does not matter"


@settings(max_examples=examples(80), deadline=None)
@given(group=groups())
def test_uniform_is_even_and_leaves_an_even_assignment_alone(
    group: tuple[tuple[MemberSpec, ...], dict[UUID, int]],
) -> None:
    members, topics = group
    result = assign_uniform(members, topics)
    for giver in members:
        for taker in members:
            could_take = any(topic_id in taker.topic_ids for topic_id in result[giver.member_id])
            if could_take:
                assert size(result, giver.member_id) - size(result, taker.member_id) <= 1
    settled = tuple(
        MemberSpec(member_id=each.member_id, instance_id=None, topic_ids=each.topic_ids, owned=result[each.member_id])
        for each in members
    )
    assert assign_uniform(settled, topics) == result


def test_uniform_moves_only_what_it_must_when_a_member_joins() -> None:
    before = {"a": frozenset(range(6)), "b": frozenset(range(6, 12))}
    members = (
        member("a", IDS[:1], {IDS[0]: before["a"]}),
        member("b", IDS[:1], {IDS[0]: before["b"]}),
        member("c", IDS[:1]),
    )
    after = assign_uniform(members, {IDS[0]: 12})
    assert [size(after, name) for name in "abc"] == [4, 4, 4]
    assert after["a"][IDS[0]] <= before["a"]
    assert after["b"][IDS[0]] <= before["b"]


def test_range_gives_runs_and_the_same_ones_for_topics_of_the_same_size() -> None:
    members = (member("b", IDS[:2]), member("a", IDS[:2]), member("c", IDS[:1]))
    result = assign_range(members, {IDS[0]: 7, IDS[1]: 4})
    assert result["a"] == {IDS[0]: frozenset([0, 1, 2]), IDS[1]: frozenset([0, 1])}
    assert result["b"] == {IDS[0]: frozenset([3, 4]), IDS[1]: frozenset([2, 3])}
    assert result["c"] == {IDS[0]: frozenset([5, 6])}


def partly_subscribed(partitions: int) -> tuple[tuple[MemberSpec, ...], dict[UUID, int]]:
    """Ten members with different subscriptions, of which the first owns everything."""
    topics = {UUID(int=number): partitions // 10 for number in range(1, 11)}
    ids, owned = sorted(topics), {topic_id: frozenset(range(count)) for topic_id, count in topics.items()}
    members = [member(f"m{number}", ids[: 10 - number], owned if number == 0 else {}) for number in range(10)]
    return tuple(members), topics


def one_topic_a_partition(partitions: int) -> tuple[tuple[MemberSpec, ...], dict[UUID, int]]:
    topics = {UUID(int=number): 1 for number in range(1, partitions + 1)}
    ids = sorted(topics)
    members = [member(f"m{number}", ids[number * partitions // 20 :]) for number in range(10)]
    return tuple(members), topics


def a_member_a_partition(partitions: int) -> tuple[tuple[MemberSpec, ...], dict[UUID, int]]:
    topics = {UUID(int=number): 1 for number in range(1, partitions + 1)}
    halves = [frozenset(each for each in topics if each.int % 5 != number) for number in range(5)]
    members = tuple(
        MemberSpec(member_id=f"m{number:05}", instance_id=None, topic_ids=halves[number % 5], owned={})
        for number in range(partitions)
    )
    return members, topics


@pytest.mark.thorough
@pytest.mark.parametrize("group", [partly_subscribed, one_topic_a_partition, a_member_a_partition])
@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_work_grows_with_partitions_and_members_and_not_with_their_product(
    name: str, group: Callable[[int], tuple[tuple[MemberSpec, ...], dict[UUID, int]]]
) -> None:
    def assigning(partitions: int) -> Callable[[], object]:
        members, topics = group(partitions)
        return lambda: ASSIGNORS[name](members, topics)

    assert_linear(assigning, 200)


def test_uniform_makes_even_what_different_subscriptions_allow() -> None:
    members, topics = partly_subscribed(2_000)
    result = assign_uniform(members, topics)
    sizes = [size(result, each.member_id) for each in members]
    assert (sum(sizes), min(sizes), max(sizes)) == (2_000, 198, 202)

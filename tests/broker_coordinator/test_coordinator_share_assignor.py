"""The assignor of share groups: everybody has something, loads are equal, and little moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from broker.node.features.share_groups.groups.assignor import assign
from tests.amount import seeds

T, U = UUID(int=1), UUID(int=2)


def members(count: int, *topics: UUID) -> dict[str, frozenset[UUID]]:
    return {f"m{index}": frozenset(topics or (T,)) for index in range(count)}


def assigned(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    present: Mapping[str, Mapping[UUID, frozenset[int]]],
) -> dict[str, dict[UUID, frozenset[int]]]:
    is_homogeneous = len(set(subscriptions.values())) <= 1
    return assign(subscriptions, partitions, present, is_homogeneous=is_homogeneous)


def sizes(result: dict[str, dict[UUID, frozenset[int]]]) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in result.values())


def readers(result: dict[str, dict[UUID, frozenset[int]]], topic: UUID = T) -> list[int]:
    return sorted(index for each in result.values() for index in each.get(topic, ()))


def test_fewer_members_than_partitions_divide_them() -> None:
    result = assigned(members(3), {T: frozenset(range(7))}, {})
    assert sizes(result) == [2, 2, 3]
    assert readers(result) == list(range(7))


def test_if_members_share_partitions_each_partition_has_as_many_readers() -> None:
    result = assigned(members(5), {T: frozenset(range(2))}, {})
    assert readers(result) == [0, 0, 0, 1, 1, 1]
    assert sizes(result) == [1, 1, 1, 1, 2]


def test_members_with_other_topics_are_spread_topic_by_topic() -> None:
    subscriptions = {"a": frozenset({T}), "b": frozenset({T, U}), "c": frozenset({U})}
    result = assigned(subscriptions, {T: frozenset({0, 1}), U: frozenset({0})}, {})
    assert {member: set(each) for member, each in result.items()} == {"a": {T}, "b": {T, U}, "c": {U}}
    assert readers(result, U) == [0, 0]


def test_the_names_decide_whether_topics_are_spread_together() -> None:
    partitions = {T: frozenset({0}), U: frozenset({0})}
    together = assign(members(2, T, U), partitions, {}, is_homogeneous=True)
    assert together == {"m0": {T: frozenset({0})}, "m1": {U: frozenset({0})}}
    apart = assign(members(2, T, U), partitions, {}, is_homogeneous=False)
    assert list(apart.values()) == [partitions, partitions]


def test_a_topic_that_nobody_subscribes_to_stays_in_the_target_only_if_topics_differ() -> None:
    present = {"a": {U: frozenset({0})}}
    partitions = {T: frozenset({0}), U: frozenset({0})}
    kept = assigned({"a": frozenset({T}), "b": frozenset()}, partitions, present)
    assert kept == {"a": {T: frozenset({0}), U: frozenset({0})}, "b": {}}
    assert assigned({"a": frozenset({T})}, partitions, present) == {"a": {T: frozenset({0})}}


def test_a_member_that_joins_takes_from_who_has_too_much_and_nothing_else_moves() -> None:
    partitions = {T: frozenset(range(6))}
    before = assigned(members(2), partitions, {})
    after = assigned(members(3), partitions, before)
    assert sizes(after) == [2, 2, 2]
    assert all(after[member][T] < before[member][T] for member in before)


def test_the_partitions_of_a_member_that_left_go_to_the_others_and_these_keep_theirs() -> None:
    partitions = {T: frozenset(range(6))}
    before = assigned(members(3), partitions, {})
    after = assigned(members(2), partitions, before)
    assert readers(after) == list(range(6))
    assert all(after[member][T] > before[member][T] for member in after)


def test_nothing_to_assign_is_nothing() -> None:
    assert assigned({}, {T: frozenset({0})}, {}) == {}
    assert assigned(members(2), {}, {}) == {"m0": {}, "m1": {}}


@pytest.mark.parametrize("seed", seeds(60, fast=15))
def test_loads_differ_by_one_at_most_and_what_can_stay_stays(seed: int) -> None:
    rng = random.Random(seed)
    present: dict[str, dict[UUID, frozenset[int]]] = {}
    size = rng.randrange(1, 4)
    for _ in range(6):
        size += rng.choice([0, 0, 1])  # a topic never has fewer partitions than before
        count, partitions = rng.randrange(1, 8), {T: frozenset(range(size))}
        subscriptions = members(count)
        result = assigned(subscriptions, partitions, present)
        assert sizes(result)[-1] - sizes(result)[0] <= 1
        found = readers(result)
        assert set(found) == partitions[T]
        assert all(result.values()), "everybody has a partition"
        loads = sorted(found.count(index) for index in partitions[T])
        assert loads[-1] - loads[0] <= 1
        assert assigned(subscriptions, partitions, result) == result, "nothing moves where nothing has changed"
        present = result

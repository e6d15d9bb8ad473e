"""The assignor of share groups: everybody has something, loads are equal, and little moves."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from broker.coordinator.groups.share_assignor import assign

T, U = UUID(int=1), UUID(int=2)


def members(count: int, *topics: UUID) -> dict[str, frozenset[UUID]]:
    return {f"m{index}": frozenset(topics or (T,)) for index in range(count)}


def sizes(result: dict[str, dict[UUID, frozenset[int]]]) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in result.values())


def test_fewer_members_than_partitions_divide_them() -> None:
    result = assign(members(3), {T: frozenset(range(7))}, {})
    assert sizes(result) == [2, 2, 3]
    assert sorted(index for each in result.values() for index in each[T]) == list(range(7))


def test_more_members_than_partitions_share_them() -> None:
    result = assign(members(5), {T: frozenset(range(2))}, {})
    assert sizes(result) == [1] * 5
    readers = [index for each in result.values() for index in each[T]]
    assert sorted(readers.count(index) for index in (0, 1)) == [2, 3]


def test_members_with_other_topics_are_spread_topic_by_topic() -> None:
    subscriptions = {"a": frozenset({T}), "b": frozenset({T, U}), "c": frozenset({U})}
    result = assign(subscriptions, {T: frozenset({0, 1}), U: frozenset({0})}, {})
    assert {member: set(each) for member, each in result.items()} == {"a": {T}, "b": {T, U}, "c": {U}}


def test_nothing_to_assign_is_nothing() -> None:
    assert assign({}, {T: frozenset({0})}, {}) == {}
    assert assign(members(2), {}, {}) == {"m0": {}, "m1": {}}


@pytest.mark.parametrize("seed", range(60))
def test_loads_differ_by_one_at_most_and_what_can_stay_stays(seed: int) -> None:
    rng = random.Random(seed)
    present: dict[str, dict[UUID, frozenset[int]]] = {}
    for _ in range(6):
        count, partitions = rng.randrange(1, 8), {T: frozenset(range(rng.randrange(1, 8)))}
        subscriptions = members(count)
        result = assign(subscriptions, partitions, present)
        assert sizes(result)[-1] - sizes(result)[0] <= 1
        readers = [index for each in result.values() for index in each.get(T, ())]
        assert set(readers) == partitions[T]
        assert all(result.values()), "everybody has a partition"
        loads = sorted(readers.count(index) for index in partitions[T])
        assert loads[-1] - loads[0] <= 1
        assert assign(subscriptions, partitions, result) == result, "nothing moves where nothing has changed"
        present = result

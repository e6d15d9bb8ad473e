"""Lists of state batches become one: per offset, the more often delivered and then the later state counts."""

from __future__ import annotations

import itertools
import random

import pytest

from broker.node.features.share_groups.delivery.state_batches import NO_START_OFFSET, StateBatch, combine
from tests.amount import seeds


def batch(first: int, last: int, state: int, count: int) -> StateBatch:
    return StateBatch(first_offset=first, last_offset=last, state=state, delivery_count=count)


def test_the_later_state_of_the_same_delivery_counts_whatever_the_order() -> None:
    acked, released = batch(0, 9, 2, 1), batch(5, 14, 0, 1)
    expected = (batch(0, 9, 2, 1), batch(10, 14, 0, 1))
    assert combine([acked], [released], start_offset=0) == expected
    assert combine([released], [acked], start_offset=0) == expected


def test_what_lies_before_the_start_is_dropped_and_equal_neighbours_are_joined() -> None:
    assert combine([batch(0, 4, 2, 1)], [batch(5, 9, 2, 1)], start_offset=3) == (batch(3, 9, 2, 1),)
    assert combine([batch(0, 4, 2, 1)], [], start_offset=5) == ()
    assert combine([batch(0, 4, 2, 1)], [], start_offset=NO_START_OFFSET) == (batch(0, 4, 2, 1),)


@pytest.mark.parametrize("seed", seeds(60, fast=15))
def test_combining_is_as_of_single_offsets(seed: int) -> None:
    rng = random.Random(seed)

    def some() -> list[StateBatch]:
        found = []
        for _ in range(rng.randrange(6)):
            first = rng.randrange(40)
            found.append(batch(first, first + rng.randrange(12), rng.choice([0, 2, 4]), rng.randrange(1, 4)))
        return found

    known, news, start = some(), some(), rng.randrange(-1, 20)
    plain: dict[int, tuple[int, int]] = {}
    for each in known + news:
        for offset in range(max(each.first_offset, start), each.last_offset + 1):
            plain[offset] = max(plain.get(offset, (-1, -1)), (each.delivery_count, each.state))
    result = combine(known, news, start_offset=start)
    told = {
        offset: (each.delivery_count, each.state)
        for each in result
        for offset in range(each.first_offset, each.last_offset + 1)
    }
    assert told == plain
    ends = [(each.first_offset, each.last_offset) for each in result]
    assert ends == sorted(ends)
    for before, after in itertools.pairwise(result):
        is_joined = before.last_offset + 1 == after.first_offset
        assert not (is_joined and (before.state, before.delivery_count) == (after.state, after.delivery_count))

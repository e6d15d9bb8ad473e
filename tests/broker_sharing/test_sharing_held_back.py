"""A record that was delivered often comes with ever fewer others, as in Apache Kafka 4.3.1; and a comparison with these
rules, written down for single records."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from broker.node.features.share_groups.delivery.deliveries import Fetched, Limits
from broker.node.features.share_groups.delivery.partition import RELEASE, Acknowledgement, Change, SharePartition
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from tests.amount import seeds

LIMITS = Limits(delivery_count_limit=5)
Given = list[tuple[int, int, int]]


def made(limits: Limits = LIMITS, *batches: tuple[int, int, int]) -> SharePartition:
    """Of records that are available again: (first, last, deliveries)."""
    states = [
        StateBatch(first_offset=first, last_offset=last, state=0, delivery_count=count)
        for first, last, count in batches
    ]
    return SharePartition(start_offset=0, batches=states, limits=limits)


def fetch(
    partition: SharePartition, last: int, size: int = 4, *, records_max: int = 500, is_strict: bool = False
) -> Given:
    """Reads from the next offset that is offered on, record batches of `size` records."""
    first = partition.next_fetch_offset()
    begins = range(first - first % size, last + 1, size)
    what = Fetched(fetch_offset=first, batches=[(max(begin, first), min(begin + size - 1, last)) for begin in begins])
    found = partition.acquire("a", what, records_max=records_max, batch_size=500, is_strict=is_strict, now_ms=0)
    partition.check_invariants()
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in found]


def release(partition: SharePartition, given: Given) -> None:
    for first, last, _ in given:
        ack = Acknowledgement(first_offset=first, last_offset=last, types=[RELEASE])
        change = partition.acknowledge("a", [ack], 0)
        assert isinstance(change, Change)
        partition.persisted(change.token, is_written=True)


def test_from_half_of_the_limit_on_a_batch_is_halved_and_the_last_time_each_record_comes_alone() -> None:
    partition = made()
    for delivery in (1, 2, 3):
        given = fetch(partition, 7)
        assert given == [(0, 7, delivery)]
        release(partition, given)
    assert fetch(partition, 7) == [(0, 3, 4)]
    assert fetch(partition, 7) == [(4, 7, 4)]
    release(partition, [(0, 7, 4)])
    for offset in range(8):
        assert fetch(partition, 7) == [(offset, offset, 5)]
        release(partition, [(offset, offset, 5)])
    assert partition.start_offset == 8


def test_nothing_else_comes_with_a_batch_that_is_held_back() -> None:
    partition = made(LIMITS, (0, 3, 3), (4, 7, 1))
    assert fetch(partition, 11) == [(0, 1, 4)]
    assert fetch(partition, 11) == [(2, 3, 4)]
    assert fetch(partition, 11) == [(4, 7, 2), (8, 11, 1)]


def test_what_comes_before_a_batch_that_is_held_back_comes_without_it() -> None:
    partition = made(LIMITS, (0, 3, 1), (4, 7, 3))
    assert fetch(partition, 11) == [(0, 3, 2)]
    assert fetch(partition, 11) == [(4, 5, 4)]


def test_the_size_of_the_whole_batch_counts_also_where_records_of_it_are_done() -> None:
    partition = made()
    release(partition, fetch(partition, 15))
    release(partition, fetch(partition, 15))
    third = fetch(partition, 15)
    ack = Acknowledgement(first_offset=0, last_offset=3, types=[1])
    change = partition.acknowledge("a", [ack], 0)
    assert isinstance(change, Change)
    partition.persisted(change.token, is_written=True)
    assert third == [(0, 15, 3)]
    release(partition, [(4, 15, 3)])
    assert fetch(partition, 15) == [(4, 11, 4)]  # half of 16


@pytest.mark.parametrize(("limit", "first_halved"), [(2, None), (3, 3), (4, 3), (5, 4), (6, 4), (10, 6)])
def test_the_delivery_that_is_halved_first(limit: int, first_halved: int | None) -> None:
    partition = made(Limits(delivery_count_limit=limit))
    for delivery in range(1, limit + 1):
        given = fetch(partition, 7)
        if delivery == first_halved:
            assert given == [(0, 0 if delivery == limit else 3, delivery)]
            return
        assert given == [(0, 7, delivery)]
        release(partition, given)
    assert first_halved is None


def test_with_a_strict_limit_the_rest_of_a_record_batch_belongs_to_its_in_flight_batch() -> None:
    partition = made()
    for _ in range(3):
        given = fetch(partition, 7, size=8, records_max=2, is_strict=True)
        assert given[0][:2] == (0, 1)
        release(partition, given)
    assert fetch(partition, 7, size=8, records_max=20, is_strict=True) == [(0, 1, 4), (2, 3, 1)]  # half of 8


def test_also_among_records_in_flight_that_an_earlier_leader_gave() -> None:
    partition = made(Limits(), (6, 9, 1))
    given = fetch(partition, 9, size=10, records_max=2, is_strict=True)
    assert given == [(0, 1, 1)]
    release(partition, given)
    assert fetch(partition, 9, size=10, records_max=1) == [(0, 1, 2), (2, 5, 1)], "up to what was in flight"


# -- compared with single records --------------------------------------------------------------------------------------


@dataclass
class Record:
    batch: tuple[int, int]
    count: int
    is_available: bool = True


def expected(records: dict[int, Record], last: int, limit: int, left: int, *, is_strict: bool) -> list[tuple[int, int]]:
    """(offset, count) of what is given again, record by record."""
    held_from = max(2, (limit + 1) // 2)
    found: list[tuple[int, int]] = []
    for batch in sorted({record.batch for record in records.values()}):
        if len(found) >= left:
            break
        offered = [at for at in range(batch[0], min(batch[1], last) + 1) if at in records and records[at].is_available]
        is_held = any(records[at].count >= held_from for at in offered)
        if is_held and found:
            break
        given, most, rest = 0, -1, left - len(found)
        for at in offered:
            count = records[at].count
            if limit > 2 and count == limit - 1 and given:
                break
            if count >= held_from and most < 0:
                most = max(1, (batch[1] - batch[0] + 1) >> (count - held_from + 1))
            given += 1
            found.append((at, count + 1))
            if (limit > 2 and count + 1 == limit) or (is_strict and given == rest) or given == most:
                break
        if is_held and given:
            break
    return found


@pytest.mark.parametrize("seed", seeds(200, fast=40))
def test_what_is_given_again_is_as_of_single_records(seed: int) -> None:
    rng = random.Random(seed)
    limit, position, batches = rng.randrange(2, 8), 0, []
    for _ in range(rng.randrange(1, 5)):
        size = rng.randrange(1, 10)
        batches.append((position, position + size - 1, rng.randrange(1, limit)))
        position += size
    partition = made(Limits(delivery_count_limit=limit), *batches)
    records = {at: Record((first, last), count) for first, last, count in batches for at in range(first, last + 1)}
    for _ in range(60):
        if partition.next_fetch_offset() >= position:
            break
        records_max, is_strict = rng.randrange(1, 12), rng.random() < 0.5
        wanted = expected(records, position - 1, limit, records_max, is_strict=is_strict)
        given = fetch(partition, position - 1, size=3, records_max=records_max, is_strict=is_strict)
        assert [(at, count) for first, last, count in given for at in range(first, last + 1)] == wanted
        for at, count in wanted:
            records[at].count, records[at].is_available = count, False
        for at, count in wanted:
            if rng.random() < 0.6:
                release(partition, [(at, at, count)])
                records[at].is_available = True
                if count >= limit:
                    del records[at]

"""The work of a delivery and of an acknowledgement grows with the records that are in flight, not with their square."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.node.features.share_groups.delivery.deliveries import Fetched, Limits
from broker.node.features.share_groups.delivery.partition import (
    ACCEPT,
    REJECT,
    RELEASE,
    Acknowledgement,
    Change,
    SharePartition,
)
from tests.work import assert_linear

SIZE = 100


def partition_of(size: int) -> SharePartition:
    return SharePartition(start_offset=0, limits=Limits(record_locks_max=size, delivery_count_limit=5))


def fetched(size: int, *, hides: bool = False) -> Fetched:
    """Record batches of one record each. Every third one is hidden, if any."""
    batches = [(offset, offset) for offset in range(size)]
    return Fetched(fetch_offset=0, batches=batches, hidden=batches[::3] if hides else ())


def acquire(partition: SharePartition, size: int, *, hides: bool = False, is_strict: bool = False) -> object:
    what = fetched(size, hides=hides)
    return partition.acquire("m", what, records_max=size, batch_size=1, is_strict=is_strict, now_ms=0)


def acknowledge(partition: SharePartition, size: int, *kinds: int) -> Change:
    acks = [
        Acknowledgement(first_offset=offset, last_offset=offset, types=(kinds[offset % len(kinds)],))
        for offset in range(size)
    ]
    change = partition.acknowledge("m", acks, 0)
    assert isinstance(change, Change)
    return change


def new(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    return lambda: acquire(partition, size)


def hidden(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    return lambda: acquire(partition, size, hides=True)


def strict(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    return lambda: acquire(partition, size, is_strict=True)


def again(size: int, *, hides: bool = False) -> Callable[[], object]:
    partition = partition_of(size)
    acquire(partition, size)
    partition.persisted(acknowledge(partition, size, RELEASE).token, is_written=True)
    return lambda: acquire(partition, size, hides=hides)


def again_hidden(size: int) -> Callable[[], object]:
    return again(size, hides=True)


def unknown_before(size: int) -> Callable[[], object]:
    """An earlier leader gave them."""
    partition = partition_of(size)
    acquire(partition, size)
    partition.persisted(acknowledge(partition, size, RELEASE, REJECT).token, is_written=True)
    for run in partition._runs:
        run.in_flight_batch = None
    return lambda: acquire(partition, size)


def acknowledging(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    acquire(partition, size)
    return lambda: acknowledge(partition, size, ACCEPT, RELEASE, REJECT)


def written(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    acquire(partition, size)
    token = acknowledge(partition, size, ACCEPT, RELEASE, REJECT).token
    return lambda: partition.persisted(token, is_written=True)


def undone(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    acquire(partition, size)
    token = acknowledge(partition, size, ACCEPT, RELEASE, REJECT).token
    return lambda: partition.persisted(token, is_written=False)


def timed_out(size: int) -> Callable[[], object]:
    partition = partition_of(size)
    acquire(partition, size)
    return lambda: partition.tick(10**9)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [new, hidden, strict, again, again_hidden, unknown_before, acknowledging, written, undone, timed_out]
)
def test_twice_as_many_records_in_flight_make_twice_the_work(case: Callable[[int], Callable[[], object]]) -> None:
    assert_linear(case, SIZE)

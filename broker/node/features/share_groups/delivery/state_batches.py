"""Ranges of offsets with one delivery state, as the share coordinator keeps them, and how two lists are merged.

Shown by tests/broker_sharing/test_sharing_state_batches.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

NO_START_OFFSET = -1  # the group has not begun with the partition; in a write: unchanged


class DeliveryState(IntEnum):
    """The numbers are those in Kafka's records. ACQUIRED is never written, because a member that crashes with a record
    has not acknowledged it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self in (DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Both `first_offset` and `last_offset` belong to the batch."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


def combine(known: Iterable[StateBatch], news: Iterable[StateBatch], *, start_offset: int) -> tuple[StateBatch, ...]:
    """Merge both lists into one: ascending, without overlaps, and without offsets before `start_offset`.

    Where two batches overlap, the one with the higher delivery count wins. If the counts are equal, the later state
    wins. So the result is the same if two writes arrive in another order than they were sent.
    """
    cut = [
        (max(each.first_offset, start_offset), each.last_offset, each.delivery_count, each.state)
        for each in (*known, *news)
        if each.last_offset >= each.first_offset and each.last_offset >= start_offset
    ]
    cut.sort()
    points = sorted({first for first, *_ in cut} | {last + 1 for _, last, *_ in cut})
    found: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []  # heap of (-count, -state, last); the winner is first
    position = 0
    for index, first in enumerate(points[:-1]):
        while position < len(cut) and cut[position][0] <= first:
            _, last, count, state = cut[position]
            heapq.heappush(open_batches, (-count, -state, last))
            position += 1
        while open_batches and open_batches[0][2] < first:
            heapq.heappop(open_batches)
        if open_batches:
            count, state = -open_batches[0][0], -open_batches[0][1]
            _append(found, first, points[index + 1] - 1, state, count)
    return tuple(found)


def _append(found: list[StateBatch], first: int, last: int, state: int, count: int) -> None:
    if found:
        before = found[-1]
        if (before.last_offset + 1, before.state, before.delivery_count) == (first, state, count):
            first = found.pop().first_offset
    found.append(StateBatch(first_offset=first, last_offset=last, state=state, delivery_count=count))


def joined(batches: Sequence[StateBatch]) -> tuple[StateBatch, ...]:
    """The same batches with equal neighbours joined. They must be ascending and must not overlap."""
    found: list[StateBatch] = []
    for each in batches:
        _append(found, each.first_offset, each.last_offset, each.state, each.delivery_count)
    return tuple(found)

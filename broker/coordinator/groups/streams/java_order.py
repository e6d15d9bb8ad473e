"""The order in which Java's HashMap and PriorityQueue give their elements.

Kafka breaks ties in the order of these collections: which process gets the next task if several have the same load, or
which topic a message names. We break them in the same order, so that the results are the same, and a test can compare
them. Shown by tests/broker_coordinator/test_coordinator_streams_kafka.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")

_TABLE_SIZE = 16  # of a HashMap that nobody gave a capacity


def hash_order(names: Iterable[str], *, capacity: int = _TABLE_SIZE) -> list[str]:
    """The names in the order of a HashMap that got them in the given order, and that was made for `capacity` entries.

    One thing is left out: a bucket of eight names or more is a tree in Java. Real names do not collide so often.
    """
    distinct = list(dict.fromkeys(names))
    size = 1 << max(0, capacity - 1).bit_length()
    while len(distinct) > size * 3 // 4:  # the table doubles when it is three quarters full
        size *= 2
    return sorted(distinct, key=lambda name: _spread(_hash(name)) & (size - 1))


def _hash(name: str) -> int:
    """String.hashCode, over the units of UTF-16."""
    value = 0
    encoded = name.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", encoded):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value


def _spread(value: int) -> int:
    return value ^ (value >> 16)


class PriorityQueue(Generic[Item]):
    """The item with the least key comes first. A binary heap as Java's: heapq gives items with equal keys in another
    order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Item]] = []

    def push(self, key: float, item: Item) -> None:
        heap = self._heap
        place = len(heap)
        heap.append((key, item))
        while place > 0:
            parent = (place - 1) // 2
            if key >= heap[parent][0]:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = (key, item)

    def pop(self) -> Item | None:
        """The first item, or None if the queue is empty."""
        heap = self._heap
        if not heap:
            return None
        first, last = heap[0], heap.pop()
        if heap:
            self._sink(last)
        return first[1]

    def _sink(self, entry: tuple[float, Item]) -> None:
        heap = self._heap
        place, size = 0, len(heap)
        while (child := 2 * place + 1) < size:
            if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                child += 1
            if entry[0] <= heap[child][0]:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = entry

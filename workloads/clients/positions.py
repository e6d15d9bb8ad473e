"""Where an application is in what it polled: what every adapter of a Python client has to remember and to put right.

The libraries' consumers are alike enough (`assignment`, `seek`) for one way of stepping back. No I/O.
Shown by tests/workloads/test_workloads_members.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from workloads.clients.member_protocol import Partition, Positions
from workloads.clients.protocol import ReceivedRecord


class Seekable(Protocol):
    """Of a client library; Any is its own kind of partition."""

    def assignment(self) -> Collection[Any]: ...

    def seek(self, partition: Any, offset: int, /) -> object: ...


def beginnings(records: Sequence[ReceivedRecord]) -> dict[Partition, int]:
    """Where what was polled begins, by partition; records of a partition come in order."""
    found: dict[Partition, int] = {}
    for topic, partition, offset, _, _ in records:
        found.setdefault((topic, partition), offset)
    return found


def names_of(partitions: Iterable[Any]) -> list[Partition]:
    """Of a library's own partitions, each with `topic` and `partition`."""
    return [(each.topic, each.partition) for each in partitions]


def step_back(consumer: Seekable, positions: Positions, own_kind: Callable[[str, int], Any]) -> None:
    """What was polled from these positions on must come again, as far as the partitions are still this member's: of the
    others their next owner begins at the group's offset."""
    for partition, offset in positions.items():
        if (own := own_kind(*partition)) in consumer.assignment():
            consumer.seek(own, offset)

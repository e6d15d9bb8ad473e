"""The position of an application in the records that it polled. Every adapter of a Python client must remember this,
and must be able to go back.

The libraries' consumers are similar enough (`assignment`, `seek`) for one way of going back. No I/O. Shown by
tests/workloads/test_workloads_members.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from workloads.clients.member_protocol import Partition, Positions
from workloads.clients.protocol import ReceivedRecord


class Seekable(Protocol):
    """A consumer of a client library. Any is the library's type of a partition."""

    def assignment(self) -> Collection[Any]: ...

    def seek(self, partition: Any, offset: int, /) -> object: ...


def beginnings(records: Sequence[ReceivedRecord]) -> dict[Partition, int]:
    """The first polled offset of each partition. Records of a partition come in order."""
    found: dict[Partition, int] = {}
    for topic, partition, offset, _, _ in records:
        found.setdefault((topic, partition), offset)
    return found


def names_of(partitions: Iterable[Any]) -> list[Partition]:
    """Our partitions for those of a library, which have `topic` and `partition`."""
    return [(each.topic, each.partition) for each in partitions]


def step_back(consumer: Seekable, positions: Positions, own_kind: Callable[[str, int], Any]) -> None:
    """Records that were polled from these positions on must come again, for partitions that are still this member's.
    For the others, their next owner begins at the group's offset."""
    for partition, offset in positions.items():
        if (own := own_kind(*partition)) in consumer.assignment():
            consumer.seek(own, offset)

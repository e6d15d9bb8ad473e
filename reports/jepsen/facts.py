"""What a history shows about each log: who wrote a value, who read it, and at which offsets it was seen.

The rules follow `jepsen.tests.kafka`: reads count whatever became of their operation, because a poll must never return
what is not safe. The offset of a send counts only if its operation must have taken effect.
One pass over the operations. Shown by tests/reports/test_reports_jepsen_anomalies.py.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from reports.jepsen.edn import Form
from reports.jepsen.operations import History, Operation, Outcome

Key: TypeAlias = Form
Value: TypeAlias = Form
Number: TypeAlias = int  # the position of an operation in `History.operations`
Record: TypeAlias = tuple[Key, Value]
Removed: TypeAlias = Mapping[Key, tuple[tuple[int, int], ...]]  # offsets [first, end) that may be gone lawfully
_STRENGTH: Final = {Outcome.OK: 2, Outcome.INFO: 1, Outcome.FAIL: 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is known of the log of one key."""

    values: dict[int, tuple[Value, ...]]  # by offset, in rising order: more than one if operations disagree
    first: dict[Value, int]  # the lowest offset of a value
    last: dict[Value, int]
    solid: tuple[int, ...]  # rising: offsets at which a reader must get something
    read_max: int  # the highest of the first offsets of values that were read; -1: nobody read

    def solid_between(self, low: int, high: int) -> list[int]:
        """Offsets above `low` and below `high` that a reader may not leave out."""
        return list(self.solid[bisect_right(self.solid, low) : bisect_left(self.solid, high)])

    def has_solid_between(self, low: int, high: int) -> bool:
        return bisect_right(self.solid, low) < bisect_left(self.solid, high)

    def only_offset(self, value: Value) -> int | None:
        """Where a value is, if that is one place."""
        first = self.first.get(value)
        return first if first is not None and first == self.last[value] else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    operations: tuple[Operation, ...]
    writers: dict[Record, Number]  # of two that sent one value, one that took effect
    readers: dict[Record, list[Number]]  # operations that ended :ok
    took_effect: tuple[bool, ...]  # by number: it ended :ok, or as :info and somebody read what it sent
    logs: dict[Key, Log]
    read_to_end: frozenset[Key]
    removed: Removed
    sent_twice: tuple[Record, ...]  # several operations sent this value to this key: values should be unique

    def is_removed(self, key: Key, offset: int | None) -> bool:
        """Whether retention, compaction or somebody may have taken the record. Without its offset, any of that key."""
        ranges = self.removed.get(key, ())
        return bool(ranges) if offset is None else any(first <= offset < end for first, end in ranges)


def facts_of(history: History, removed: Removed | None = None) -> Facts:
    operations = history.operations
    writers, sent_twice = _writers(operations)
    readers: dict[Record, list[Number]] = {}
    for number, operation in enumerate(operations):
        if operation.type is Outcome.OK and operation.moves_data:
            for record in {(key, value): None for key, pairs in operation.reads.items() for _, value in pairs}:
                readers.setdefault(record, []).append(number)
    took_effect = tuple(
        operation.type is Outcome.OK
        or (operation.type is Outcome.INFO and any((send.key, send.value) in readers for send in operation.sends))
        for operation in operations
    )
    gone = removed or {}
    logs = {
        key: _log(key, seen, operations, writers, readers, gone.get(key, ()))
        for key, seen in _seen(operations, took_effect).items()
    }
    to_end = frozenset(key for operation in operations if operation.type is Outcome.OK for key in operation.read_to_end)
    return Facts(
        operations=operations,
        writers=writers,
        readers=readers,
        took_effect=took_effect,
        logs=logs,
        read_to_end=to_end,
        removed=gone,
        sent_twice=sent_twice,
    )


def _writers(operations: tuple[Operation, ...]) -> tuple[dict[Record, Number], tuple[Record, ...]]:
    writers: dict[Record, Number] = {}
    twice: dict[Record, None] = {}
    for number, operation in enumerate(operations):
        for send in operation.sends:
            record = send.key, send.value
            before = writers.setdefault(record, number)
            if before != number:
                twice[record] = None
                if _STRENGTH[operation.type] > _STRENGTH[operations[before].type]:
                    writers[record] = number
    return writers, tuple(twice)


def _seen(operations: tuple[Operation, ...], took_effect: tuple[bool, ...]) -> dict[Key, dict[int, dict[Value, None]]]:
    """Key -> offset -> values that an operation saw there or was told to be there."""
    seen: dict[Key, dict[int, dict[Value, None]]] = {}

    def add(key: Key, offset: int | None, value: Value) -> None:
        if offset is not None:
            seen.setdefault(key, {}).setdefault(offset, {})[value] = None

    for number, operation in enumerate(operations):
        if took_effect[number]:
            for send in operation.sends:
                add(send.key, send.offset, send.value)
        for key, pairs in operation.reads.items():
            for offset, value in pairs:
                add(key, offset, value)
    return seen


def _log(
    key: Key,
    seen: dict[int, dict[Value, None]],
    operations: tuple[Operation, ...],
    writers: dict[Record, Number],
    readers: dict[Record, Any],
    removed: Iterable[tuple[int, int]],
) -> Log:
    values = {offset: tuple(seen[offset]) for offset in sorted(seen)}
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    solid: list[int] = []
    for offset, found in values.items():
        is_solid = False
        for value in found:
            first.setdefault(value, offset)
            last[value] = offset
            writer = writers.get((key, value))
            # What was aborted is there for some readers, and not for others.
            is_solid |= writer is None or operations[writer].type is not Outcome.FAIL
        if is_solid and not any(begin <= offset < end for begin, end in removed):
            solid.append(offset)
    return Log(
        values=values,
        first=first,
        last=last,
        solid=tuple(solid),
        read_max=max((offset for value, offset in first.items() if (key, value) in readers), default=-1),
    )

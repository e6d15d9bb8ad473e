"""The anomalies of reports/jepsen in plain Python, one obvious loop each: shares only the operations with it.

For small histories: most rules look at everything for each value, and cycles are found by asking who reaches whom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from reports.jepsen.operations import Operation, Outcome, Poll, Send

Found = dict[str, set[tuple[Any, ...]]]  # anomaly -> identities of its cases
Removed = Mapping[Any, Sequence[tuple[int, int]]]


class Naive:
    def __init__(self, operations: Sequence[Operation], removed: Removed | None = None) -> None:
        self.operations = operations
        self.removed = removed or {}
        self.keys = {send.key for op in operations for send in sends(op)} | {
            key for op in operations for key, _, _ in reads(op)
        }

    def found(self) -> Found:
        rules = {
            "lost-write": self.lost(),
            "duplicate": self.duplicates(),
            "inconsistent-offsets": self.inconsistent(),
            "G1a": self.aborted(),
            "unexpected-read": self.unexpected(),
            "precommitted-read": self.own_reads(),
            "torn-txn": self.torn(),
            "G1b": self.intermediate(),
            "unseen": self.unseen(),
            **self.polls(),
            **self.sent(),
            **self.cycles(),
        }
        return {name: found for name, found in rules.items() if found}

    def is_read(self, key: Any, value: Any) -> bool:
        return any((key, value) == (k, v) for op in self.operations if op.type is Outcome.OK for k, _, v in reads(op))

    def writer(self, key: Any, value: Any) -> int | None:
        """The first that ended :ok, else the first of unknown outcome, else the first that failed."""
        for outcome in (Outcome.OK, Outcome.INFO, Outcome.FAIL):
            for number, op in enumerate(self.operations):
                if op.type is outcome and any((send.key, send.value) == (key, value) for send in sends(op)):
                    return number
        return None

    def took_effect(self, number: int) -> bool:
        op = self.operations[number]
        known = op.type is Outcome.INFO and any(self.is_read(send.key, send.value) for send in sends(op))
        return op.type is Outcome.OK or known

    def seen(self, key: Any) -> set[tuple[int, Any]]:
        """(offset, value) that somebody saw, or was told of."""
        places = {(o, v) for op in self.operations for k, o, v in reads(op) if k == key and o is not None}
        for number, op in enumerate(self.operations):
            if self.took_effect(number):
                places |= {(s.offset, s.value) for s in sends(op) if s.key == key and s.offset is not None}
        return places

    def offsets(self, key: Any, value: Any) -> list[int]:
        return sorted(offset for offset, other in self.seen(key) if other == value)

    def may_be_gone(self, key: Any, offset: int | None) -> bool:
        ranges = self.removed.get(key, ())
        return bool(ranges) if offset is None else any(low <= offset < high for low, high in ranges)

    def read_max(self, key: Any) -> int:
        values = {v for _, v in self.seen(key) if self.is_read(key, v)}
        return max((self.offsets(key, value)[0] for value in values), default=-1)

    def is_missing(self, key: Any, value: Any, told: int | None) -> bool:
        if self.is_read(key, value):
            return False
        last = self.offsets(key, value)[-1] if self.offsets(key, value) else told
        if self.may_be_gone(key, last):
            return False
        to_end = any(key in op.read_to_end for op in self.operations if op.type is Outcome.OK)
        return to_end or (last is not None and last <= self.read_max(key))

    def written(self) -> set[tuple[Any, Any]]:
        return {(send.key, send.value) for op in self.operations for send in sends(op)}

    def lost(self) -> set[tuple[Any, ...]]:
        lost = set()
        for key, value in self.written():
            number = self.writer(key, value)
            assert number is not None
            if self.took_effect(number) and self.is_missing(key, value, None):
                lost.add((key, value))
        return lost

    def duplicates(self) -> set[tuple[Any, ...]]:
        return {(key, value) for key in self.keys for _, value in self.seen(key) if len(self.offsets(key, value)) > 1}

    def inconsistent(self) -> set[tuple[Any, ...]]:
        return {
            (key, offset)
            for key in self.keys
            for offset, value in self.seen(key)
            if any(at == offset and other != value for at, other in self.seen(key))
        }

    def aborted(self) -> set[tuple[Any, ...]]:
        found = set()
        for key, value in self.written():
            number = self.writer(key, value)
            if number is not None and self.operations[number].type is Outcome.FAIL and self.is_read(key, value):
                found.add((key, value))
        return found

    def unexpected(self) -> set[tuple[Any, ...]]:
        got = {(k, v) for op in self.operations if op.type is Outcome.OK for k, _, v in reads(op)}
        return got - self.written()

    def own_reads(self) -> set[tuple[Any, ...]]:
        return {
            (op.index, send.key, send.value)
            for op in self.operations
            for send in sends(op)
            if (send.key, send.value) in {(k, v) for k, _, v in reads(op)}
        }

    def torn(self) -> set[tuple[Any, ...]]:
        found = set()
        for number, op in enumerate(self.operations):
            own = [send for send in sends(op) if self.writer(send.key, send.value) == number]
            there = any(self.is_read(send.key, send.value) for send in own)
            gone = any(self.is_missing(send.key, send.value, send.offset) for send in own)
            if there and gone:
                found.add((op.index,))
        return found

    def place(self, key: Any, value: Any, told: int | None) -> int | None:
        if told is not None:
            return told
        offsets = self.offsets(key, value)
        return offsets[0] if len(offsets) == 1 else None

    def intermediate(self) -> set[tuple[Any, ...]]:
        found = set()
        for number, op in enumerate(self.operations):
            if not self.took_effect(number):
                continue
            for key in {k for k, _, _ in reads(op)}:
                placed = [(self.place(k, v, o), v) for k, o, v in reads(op) if k == key]
                placed = [(offset, value) for offset, value in placed if offset is not None]
                if not placed:
                    continue
                top = max(offset for offset, _ in placed if offset is not None)
                value = next(value for offset, value in placed if offset == top)
                writer = self.writer(key, value)
                if writer is None or writer == number or not self.took_effect(writer):
                    continue
                own = [
                    s for s in sends(self.operations[writer]) if s.key == key and self.writer(key, s.value) == writer
                ]
                # The value itself may be at a later offset too.
                later = [self.place(key, s.value, s.offset) for s in own if s.value != value]
                if any(offset is not None and offset > top for offset in later):
                    found.add((op.index, key))
        return found

    def unseen(self) -> set[tuple[Any, ...]]:
        found = set()
        for key, value in self.written():
            number = self.writer(key, value)
            assert number is not None
            offsets = self.offsets(key, value)
            gone = self.may_be_gone(key, offsets[-1] if offsets else None)
            if self.operations[number].type is Outcome.OK and not self.is_read(key, value) and not gone:
                found.add((key, value))
        return found - self.lost()

    def solid(self, key: Any) -> set[int]:
        """Offsets at which every reader gets something: not what was aborted, not what may be gone."""
        solid = set()
        for offset, value in self.seen(key):
            writer = self.writer(key, value)
            is_aborted = writer is not None and self.operations[writer].type is Outcome.FAIL
            if not is_aborted and not self.may_be_gone(key, offset):
                solid.add(offset)
        return solid

    def step(self, key: Any, one: tuple[int | None, Any], other: tuple[int | None, Any]) -> str:
        low, high = self.place(key, one[1], one[0]), self.place(key, other[1], other[0])
        if low is None or high is None:
            return ""
        if high <= low:
            return "back"
        return "skip" if any(low < offset < high for offset in self.solid(key)) else ""

    def polls(self) -> Found:
        found: Found = {name: set() for name in
                        ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll")}  # fmt: skip
        for number, op in enumerate(self.operations):
            for key in {k for k, _, _ in reads(op)}:
                pairs = [(o, v) for k, o, v in reads(op) if k == key]
                for position, (one, other) in enumerate(pairwise(pairs)):
                    if key not in op.rebalanced and (step := self.step(key, one, other)):
                        name = "int-poll-skip" if step == "skip" else "int-nonmonotonic-poll"
                        found[name].add((op.index, key, position))
                before = self.poll_before(number, key)
                if before is not None and pairs:
                    last = [(o, v) for k, o, v in reads(before) if k == key][-1]
                    if step := self.step(key, last, pairs[0]):
                        name = "poll-skip" if step == "skip" else "nonmonotonic-poll"
                        found[name].add((before.index, op.index, key))
        return found

    def poll_before(self, number: int, key: Any) -> Operation | None:
        """The last operation of that process which read the key; None after what took its position away."""
        for op in reversed(self.operations[:number]):
            if op.process != self.operations[number].process:
                continue
            if op.f == "crash":
                return None
            if op.f in ("assign", "subscribe") and op.type is not Outcome.FAIL and (op.seeks or key not in op.keys):
                return None
            if op.type is Outcome.OK and any(k == key for k, _, _ in reads(op)):
                return op
        return None

    def sent(self) -> Found:
        found: Found = {name: set() for name in ("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip")}

        def told(number: int, key: Any) -> list[tuple[int | None, Any]]:
            own = [send for send in sends(self.operations[number]) if send.key == key]
            return [(send.offset if self.took_effect(number) else None, send.value) for send in own]

        for number, op in enumerate(self.operations):
            for key in {send.key for send in sends(op)}:
                for position, (one, other) in enumerate(pairwise(told(number, key))):
                    if step := self.step(key, one, other):
                        name = "int-send-skip" if step == "skip" else "int-nonmonotonic-send"
                        found[name].add((op.index, key, position))
                if op.type is Outcome.FAIL:
                    continue
                for before in reversed(range(number)):
                    earlier = self.operations[before]
                    if earlier.process != op.process or earlier.type is Outcome.FAIL or not told(before, key):
                        continue
                    if self.step(key, told(before, key)[-1], told(number, key)[0]) == "back":
                        found["nonmonotonic-send"].add((earlier.index, op.index, key))
                    break
        return found

    def edges(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """ww and wr."""
        ww, wr = set(), set()
        nodes = [number for number in range(len(self.operations)) if self.took_effect(number)]
        for key in self.keys:
            firsts: dict[int, set[int]] = {}  # offset -> writers of values that are there for the first time
            for offset, value in self.seen(key):
                writer = self.writer(key, value)
                if offset == self.offsets(key, value)[0] and writer in nodes:
                    assert writer is not None
                    firsts.setdefault(offset, set()).add(writer)
            for low, high in pairwise(sorted(firsts)):
                ww |= {(a, b) for a in firsts[low] for b in firsts[high] if a != b}
        for number in nodes:
            for key, _, value in reads(self.operations[number]):
                writer = self.writer(key, value)
                if writer in nodes and writer != number:
                    assert writer is not None
                    wr.add((writer, number))
        return ww, wr

    def cycles(self) -> Found:
        ww, wr = self.edges()
        of_reads = groups(wr)
        mixed = {
            part
            for part in groups(ww | wr)
            if any(a in part and b in part for a, b in wr) and not any(part & other for other in of_reads)
        }
        return {"G0": self.named(groups(ww)), "G1c": self.named(of_reads | mixed)}

    def named(self, parts: set[frozenset[int]]) -> set[tuple[Any, ...]]:
        return {tuple(sorted(self.operations[number].index for number in part)) for part in parts}


def sends(op: Operation) -> list[Send]:
    return [part for part in op.value if isinstance(part, Send)]


def reads(op: Operation) -> list[tuple[Any, int | None, Any]]:
    """(key, offset, value) in the order in which they came."""
    polls = [part for part in op.value if isinstance(part, Poll)]
    return [(key, offset, value) for poll in polls for key, pairs in poll.reads for offset, value in pairs]


def reaches(edges: set[tuple[int, int]]) -> dict[int, dict[int, int]]:
    """Of each node, whom it reaches in one step or more, and in how many."""
    distance: dict[int, dict[int, int]] = {}
    for node in {a for edge in edges for a in edge}:
        distance[node] = {}
        front, steps = {node}, 0
        while front:
            steps += 1
            front = {b for a, b in edges if a in front} - set(distance[node])
            distance[node].update(dict.fromkeys(front, steps))
    return distance


def groups(edges: set[tuple[int, int]]) -> set[frozenset[int]]:
    """Nodes that reach one another, two or more."""
    distance = reaches(edges)
    parts = {frozenset({b for b in distance if b in distance[a] and a in distance[b]} | {a}) for a in distance}
    return {part for part in parts if len(part) > 1}

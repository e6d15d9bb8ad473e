"""The offsets in flight of a share partition, as a list of runs without gaps. All offsets of a run have one state.

A run is split if only a part of it changes. Equal neighbours become one run again. The rules of delivery are in
partition.py. Shown by tests/broker_sharing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from broker.node.features.share_groups.delivery.state_batches import DeliveryState, StateBatch

NOBODY = ""


@dataclass(slots=True, kw_only=True)
class Run:
    """Invariant: only an ACQUIRED run has a `member` and a `lock_deadline_ms`. `token` is that of the change that is
    being written (0: none). `before` is the run before this change, in case the write fails. `in_flight_batch` is
    (first, last offset) of all records that were given together the first time. None: no member is known to have had
    the run."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int
    member: str = NOBODY
    lock_deadline_ms: int = 0
    token: int = 0
    before: Run | None = None
    in_flight_batch: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def is_offered(self) -> bool:
        return self.state is DeliveryState.AVAILABLE and self.token == 0

    def batch(self) -> StateBatch:
        return StateBatch(
            first_offset=self.first, last_offset=self.last, state=int(self.state), delivery_count=self.delivery_count
        )

    def is_like(self, other: Run) -> bool:
        return (
            self.token == other.token == 0
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member == other.member
            and self.lock_deadline_ms == other.lock_deadline_ms
            and (self.in_flight_batch == other.in_flight_batch or self.state.is_final)
        )


class Runs:
    """All offsets from `start` on and below `end`."""

    def __init__(self, start: int) -> None:
        self.start, self.end = start, start
        self._runs: list[Run] = []

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def append(self, last: int, state: DeliveryState, delivery_count: int, **held: object) -> Run:
        run = Run(first=self.end, last=last, state=state, delivery_count=delivery_count)
        assert last >= run.first, f"a run from {run.first} to {last}"
        for name, value in held.items():
            setattr(run, name, value)
        self._runs.append(run)
        self.end = last + 1
        return run

    def between(self, first: int, last: int) -> list[Run]:
        """The runs of exactly these offsets, as far as they are in flight. Runs are split at both ends."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if first > last:
            return []
        begin = self._split(first)
        end = self._split(last + 1) if last + 1 < self.end else len(self._runs)
        return self._runs[begin:end]

    def overlapping(self, first: int, last: int) -> list[Run]:
        """The runs that hold any of these offsets. No run is split."""
        first, last = max(first, self.start), min(last, self.end - 1)
        if first > last:
            return []
        return self._runs[self._index(first) : self._index(last) + 1]

    def _index(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=lambda run: run.first) - 1

    def _split(self, offset: int) -> int:
        """Split a run, so that one begins at this offset. Returns its index."""
        index = self._index(offset)
        run = self._runs[index]
        if run.first == offset:
            return index
        before = run.before
        rest = replace(run, first=offset, before=None if before is None else replace(before, first=offset))
        run.last = offset - 1
        if before is not None:
            run.before = replace(before, last=offset - 1)
        self._runs.insert(index + 1, rest)
        return index + 1

    def drop_before(self, offset: int) -> None:
        """Drop what lies before this offset. It is no longer in flight."""
        if offset <= self.start:
            return
        if offset >= self.end:
            self._runs.clear()
            self.end = offset
        else:
            del self._runs[: self._split(offset)]
        self.start = offset

    def drop_final(self) -> None:
        """Move the start over runs that are final, and join equal neighbours."""
        index = 0
        for run in self._runs:
            if run.token or not run.state.is_final:
                break
            index += 1
        if index:
            self.start = self._runs[index - 1].last + 1
            del self._runs[:index]
        kept: list[Run] = []
        for run in self._runs:
            if kept and kept[-1].is_like(run):
                kept[-1].last = run.last
            else:
                kept.append(run)
        self._runs = kept

    def check_invariants(self) -> None:
        position = self.start
        for run in self._runs:
            assert run.first == position, f"a hole before {run.first}, expected {position}"
            assert run.last >= run.first
            assert (run.state is DeliveryState.ACQUIRED) == (run.member != NOBODY), f"who holds {run}?"
            if run.token:
                assert run.before is not None
                assert (run.before.first, run.before.last) == (run.first, run.last)
            position = run.last + 1
        assert position == self.end
        assert not self._runs or self._runs[0].token or not self._runs[0].state.is_final, "the start stands still"

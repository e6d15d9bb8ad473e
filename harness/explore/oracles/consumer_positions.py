"""Where a consumer must go on: what of its deliveries was skipped, and what was delivered again without a reason.

For each partition that a member owns there is a range: the next record that it hands out is the first one at `low` or
later, at most the first one at `high` or later. After a record both are the position behind it. After a rebalance they
are what the group may have committed. So one rule judges all: below `low` something is delivered again that was
finished, beyond `high` something is skipped.

The range is as wide as the truth may be. A commit whose answer was lost counts as both done and not done, and with
automatic commits the group may go on anywhere up to what was delivered. A member that gets back what it had may also go
on where it was: its application has those records. After a restart it has not. Each member has ranges of its own,
because one that was thought dead may still hand out what it has. Pure. Shown by
tests/harness/test_harness_explore_positions.py.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.explore.trial.history import Change, Commit, Connected, Delivered, Happening, Rebalance, Sought, Told

_END: Final = 1 << 62  # behind every offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """`offsets` were there to be read before the record at `then`, which was handed out instead."""

    at_us: int
    partition: int
    offsets: tuple[int, ...]
    then: int
    is_after_assignment: bool  # the gap is between two owners or two lives, not within one ownership


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """The record at `offset` was handed out although nothing before `low` may come any more."""

    at_us: int
    partition: int
    offset: int
    low: int
    is_after_assignment: bool


@dataclass(slots=True, kw_only=True)
class _Range:
    low: int
    high: int
    is_fresh: bool  # nothing was handed out since the assignment


@dataclass(slots=True, kw_only=True)
class _Group:
    """What the group may have committed for one partition."""

    certain: int | None = None  # The last commit that was confirmed says so.
    maybe: set[int] = field(default_factory=set)  # Commits since then that have no clear answer say so.
    delivered: int = 0  # the position behind the last record that any member got

    def start(self, *, is_auto_commit: bool, begins_at_end: bool) -> tuple[int, int]:
        if begins_at_end and self.certain is None:
            return 0, _END  # There may be no offset, and then it begins wherever the end is at that moment.
        certain = self.certain or 0
        low, high = min({certain, *self.maybe}), max({certain, *self.maybe})
        if is_auto_commit:
            low, high = min(low, certain), max(high, self.delivered)
        return low, high


class Positions:
    """`visible`: the offsets of each partition that a reader must see, ascending. `is_auto_commit`: the client commits
    by itself, and need not tell when. `begins_at_end`: without an offset of the group it begins with what comes
    next."""

    def __init__(
        self, visible: Mapping[int, Sequence[int]], *, is_auto_commit: bool, begins_at_end: bool = False
    ) -> None:
        self._visible, self._is_auto_commit, self._begins_at_end = visible, is_auto_commit, begins_at_end
        self._groups: dict[int, _Group] = {}
        self._ranges: dict[tuple[int, int], _Range] = {}  # (member, partition)
        self._stood: dict[tuple[int, int], int] = {}  # where a member was, in this life of its process
        self.skips: list[Skip] = []
        self.repetitions: list[Repetition] = []

    def follow(self, happened: Iterable[Happening]) -> None:
        for one in happened:
            match one:
                case Connected():
                    self._ranges = {owned: each for owned, each in self._ranges.items() if owned[0] != one.member}
                    self._stood = {owned: each for owned, each in self._stood.items() if owned[0] != one.member}
                case Rebalance():
                    self._rebalance(one)
                case Sought():
                    self._ranges[one.member, one.partition] = _Range(low=one.offset, high=one.offset, is_fresh=False)
                    self._stood[one.member, one.partition] = one.offset
                    if self._is_auto_commit:  # it may commit this position before anything is delivered from it
                        self._group(one.partition).maybe.add(one.offset)
                case Commit():
                    self._commit(one)
                case Delivered():
                    self._deliver(one)

    def _group(self, partition: int) -> _Group:
        return self._groups.setdefault(partition, _Group())

    def _rebalance(self, change: Rebalance) -> None:
        for partition in change.partitions:
            owned = change.member, partition
            if change.change is not Change.ASSIGNED:
                self._ranges.pop(owned, None)
                continue
            low, high = self._group(partition).start(
                is_auto_commit=self._is_auto_commit, begins_at_end=self._begins_at_end
            )
            if owned in self._stood:
                high = max(high, self._stood[owned])
            if known := self._ranges.get(owned):  # told again without a loss in between: it may also simply go on
                low, high = min(low, known.low), max(high, known.high)
            self._ranges[owned] = _Range(low=low, high=high, is_fresh=True)

    def _commit(self, commit: Commit) -> None:
        for partition, offset in commit.offsets.items():
            group = self._group(partition)
            if commit.told is Told.DONE:
                group.certain = offset
                group.maybe.clear()
            else:
                group.maybe.add(offset)

    def _deliver(self, record: Delivered) -> None:
        group = self._group(record.partition)
        known = self._ranges.get((record.member, record.partition))
        if known is not None:
            self._judge(record, known)
            known.low = known.high = record.offset + 1
            known.is_fresh = False
        self._stood[record.member, record.partition] = record.offset + 1
        group.delivered = max(group.delivered, record.offset + 1)

    def _judge(self, record: Delivered, known: _Range) -> None:
        if record.offset < known.low:
            self.repetitions.append(
                Repetition(
                    at_us=record.at_us,
                    partition=record.partition,
                    offset=record.offset,
                    low=known.low,
                    is_after_assignment=known.is_fresh,
                )
            )
            return
        visible = self._visible.get(record.partition, ())
        skipped = visible[bisect_left(visible, known.high) : bisect_left(visible, record.offset)]
        if skipped:
            self.skips.append(
                Skip(
                    at_us=record.at_us,
                    partition=record.partition,
                    offsets=tuple(skipped),
                    then=record.offset,
                    is_after_assignment=known.is_fresh,
                )
            )

"""The core's own view of the metadata log: all entries in memory, and where each epoch starts.

A snapshot limits its size, because the entries that the snapshot stands for are dropped. The copy on disk belongs to
the host. AppendEntries, TruncateEntries, DropPrefix and InstallSnapshot make the same changes there.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from broker.quorum.types import NO_EPOCH, DivergingEpoch, LogEntry


class QuorumLog:
    """Entries follow each other without a gap from `start_offset` on, and epochs never fall. `_epoch_starts` lists
    (epoch, first offset), ascending.

    A log that does not begin at 0 follows a snapshot. The last epoch of the snapshot is the first epoch of the log. It
    counts as beginning at `start_offset`, because its real beginning is no longer known.
    """

    def __init__(self, entries: tuple[LogEntry, ...], *, start_offset: int = 0, start_epoch: int = NO_EPOCH) -> None:
        assert (start_offset > 0) == (start_epoch != NO_EPOCH), "a log begins at 0 or behind a snapshot"
        self._start_offset = start_offset
        self._entries: list[LogEntry] = []
        self._offsets: list[int] = []  # The entries' offsets, to search in.
        self._epoch_starts: list[tuple[int, int]] = [(start_epoch, start_offset)] if start_offset else []
        self.append(entries)

    @property
    def start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._entries[-1].end_offset if self._entries else self._start_offset

    @property
    def last_entry(self) -> LogEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def last_epoch(self) -> int:
        """-1 when nothing was ever in it."""
        return self._epoch_starts[-1][0] if self._epoch_starts else NO_EPOCH

    def _count_below(self, offset: int) -> int:
        """How many entries begin below this offset."""
        return bisect_left(self._offsets, offset)

    def end_at_or_before(self, offset: int) -> int:
        """The last offset, at most this one, where an entry ends and the next one begins."""
        assert self._start_offset <= offset <= self.end_offset
        count = self._count_below(offset)
        if not count:
            return self._start_offset
        last = self._entries[count - 1]
        return offset if last.end_offset == offset else last.offset

    def epoch_before(self, offset: int) -> int:
        """The epoch of the entry that has `offset` - 1. That entry is in the log, or is the last one of the snapshot
        before it."""
        assert self._start_offset <= offset <= self.end_offset
        if offset > self._start_offset:
            return self._entries[self._count_below(offset) - 1].epoch
        return self._epoch_starts[0][0] if self._start_offset else NO_EPOCH

    def drop_prefix(self, start_offset: int) -> None:
        """Forget the entries below this offset. A snapshot stands for them."""
        assert self._start_offset < start_offset == self.end_at_or_before(start_offset)
        epoch, count = self.epoch_before(start_offset), self._count_below(start_offset)
        del self._entries[:count], self._offsets[:count]
        self._start_offset = start_offset
        later = [(each, offset) for each, offset in self._epoch_starts if each > epoch]
        self._epoch_starts = [(epoch, start_offset), *later]

    def needs_snapshot(self, *, fetch_offset: int, last_fetched_epoch: int) -> bool:
        """Whether a follower whose log ends here needs a snapshot. This is so if the entries that it lacks were
        dropped, or those among which the two logs diverge."""
        if not self._start_offset:
            return False
        return fetch_offset < self._start_offset or last_fetched_epoch < self._epoch_starts[0][0]

    def can_append(self, entries: tuple[LogEntry, ...]) -> bool:
        offset, epoch = self.end_offset, self.last_epoch
        for entry in entries:
            if entry.offset != offset or entry.epoch < epoch:
                return False
            offset, epoch = entry.end_offset, entry.epoch
        return True

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        if not self.can_append(entries):
            raise ValueError(f"entries {entries[0].offset}.. cannot follow offset {self.end_offset - 1} of the log")
        for entry in entries:
            if entry.epoch > self.last_epoch:
                self._epoch_starts.append((entry.epoch, entry.offset))
            self._entries.append(entry)
            self._offsets.append(entry.offset)

    def truncate(self, end_offset: int) -> None:
        assert end_offset >= self._start_offset, "what a snapshot stands for is committed"
        assert end_offset == self.end_at_or_before(end_offset), "an entry is not cut in two"
        count = self._count_below(end_offset)
        del self._entries[count:], self._offsets[count:]
        kept = 1 if self._start_offset else 0
        while len(self._epoch_starts) > kept and self._epoch_starts[-1][1] >= end_offset:
            self._epoch_starts.pop()

    def read(self, from_offset: int, to_offset: int) -> tuple[LogEntry, ...]:
        """The entries that begin at or after `from_offset` and before `to_offset`."""
        start = self._start_offset
        assert from_offset >= start, f"offset {from_offset} is below the start of the log, {start}"
        return tuple(self._entries[self._count_below(from_offset) : self._count_below(to_offset)])

    def read_bounded(self, from_offset: int, size_bytes_max: int) -> tuple[LogEntry, ...]:
        """Entries from `from_offset` on, at least one if there is any."""
        assert from_offset >= self._start_offset
        first = end = self._count_below(from_offset)
        size_bytes = 0
        while end < len(self._entries) and (end == first or size_bytes < size_bytes_max):
            size_bytes += self._entries[end].size_bytes
            end += 1
        return tuple(self._entries[first:end])

    def end_of_epoch(self, epoch: int) -> DivergingEpoch:
        """The largest epoch <= `epoch` in this log, and its end offset. (-1, 0) if this log knows no such epoch."""
        position = bisect_right(self._epoch_starts, epoch, key=lambda start: start[0])
        if position == 0:
            return DivergingEpoch(epoch=NO_EPOCH, end_offset=0)
        end = self._epoch_starts[position][1] if position < len(self._epoch_starts) else self.end_offset
        return DivergingEpoch(epoch=self._epoch_starts[position - 1][0], end_offset=end)

    def divergence(self, *, fetch_offset: int, last_fetched_epoch: int) -> DivergingEpoch | None:
        """None if a log that ends at `fetch_offset` in `last_fetched_epoch` is a prefix of this one (KIP-595).

        Call it only if `needs_snapshot` is False.
        """
        if fetch_offset == 0:
            return None
        end = self.end_of_epoch(last_fetched_epoch)
        if end.epoch == last_fetched_epoch and fetch_offset <= end.end_offset:
            return None
        return end

    def common_end(self, diverging: DivergingEpoch) -> int:
        """How much of this log can agree with the leader that answered our Fetch with `diverging`."""
        return min(diverging.end_offset, self.end_of_epoch(diverging.epoch).end_offset)

    def check_invariants(self) -> None:
        previous, offset = self.epoch_before(self._start_offset), self._start_offset
        for entry in self._entries:
            assert entry.offset == offset
            assert entry.epoch >= previous
            previous, offset = entry.epoch, entry.end_offset
        assert previous == self.last_epoch
        assert self._offsets == [entry.offset for entry in self._entries]

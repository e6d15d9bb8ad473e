"""The core's own view of the metadata log: all entries in memory, plus where each epoch starts.

The log is small (a benchmark's metadata); snapshots, which would bound it, are a later issue. The copy on disk is the
host's: it performs AppendEntries and TruncateEntries, which say the same.
"""

from __future__ import annotations

from bisect import bisect_right

from broker.quorum.types import NO_EPOCH, DivergingEpoch, LogEntry


class QuorumLog:
    """Offsets are dense from 0, epochs never fall; `_epoch_starts` lists (epoch, first offset), ascending."""

    def __init__(self, entries: tuple[LogEntry, ...]) -> None:
        self._entries: list[LogEntry] = []
        self._epoch_starts: list[tuple[int, int]] = []
        self.append(entries)

    @property
    def end_offset(self) -> int:
        return len(self._entries)

    @property
    def last_entry(self) -> LogEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def last_epoch(self) -> int:
        """-1 when empty."""
        return self._epoch_starts[-1][0] if self._epoch_starts else NO_EPOCH

    def can_append(self, entries: tuple[LogEntry, ...]) -> bool:
        offset, epoch = self.end_offset, self.last_epoch
        for entry in entries:
            if entry.offset != offset or entry.epoch < epoch:
                return False
            offset, epoch = offset + 1, entry.epoch
        return True

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        if not self.can_append(entries):
            raise ValueError(f"entries {entries[0].offset}.. cannot follow offset {self.end_offset - 1} of the log")
        for entry in entries:
            if entry.epoch > self.last_epoch:
                self._epoch_starts.append((entry.epoch, entry.offset))
            self._entries.append(entry)

    def truncate(self, end_offset: int) -> None:
        del self._entries[end_offset:]
        while self._epoch_starts and self._epoch_starts[-1][1] >= end_offset:
            self._epoch_starts.pop()

    def read(self, from_offset: int, to_offset: int) -> tuple[LogEntry, ...]:
        return tuple(self._entries[from_offset:to_offset])

    def read_bounded(self, from_offset: int, size_bytes_max: int) -> tuple[LogEntry, ...]:
        """From `from_offset` on, at least one entry if there is any."""
        size_bytes, end = 0, from_offset
        while end < self.end_offset and (end == from_offset or size_bytes < size_bytes_max):
            size_bytes += len(self._entries[end].payload)
            end += 1
        return self.read(from_offset, end)

    def end_of_epoch(self, epoch: int) -> DivergingEpoch:
        """The largest epoch <= `epoch` in this log and where it ends; (-1, 0) when there is none."""
        position = bisect_right(self._epoch_starts, epoch, key=lambda start: start[0])
        if position == 0:
            return DivergingEpoch(epoch=NO_EPOCH, end_offset=0)
        end = self._epoch_starts[position][1] if position < len(self._epoch_starts) else self.end_offset
        return DivergingEpoch(epoch=self._epoch_starts[position - 1][0], end_offset=end)

    def divergence(self, *, fetch_offset: int, last_fetched_epoch: int) -> DivergingEpoch | None:
        """None if a log which ends at `fetch_offset` in `last_fetched_epoch` is a prefix of this one (KIP-595)."""
        if fetch_offset == 0:
            return None
        end = self.end_of_epoch(last_fetched_epoch)
        if end.epoch == last_fetched_epoch and fetch_offset <= end.end_offset:
            return None
        return end

    def common_end(self, diverging: DivergingEpoch) -> int:
        """How much of this log can agree with a leader whose answer to our Fetch was `diverging`."""
        return min(diverging.end_offset, self.end_of_epoch(diverging.epoch).end_offset)

    def check_invariants(self) -> None:
        previous = NO_EPOCH
        for offset, entry in enumerate(self._entries):
            assert entry.offset == offset
            assert entry.epoch >= previous
            previous = entry.epoch
        assert previous == self.last_epoch

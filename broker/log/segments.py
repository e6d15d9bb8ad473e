"""The segments of a log in their order: which one holds an offset, where one ends, and what the disk has.

Owns: the segments in order, with the active one at the end, and which files and directories are not synced yet. It
knows nothing of epochs, producers or settings. Shown by tests/broker_log/test_log_partition_log.py and
test_log_power_loss.py.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from broker.log.filesystem import FileSystem
from broker.log.recovery import SWAP_SUFFIX
from broker.log.segment import Segment
from broker.log.transaction_index import AbortedTransaction

NO_LIMIT = 2**63 - 1


class Segments:
    """Invariants: the segments are in order without overlap, and `active` is the last one. Only a truncation that
    failed leaves no segment."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        segments: list[Segment],
        *,
        is_synced: bool,
        open_segment: Callable[[int], Segment],
    ) -> None:
        """`is_synced`: the whole log is on the disk. After a SIGKILL of an earlier process, any segment may not be."""
        self._filesystem, self._directory, self._open = filesystem, directory, open_segment
        self._row = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        # Base offsets of segments with writes since their last fsync.
        self._unflushed = set() if is_synced else set(self._bases)
        # Directories with a new entry, of a segment or of the log itself, that a loss of power could still take away.
        self._unsynced_directories = set() if is_synced else {directory, directory.rpartition("/")[0] or "."}

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def row(self) -> Sequence[Segment]:
        return self._row

    @property
    def first_offset(self) -> int:
        return self._bases[0]

    @property
    def base_offsets(self) -> Sequence[int]:
        return self._bases

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._row)

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """The segment that holds `offset`, or the first one, and all after it."""
        return self._row[max(0, bisect_right(self._bases, offset) - 1) :]

    # -- read

    def read(self, offset: int, max_bytes: int, limit: int, *, minimum_one_batch: bool) -> bytes:
        """Whole batches of one segment below `limit`, beginning with the one that holds `offset`; b"" at the end."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number < len(self._row):  # there is no segment after a truncation that failed
            segment = self._row[number]
            data = segment.read(offset, max_bytes, limit, minimum_one_batch)
            if data or (segment.size_bytes and offset < segment.next_offset):
                return data  # compaction may leave an empty segment; then the next one is read
            number += 1
        return b""

    def aborted(self, from_offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions with a record in [from_offset, upper_bound)."""
        found: list[AbortedTransaction] = []
        for segment in self.from_offset(from_offset):
            if segment.aborted.collect(from_offset, upper_bound, found):
                break
        return found

    # -- begin and end segments

    def begin(self, base_offset: int) -> None:
        """Begin a new active segment."""
        self.active = self._open(base_offset)
        self._unsynced_directories.add(self._directory)
        self._row.append(self.active)
        self._bases.append(base_offset)

    def drop_first_below(self, offset: int) -> None:
        """Delete whole segments at the front. The active one is deleted only after it has rolled."""
        while len(self._row) > 1 and self._bases[1] <= offset:
            segment = self._row.pop(0)
            self._unflushed.discard(self._bases.pop(0))
            segment.delete()

    def truncate_to(self, offset: int) -> None:
        """Cut the log at the batch that holds `offset`. This batch goes as a whole. The cut is on the disk when this
        returns."""
        if self._row[-1].base_offset >= offset:
            while self._row[-1].base_offset >= offset:
                self._drop_last()
            # Otherwise a loss of power could bring back a dropped segment when the log has grown to its base offset
            # again.
            self._sync_directory()
        self.active = self._row[-1]
        self.active.truncate_to(offset)
        self.active.sync()
        self._unflushed.discard(self.active.base_offset)

    def start_over_at(self, offset: int) -> None:
        """Drop everything, so that one empty segment is left. This is on the disk when the call returns."""
        while self._row:
            self._drop_last()
        self.active = self._open(offset)
        self._row, self._bases = [self.active], [offset]
        self._sync_directory()

    def _drop_last(self) -> None:
        segment = self._row.pop()
        self._unflushed.discard(self._bases.pop())
        segment.delete()

    def swap(self, old: Sequence[Segment], new: Segment) -> None:
        """Put `new` in the place of `old`. The old segments follow one another and do not include the active one.

        Once the log file of `new` is named .swap, recovery finishes an interrupted swap. Before that, recovery undoes
        it. So the state in memory changes at that point too. Raises OSError. The log can still be read then, with
        either all the old segments or the new one.
        """
        first = self._bases.index(old[0].base_offset)
        assert self._row[first : first + len(old)] == list(old)
        assert old[-1] is not self.active
        new.sync()
        new.save_index()
        new.rename(SWAP_SUFFIX)
        self._row[first : first + len(old)] = [new]
        self._bases[first : first + len(old)] = [new.base_offset]
        self._unflushed -= {segment.base_offset for segment in old}
        for segment in old:
            segment.close()
        self._sync_directory()  # before the old ones are removed: a loss of power could take both
        for segment in old[1:]:
            segment.delete()
        old[0].delete_indexes()
        new.rename("")

    # -- durability

    @property
    def has_unflushed(self) -> bool:
        return bool(self._unflushed)

    def active_was_written(self) -> None:
        self._unflushed.add(self.active.base_offset)

    def sync(self) -> None:
        """fsync every segment that was written to, and the directories of new ones."""
        if self._unflushed:
            for segment in self._row:
                if segment.base_offset in self._unflushed:
                    segment.sync()
            for directory in sorted(self._unsynced_directories):
                self._filesystem.sync_directory(directory)
            self._unsynced_directories.clear()
        self._unflushed.clear()

    def _sync_directory(self) -> None:
        self._filesystem.sync_directory(self._directory)
        self._unsynced_directories.discard(self._directory)

    def close(self) -> None:
        for segment in self._row:
            segment.close()

    def abandon(self) -> None:
        """Call this after a file has failed. The files are closed as they are."""
        for segment in self._row:
            with contextlib.suppress(OSError):
                segment.close()

    def check_invariants(self) -> None:
        assert self._row
        assert self.active is self._row[-1]
        assert self._bases == [segment.base_offset for segment in self._row]
        for earlier, later in zip(self._row, self._row[1:], strict=False):
            assert earlier.next_offset <= later.base_offset

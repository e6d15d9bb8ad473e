"""The sparse offset index of one segment. It tells from which byte position to search for an offset.

Owns: the entries in memory and Kafka's file format (8 bytes each: last offset of a batch relative to the segment's
base, position where that batch begins; both int32). The file is written when a segment is rolled or the log is closed.
A missing or implausible file is rebuilt by scanning the segment. Shown by tests/broker_log/test_log_segment.py.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from itertools import pairwise

from broker.log.filesystem import FileSystem, write_unsynced

ENTRY_BYTES = 8


class OffsetIndex:
    """Invariant: relative offsets and positions both grow strictly from entry to entry."""

    __slots__ = ("_interval_bytes", "_positions", "_relative_offsets", "_since_last_entry_bytes")

    def __init__(self, interval_bytes: int) -> None:
        self._interval_bytes = interval_bytes
        self._relative_offsets = array("i")
        self._positions = array("i")
        self._since_last_entry_bytes = 0

    def __len__(self) -> int:
        return len(self._positions)

    def batch_appended(self, relative_last_offset: int, position: int, size_bytes: int) -> bool:
        """Called for every batch; adds an entry (True) once the interval has been written since the last."""
        is_due = self._since_last_entry_bytes > self._interval_bytes
        if is_due:
            self._relative_offsets.append(relative_last_offset)
            self._positions.append(position)
            self._since_last_entry_bytes = 0
        self._since_last_entry_bytes += size_bytes
        return is_due

    def position_before(self, relative_offset: int) -> int:
        """A batch begins at the returned position. No record with this offset or a later one is before it."""
        found = bisect_right(self._relative_offsets, relative_offset)
        return self._positions[found - 1] if found else 0

    def position_at_or_before(self, position: int) -> int:
        """The last indexed batch start that is not after `position`; 0 if none."""
        found = bisect_right(self._positions, position)
        return self._positions[found - 1] if found else 0

    def truncate_to(self, position: int) -> None:
        """Forget the entries at `position` and later."""
        keep = bisect_right(self._positions, position - 1)
        del self._positions[keep:]
        del self._relative_offsets[keep:]
        self._since_last_entry_bytes = position - (self._positions[-1] if keep else 0)

    def save(self, filesystem: FileSystem, path: str) -> None:
        pairs = [number for pair in zip(self._relative_offsets, self._positions, strict=True) for number in pair]
        write_unsynced(filesystem, path, struct.pack(f">{len(pairs)}i", *pairs))

    def load(self, filesystem: FileSystem, path: str, *, segment_size_bytes: int) -> bool:
        """Read the file; False (and an empty index) if it is missing or cannot be this segment's."""
        if not filesystem.exists(path):
            return False
        data = filesystem.read_bytes(path)
        if len(data) % ENTRY_BYTES:
            return False
        numbers = struct.unpack(f">{len(data) // 4}i", data)
        offsets, positions = numbers[::2], numbers[1::2]
        rising = all(a < b for a, b in pairwise(offsets))
        rising = rising and all(a < b for a, b in pairwise(positions))
        if not rising or (positions and not 0 <= positions[0] <= positions[-1] < segment_size_bytes):
            return False
        self._relative_offsets, self._positions = array("i", offsets), array("i", positions)
        self._since_last_entry_bytes = segment_size_bytes - (positions[-1] if positions else 0)
        return True

"""The sparse time index of one segment. It tells from which offset on to search for a timestamp.

Owns: the entries in memory and Kafka's file format (12 bytes each: the largest timestamp so far as int64, its offset
relative to the segment's base as int32). An entry is added together with an entry of the offset index, if the largest
timestamp grew. A missing or implausible file is rebuilt by scanning the segment. Shown by
tests/broker_log/test_log_timeindex.py.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from itertools import pairwise

from broker.log.filesystem import FileSystem, write_unsynced

ENTRY = struct.Struct(">qi")
NO_TIMESTAMP = -1


class TimeIndex:
    """Invariant: timestamps grow strictly from entry to entry, and so do offsets."""

    __slots__ = ("_relative_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._relative_offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """(largest timestamp, relative offset); (-1, 0) without entries."""
        return (self._timestamps[-1], self._relative_offsets[-1]) if self._timestamps else (NO_TIMESTAMP, 0)

    def add(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry. It is ignored unless both values are beyond those of the last entry."""
        last_timestamp, last_offset = self.last
        if timestamp > last_timestamp and (relative_offset > last_offset or not self._timestamps):
            self._timestamps.append(timestamp)
            self._relative_offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """Returns a relative offset. No record below it has a timestamp of at least `timestamp`."""
        found = bisect_left(self._timestamps, timestamp)
        return self._relative_offsets[found - 1] if found else 0

    def truncate_to(self, relative_offset: int) -> None:
        """Forget the entries at this offset and later."""
        keep = bisect_left(self._relative_offsets, relative_offset)
        del self._relative_offsets[keep:]
        del self._timestamps[keep:]

    def save(self, filesystem: FileSystem, path: str) -> None:
        pairs = zip(self._timestamps, self._relative_offsets, strict=True)
        write_unsynced(filesystem, path, b"".join(ENTRY.pack(timestamp, offset) for timestamp, offset in pairs))

    def load(self, filesystem: FileSystem, path: str, *, relative_end_offset: int) -> bool:
        """Read the file; False (and an empty index) if it is missing or cannot be this segment's."""
        if not filesystem.exists(path):
            return False
        data = filesystem.read_bytes(path)
        if len(data) % ENTRY.size:
            return False
        entries = list(ENTRY.iter_unpack(data))
        rising = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries))
        if not rising or (entries and not 0 <= entries[0][1] <= entries[-1][1] < relative_end_offset):
            return False
        self._timestamps = array("q", [timestamp for timestamp, _ in entries])
        self._relative_offsets = array("i", [offset for _, offset in entries])
        return True

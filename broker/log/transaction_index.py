"""The aborted transactions of one segment, in Kafka's `.txnindex` file: what a read_committed consumer must skip.

Owns the entries whose abort marker lies in this segment, in the order of the markers, in memory and on disk. An entry
has 34 bytes: the version (int16, always 0), then as int64 the producer id, the first offset, the last offset (the
marker's) and the last stable offset. It is written with its marker and synced with the segment. After a crash the log
replays the segment and writes the entries anew.
Shown by tests/broker_log/test_log_transactions.py.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple

from broker.log.filesystem import File, FileSystem

SUFFIX = ".txnindex"
_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """`last_stable_offset` is the last stable offset after the end of this transaction. All transactions that began
    below it have ended by then, so the aborted ones are in the index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Invariant: last offsets rise strictly. The file exists only once there is an entry."""

    __slots__ = ("_entries", "_file", "_filesystem", "_path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem, self._path = filesystem, path
        self._file: File | None = None
        self._entries: list[AbortedTransaction] = []

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._entries)

    def append(self, entry: AbortedTransaction) -> None:
        """Write the entry. Skip it if it is there already, because a replay may add it again."""
        if self._entries and entry.last_offset <= self._entries[-1].last_offset:
            return
        if self._file is None:
            self._file = self._filesystem.open(self._path)
        self._file.write_at(len(self._entries) * _ENTRY.size, _ENTRY.pack(_VERSION, *entry))
        self._entries.append(entry)

    def collect(self, from_offset: int, upper_bound: int, found: list[AbortedTransaction]) -> bool:
        """Add to `found` the transactions that overlap [from_offset, upper_bound). True: later segments hold no more
        of them."""
        start = bisect_left(self._entries, from_offset, key=lambda entry: entry.last_offset)
        for entry in self._entries[start:]:
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return True
        return False

    def load(self, *, base_offset: int, next_offset: int) -> None:
        """Read the file of a segment [base_offset, next_offset). The first entry that does not fit, and everything
        after it, is cut off."""
        self._entries = []
        if not self._filesystem.exists(self._path):
            return
        self._file = self._filesystem.open(self._path)
        data = self._file.read_at(0, self._file.size_bytes())
        for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            version, *numbers = _ENTRY.unpack_from(data, position)
            entry = AbortedTransaction(*numbers)
            previous = self._entries[-1].last_offset if self._entries else base_offset - 1
            is_plausible = previous < entry.last_offset < next_offset and entry.first_offset < entry.last_offset
            if version != _VERSION or not is_plausible:
                break
            self._entries.append(entry)
        if len(self._entries) * _ENTRY.size != len(data):
            self._file.truncate(len(self._entries) * _ENTRY.size)

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose marker lies at `offset` or later."""
        keep = bisect_left(self._entries, offset, key=lambda entry: entry.last_offset)
        if keep < len(self._entries):
            del self._entries[keep:]
            assert self._file is not None
            self._file.truncate(keep * _ENTRY.size)

    def moved(self, path: str) -> None:
        """The file has a new name. An open file stays open."""
        self._path = path

    def sync(self) -> None:
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        self.close()
        self._filesystem.remove(self._path)

"""The quorum's files: `quorum-state`, and log and snapshot of `__cluster_metadata-0`.

Every write is on disk (synced) when the call returns: a vote that was forgotten could be given twice. The log is one
file, named by its first offset. Its batches are those of broker.quorum.entries. A torn tail after SIGKILL is cut at the
last complete, valid batch. If complete entries of a later append follow the damage, the storage has corrupted the file,
and this ends the process. If a log does not begin at 0, there is a snapshot that ends at its first offset or later.
Shown by tests/broker_node/test_node_metadata_store.py.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

from broker.controller.record_codec import decode_records
from broker.log.damage import next_whole_batch
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.cluster.meta_properties import StorageMismatchError
from broker.quorum.checkpoint import decode_snapshot, file_name, parse_file_name
from broker.quorum.entries import decode_entries, encode_entries
from broker.quorum.snapshots import Snapshot, SnapshotId
from broker.quorum.state_file import decode_quorum_state, encode_quorum_state
from broker.quorum.types import LogEntry, PersistedState
from broker.wire.errors import CorruptBatchError
from broker.wire.records import iter_batches

FIRST_OF_APPEND = 0  # base sequence of the first entry of an append; the next entries have 1, 2 and so on
METADATA_DIRECTORY = "__cluster_metadata-0"
LOG_SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMetadata:
    """The state that the previous process left. If `log_start` is None, the log begins at offset 0."""

    state: PersistedState
    snapshot: Snapshot | None
    log_start: SnapshotId | None
    entries: tuple[LogEntry, ...]


class MetadataStore:
    def __init__(
        self, directory: Path, *, cluster_id: str, voters: tuple[int, ...], filesystem: FileSystem = LOCAL
    ) -> None:
        self._cluster_id, self._voters, self._filesystem = cluster_id, voters, filesystem
        self._directory = f"{directory}/{METADATA_DIRECTORY}"
        filesystem.make_directory(self._directory)
        self._state_path = f"{self._directory}/quorum-state"
        self._start_offset = max(self._log_starts(), default=0)
        self._file = filesystem.open(self._log_path(self._start_offset))
        # Of each entry from `_start_offset` on: its offset, and its byte position in the file.
        self._offsets: list[int] = []
        self._positions: list[int] = []
        self._end_offset = self._start_offset
        self._end_position = 0
        self._snapshot_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The size of the log and the latest snapshot together."""
        return self._end_position + self._snapshot_bytes

    @property
    def end_offset(self) -> int:
        """The end offset of the log on disk."""
        return self._end_offset

    def _log_path(self, start_offset: int) -> str:
        return f"{self._directory}/{start_offset:020d}{LOG_SUFFIX}"

    def _log_starts(self) -> list[int]:
        names = [name.removesuffix(LOG_SUFFIX) for name in self._filesystem.list_directory(self._directory)]
        return [int(name) for name in names if len(name) == 20 and name.isdecimal()]

    # -- loading -----------------------------------------------------------------------------------------------------

    def load(self) -> StoredMetadata:
        """The state that the previous process left. Raises ValueError if a file is damaged in a way that no crash
        explains.

        All of it is synced when this returns. The previous process may have been killed between a write and its sync,
        and this process acknowledges what it finds.
        """
        filesystem, path = self._filesystem, self._state_path
        filesystem.sync_directory(self._directory.rpartition("/")[0])  # makes the existence of the directory durable
        filesystem.sync_directory(self._directory)
        text = filesystem.read_bytes(path).decode(errors="replace") if filesystem.exists(path) else None
        state = decode_quorum_state(text)
        snapshot = self._load_snapshot()
        entries = self._load_entries()
        if snapshot is not None and not self._continues(snapshot.snapshot_id, entries):
            # The snapshot was installed, and the process crashed before the old log was removed.
            self._begin_empty_log(snapshot.snapshot_id.end_offset)
            entries = ()
        if self._start_offset and snapshot is None:
            raise ValueError(
                f"{self._directory}: the log begins at offset {self._start_offset}, but there is no snapshot of what "
                "was before"
            )
        for start_offset in self._log_starts():
            if start_offset != self._start_offset:
                filesystem.remove(self._log_path(start_offset))
        log_start = None
        if self._start_offset and snapshot is not None:
            # If the log begins before the snapshot's end, the epoch of the entry before its first one is not known. So
            # begin where the snapshot ends.
            log_start = snapshot.snapshot_id
            if self._start_offset != log_start.end_offset:
                entries = tuple(entry for entry in entries if entry.offset >= log_start.end_offset)
                self.drop_prefix(log_start.end_offset)
        return StoredMetadata(state=state, snapshot=snapshot, log_start=log_start, entries=entries)

    def _continues(self, snapshot_id: SnapshotId, entries: tuple[LogEntry, ...]) -> bool:
        """Whether this log begins where the snapshot ends, or contains the last entry of the snapshot."""
        if self._start_offset == snapshot_id.end_offset:
            return True
        index = bisect_left(self._offsets, snapshot_id.end_offset) - 1
        if index < 0:
            return False
        last = entries[index]
        return (last.end_offset, last.epoch) == (snapshot_id.end_offset, snapshot_id.epoch)

    def _load_snapshot(self) -> Snapshot | None:
        """Returns the latest snapshot and removes the others. A crash damages no snapshot: each is on disk before it
        gets its name."""
        found = [
            (snapshot_id, f"{self._directory}/{name}")
            for name in self._filesystem.list_directory(self._directory)
            if (snapshot_id := parse_file_name(name)) is not None
        ]
        if not found:
            return None
        *older, (snapshot_id, path) = sorted(found)
        snapshot = Snapshot(snapshot_id=snapshot_id, data=self._filesystem.read_bytes(path))
        try:
            decode_snapshot(snapshot)
        except CorruptBatchError as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        for _, old in older:
            self._filesystem.remove(old)
        self._snapshot_bytes = len(snapshot.data)
        return snapshot

    def _load_entries(self) -> tuple[LogEntry, ...]:
        """Raises ValueError if a damaged entry had been synced, because it may have been acknowledged."""
        size = self._file.size_bytes()
        data = self._file.read_at(0, size)
        entries: list[LogEntry] = []
        cause = "an entry of another offset"
        try:
            for batch in iter_batches(data):
                if not batch.is_crc_valid() or batch.header.base_offset != self._end_offset:
                    break
                (entry,) = decode_entries(batch.buffer)
                entries.append(entry)
                self._offsets.append(entry.offset)
                self._positions.append(batch.position)
                self._end_offset = entry.end_offset
                self._end_position = batch.position + batch.size_bytes
        except (CorruptBatchError, ValueError) as error:
            cause = str(error)
        if self._end_position < size:
            self._refuse_rot(cause)
            self._file.truncate(self._end_position)  # a torn tail: its entries were never acknowledged
        self._file.sync()
        return tuple(entries)

    def _refuse_rot(self, cause: str) -> None:
        """Raises ValueError if a complete entry of a later append follows the damage. An append is written only after
        the append before it is synced, so such damage is no torn write. Entries of the same append may follow the
        damaged one in any state."""
        position, offset = self._end_position, self._end_offset
        search = position + 1
        while (following := next_whole_batch(self._file, search, min_offset=offset + 1)) is not None:
            search, header = following[0] + following[1].size_bytes, following[1]
            if header.base_sequence == FIRST_OF_APPEND:
                raise ValueError(
                    f"{self._log_path(self._start_offset)}: damaged at byte {position} (metadata offset {offset}): "
                    f"{cause}. The entry of offset {header.base_offset} is whole, and it was written once that one was "
                    "on the disk: no crash leaves that. Nothing was cut, for it may have been committed"
                )

    # -- writes of the quorum ----------------------------------------------------------------------------------------

    def persist_state(self, state: PersistedState) -> None:
        text = encode_quorum_state(state, cluster_id=self._cluster_id, voters=self._voters)
        self._filesystem.write_atomically(self._state_path, text.encode())
        # otherwise the old file could be back after a crash, without the vote
        self._filesystem.sync_directory(self._directory)

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        """Here and in all methods below, the memory changes after the disk. So a write that fails has changed
        nothing."""
        pieces: list[bytes] = []
        positions: list[int] = []
        end_offset, end_position = self._end_offset, self._end_position
        for entry in entries:
            assert entry.offset == end_offset, "the metadata log has no gap"
            end_offset = entry.end_offset
            piece = encode_entries((entry,), number_in_append=len(positions))
            positions.append(end_position)
            end_position += len(piece)
            pieces.append(piece)
        self._file.write_at(self._end_position, b"".join(pieces))
        self._file.sync()
        self._offsets += [entry.offset for entry in entries]
        self._positions += positions
        self._end_offset, self._end_position = end_offset, end_position

    def truncate(self, end_offset: int) -> None:
        if end_offset >= self._end_offset:
            return
        count = bisect_left(self._offsets, end_offset)
        assert self._offsets[count] == end_offset, "an entry is not cut in two"
        end_position = self._positions[count]
        self._file.truncate(end_position)
        self._file.sync()
        self._end_offset, self._end_position = end_offset, end_position
        del self._offsets[count:], self._positions[count:]

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """The snapshot is on disk when this returns. It replaces the previous one."""
        name = file_name(snapshot.snapshot_id)
        self._filesystem.write_atomically(f"{self._directory}/{name}", snapshot.data)
        self._filesystem.sync_directory(self._directory)
        self._snapshot_bytes = len(snapshot.data)
        for each in self._filesystem.list_directory(self._directory):
            if each != name and parse_file_name(each) is not None:
                self._filesystem.remove(f"{self._directory}/{each}")

    def drop_prefix(self, start_offset: int) -> None:
        """Writes the entries from `start_offset` on into a new log, which replaces this one."""
        count = bisect_left(self._offsets, start_offset)
        begin = self._positions[count] if count < len(self._positions) else self._end_position
        tail = self._file.read_at(begin, self._end_position - begin)
        kept, end_offset = self._offsets[count:], max(start_offset, self._end_offset)
        assert (kept[0] if kept else end_offset) == start_offset, "an entry is not cut in two"
        positions = [position - begin for position in self._positions[count:]]
        self._begin_log(start_offset, tail, kept, positions, end_offset)

    def install_snapshot(self, snapshot: Snapshot) -> None:
        """A crash between the two steps leaves the snapshot and the old log. `load` detects that they do not match."""
        self.write_snapshot(snapshot)
        self._begin_empty_log(snapshot.snapshot_id.end_offset)

    def _begin_empty_log(self, start_offset: int) -> None:
        self._begin_log(start_offset, b"", [], [], start_offset)

    def _begin_log(
        self, start_offset: int, data: bytes, offsets: list[int], positions: list[int], end_offset: int
    ) -> None:
        old_file, old_path, path = self._file, self._log_path(self._start_offset), self._log_path(start_offset)
        self._filesystem.write_atomically(path, data)
        self._filesystem.sync_directory(self._directory)
        self._file = self._filesystem.open(path)
        self._start_offset, self._end_offset, self._end_position = start_offset, end_offset, len(data)
        self._offsets, self._positions = offsets, positions
        old_file.close()
        if old_path != path:
            self._filesystem.remove(old_path)

    def close(self) -> None:
        self._file.close()


def check_record_format(stored: StoredMetadata, log_directory: Path) -> None:
    """Raises StorageMismatchError unless this version reads the records of the log. It is asked once, before the broker
    starts. One record is enough: no directory has two formats, because this check comes before anything is
    written."""
    try:
        for values in (_snapshot_values(stored), *(each.values for each in stored.entries if not each.is_control)):
            if values:
                decode_records(values[:1])
                break
    except ValueError as error:
        raise StorageMismatchError(f"{log_directory / METADATA_DIRECTORY}: {error}") from error


def _snapshot_values(stored: StoredMetadata) -> tuple[bytes, ...]:
    return () if stored.snapshot is None else decode_snapshot(stored.snapshot)

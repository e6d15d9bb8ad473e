"""What the quorum keeps on disk: `quorum-state`, the log of `__cluster_metadata-0`, and the broker's `meta.properties`.

Every write is on disk (synced) when the call returns: a forgotten vote could be given twice. The log is one file;
its batches are those of broker.quorum.entries, so a torn tail after SIGKILL is cut at the last whole, valid batch.
Shown by tests/broker_node/test_node_metadata_store.py.
"""

from __future__ import annotations

from pathlib import Path

from broker.log.filesystem import LOCAL, FileSystem
from broker.quorum.entries import decode_entries, encode_entries
from broker.quorum.state_file import decode_quorum_state, encode_quorum_state
from broker.quorum.types import LogEntry, PersistedState
from broker.wire.errors import CorruptBatchError
from broker.wire.records import iter_batches

METADATA_DIRECTORY = "__cluster_metadata-0"
LOG_FILE = "00000000000000000000.log"


class StorageMismatchError(Exception):
    """The directory belongs to another broker or cluster."""


def check_meta_properties(directory: Path, *, node_id: int, cluster_id: str, filesystem: FileSystem = LOCAL) -> None:
    """Write Kafka's meta.properties into a new directory; refuse a directory of another node or cluster."""
    path = f"{directory}/meta.properties"
    if not filesystem.exists(path):
        text = f"#\nversion=1\ncluster.id={cluster_id}\nnode.id={node_id}\n"
        filesystem.write_atomically(path, text.encode())
        return
    text = filesystem.read_bytes(path).decode(errors="replace")
    lines = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    found = {key.strip(): value.strip() for key, _, value in lines}
    for key, expected in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
        if found.get(key) != expected:
            raise StorageMismatchError(f"{path}: {key} is {found.get(key)}, expected {expected}")


class MetadataStore:
    def __init__(
        self, directory: Path, *, cluster_id: str, voters: tuple[int, ...], filesystem: FileSystem = LOCAL
    ) -> None:
        self._cluster_id, self._voters, self._filesystem = cluster_id, voters, filesystem
        self._directory = f"{directory}/{METADATA_DIRECTORY}"
        filesystem.make_directory(self._directory)
        self._state_path = f"{self._directory}/quorum-state"
        self._file = filesystem.open(f"{self._directory}/{LOG_FILE}")
        self._positions: list[int] = []  # byte position of the entry of each offset
        self._end_position = 0

    def load(self) -> tuple[PersistedState, tuple[LogEntry, ...]]:
        """The state of the last life. Raises ValueError when quorum-state is damaged."""
        filesystem, path = self._filesystem, self._state_path
        text = filesystem.read_bytes(path).decode(errors="replace") if filesystem.exists(path) else None
        return decode_quorum_state(text), self._load_entries()

    def _load_entries(self) -> tuple[LogEntry, ...]:
        size = self._file.size_bytes()
        data = self._file.read_at(0, size)
        entries: list[LogEntry] = []
        try:
            for batch in iter_batches(data):
                if not batch.is_crc_valid() or batch.header.base_offset != len(entries):
                    break
                entries.extend(decode_entries(batch.buffer))
                self._positions.append(batch.position)
                self._end_position = batch.position + batch.size_bytes
        except (CorruptBatchError, ValueError):
            pass  # the rest is a torn tail: what was never acknowledged to anybody
        if self._end_position < size:
            self._file.truncate(self._end_position)
        return tuple(entries)

    def persist_state(self, state: PersistedState) -> None:
        text = encode_quorum_state(state, cluster_id=self._cluster_id, voters=self._voters)
        self._filesystem.write_atomically(self._state_path, text.encode())
        self._filesystem.sync_directory(self._directory)  # else the vote's file could fall back to the one before it

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        pieces = []
        for entry in entries:
            assert entry.offset == len(self._positions), "offsets of the metadata log are dense"
            piece = encode_entries((entry,))
            self._positions.append(self._end_position)
            self._end_position += len(piece)
            pieces.append(piece)
        data = b"".join(pieces)
        self._file.write_at(self._end_position - len(data), data)
        self._file.sync()

    def truncate(self, end_offset: int) -> None:
        if end_offset >= len(self._positions):
            return
        self._end_position = self._positions[end_offset]
        del self._positions[end_offset:]
        self._file.truncate(self._end_position)
        self._file.sync()

    def close(self) -> None:
        self._file.close()

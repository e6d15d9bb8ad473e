"""What the quorum keeps on disk: `quorum-state`, the log of `__cluster_metadata-0`, and the broker's `meta.properties`.

Every write is on disk (fdatasync) when the call returns: a forgotten vote could be given twice. The log is one file;
its batches are those of broker.quorum.entries, so a torn tail after SIGKILL is cut at the last whole, valid batch.
Shown by tests/broker_node/test_node_metadata_store.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from broker.quorum.entries import decode_entries, encode_entries
from broker.quorum.state_file import decode_quorum_state, encode_quorum_state
from broker.quorum.types import LogEntry, PersistedState
from broker.wire.errors import CorruptBatchError
from broker.wire.records import iter_batches

METADATA_DIRECTORY = "__cluster_metadata-0"
LOG_FILE = "00000000000000000000.log"


def write_atomically(path: Path, text: str) -> None:
    """The old content or the new, whatever happens."""
    temporary = path.with_suffix(path.suffix + ".tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fdatasync(file.fileno())
    temporary.replace(path)


class StorageMismatchError(Exception):
    """The directory belongs to another broker or cluster."""


def check_meta_properties(directory: Path, *, node_id: int, cluster_id: str) -> None:
    """Write Kafka's meta.properties into a new directory; refuse a directory of another node or cluster."""
    path = directory / "meta.properties"
    if not path.exists():
        write_atomically(path, f"#\nversion=1\ncluster.id={cluster_id}\nnode.id={node_id}\n")
        return
    lines = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    found = {key.strip(): value.strip() for key, _, value in lines}
    for key, expected in (("node.id", str(node_id)), ("cluster.id", cluster_id)):
        if found.get(key) != expected:
            raise StorageMismatchError(f"{path}: {key} is {found.get(key)}, expected {expected}")


class MetadataStore:
    def __init__(self, directory: Path, *, cluster_id: str, voters: tuple[int, ...]) -> None:
        self._cluster_id, self._voters = cluster_id, voters
        self._directory = directory / METADATA_DIRECTORY
        self._directory.mkdir(parents=True, exist_ok=True)
        self._state_path = self._directory / "quorum-state"
        self._descriptor = os.open(self._directory / LOG_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._positions: list[int] = []  # byte position of the entry of each offset
        self._end_position = 0

    def load(self) -> tuple[PersistedState, tuple[LogEntry, ...]]:
        """The state of the last life. Raises ValueError when quorum-state is damaged."""
        text = self._state_path.read_text() if self._state_path.exists() else None
        return decode_quorum_state(text), self._load_entries()

    def _load_entries(self) -> tuple[LogEntry, ...]:
        size = os.fstat(self._descriptor).st_size
        data = os.pread(self._descriptor, size, 0)
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
            os.ftruncate(self._descriptor, self._end_position)
        return tuple(entries)

    def persist_state(self, state: PersistedState) -> None:
        write_atomically(self._state_path, encode_quorum_state(state, cluster_id=self._cluster_id, voters=self._voters))

    def append(self, entries: tuple[LogEntry, ...]) -> None:
        pieces = []
        for entry in entries:
            assert entry.offset == len(self._positions), "offsets of the metadata log are dense"
            piece = encode_entries((entry,))
            self._positions.append(self._end_position)
            self._end_position += len(piece)
            pieces.append(piece)
        data = b"".join(pieces)
        written = os.pwrite(self._descriptor, data, self._end_position - len(data))
        if written != len(data):
            raise OSError(f"metadata log: wrote {written} of {len(data)} bytes")
        os.fdatasync(self._descriptor)

    def truncate(self, end_offset: int) -> None:
        if end_offset >= len(self._positions):
            return
        self._end_position = self._positions[end_offset]
        del self._positions[end_offset:]
        os.ftruncate(self._descriptor, self._end_position)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

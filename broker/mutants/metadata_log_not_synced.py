"""A voter acknowledges entries of the metadata log while they are only in the page cache."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.cluster.metadata_store import MetadataStore
from broker.quorum.entries import encode_entries
from broker.quorum.types import LogEntry


def append(self: MetadataStore, entries: tuple[LogEntry, ...]) -> None:
    for entry in entries:
        piece = encode_entries((entry,))
        self._offsets.append(entry.offset)
        self._positions.append(self._end_position)
        self._file.write_at(self._end_position, piece)
        self._end_offset = entry.end_offset
        self._end_position += len(piece)


def apply(patch: Patch) -> None:
    patch.set(MetadataStore, "append", append)

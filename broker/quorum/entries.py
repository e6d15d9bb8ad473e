"""Log entries as record batches: one entry is one batch with one record. The same bytes on the wire and on disk."""

from __future__ import annotations

from broker.quorum.types import LogEntry


def encode_entries(entries: tuple[LogEntry, ...]) -> bytes:
    raise NotImplementedError


def decode_entries(data: bytes | memoryview) -> tuple[LogEntry, ...]:
    """ValueError for a damaged, torn or gapped sequence of batches."""
    raise NotImplementedError

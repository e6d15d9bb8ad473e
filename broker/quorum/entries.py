"""Log entries as record batches: one entry is one batch, each value a record. The same bytes on the wire and on disk.

Epoch and offset are those of the batch header. A control entry is a control batch with Kafka's LeaderChange key. The
timestamp is 0, so that the bytes are the same on every node. On disk the base sequence is the number of the entry
within the append that wrote it. With this number, recovery can tell a torn append from a damaged entry.
"""

from __future__ import annotations

import struct

from broker.quorum.types import LogEntry
from broker.wire.errors import CorruptBatchError
from broker.wire.records import (
    NO_SEQUENCE,
    CodecId,
    RawBatch,
    decode_records,
    encode_batch,
    iter_batches,
    validate_batches,
)

# Version 0, control record type 2 (LEADER_CHANGE).
_LEADER_CHANGE_KEY = struct.pack(">hh", 0, 2)


def encode_entries(entries: tuple[LogEntry, ...], *, number_in_append: int | None = None) -> bytes:
    """Encode the entries. `number_in_append` is the number of the first of them; None on the wire."""
    if number_in_append is None:
        return b"".join(_encode_entry(entry, NO_SEQUENCE) for entry in entries)
    return b"".join(_encode_entry(entry, number) for number, entry in enumerate(entries, start=number_in_append))


def _encode_entry(entry: LogEntry, base_sequence: int) -> bytes:
    return encode_batch(
        entry.values,
        timestamps_ms=0,
        keys=[_LEADER_CHANGE_KEY] * len(entry.values) if entry.is_control else None,
        base_offset=entry.offset,
        partition_leader_epoch=entry.epoch,
        control=entry.is_control,
        base_sequence=base_sequence,
    )


def decode_entries(data: bytes | memoryview) -> tuple[LogEntry, ...]:
    """Raises CorruptBatchError for damaged or torn batches (CRCs are checked), and for those that no leader writes."""
    if not data:
        return ()
    validate_batches(data)
    return tuple(_decode_entry(batch) for batch in iter_batches(data))


def _decode_entry(batch: RawBatch) -> LogEntry:
    """Never compressed, so the work is bounded by the bytes that came. The header has a record for each offset."""
    header = batch.header
    if header.codec != CodecId.NONE:
        raise CorruptBatchError(f"the metadata batch at offset {header.base_offset} is compressed")
    if header.is_control and header.record_count != 1:
        raise CorruptBatchError(f"the control batch at offset {header.base_offset} has {header.record_count} records")
    values: list[bytes] = []
    for offset, (found, _, _, value, _) in enumerate(decode_records(batch), start=header.base_offset):
        if found != offset or value is None:
            raise CorruptBatchError(f"the metadata batch at offset {header.base_offset} has no value at {offset}")
        values.append(value)
    return LogEntry(
        offset=header.base_offset,
        epoch=header.partition_leader_epoch,
        is_control=header.is_control,
        values=tuple(values),
    )

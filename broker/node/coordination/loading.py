"""The records and markers of an internal topic's log, as a shard is told them while it loads."""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinator.runtime import LoadedMarker, LoadedRecord
from broker.wire.records import BatchHeader, decode_records

_CONTROL_COMMIT = 1


def entries_of(header: BatchHeader, buffer: memoryview | bytes) -> Iterator[LoadedRecord | LoadedMarker]:
    """The records of a batch of the internal topic. A control batch is one marker, its type in the key (KIP-98)."""
    for offset, timestamp_ms, key, value, _ in decode_records(buffer):
        if key is None:
            continue  # not ours: every record of an internal topic has a key
        if header.is_control:
            yield LoadedMarker(
                offset=offset,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                is_commit=int.from_bytes(key[2:4], "big") == _CONTROL_COMMIT,
            )
        else:
            yield LoadedRecord(
                offset=offset,
                timestamp_ms=timestamp_ms,
                key=key,
                value=value,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                is_transactional=header.is_transactional,
            )

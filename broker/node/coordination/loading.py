"""The records and markers of an internal topic's log, in the form in which a shard loads them."""

from __future__ import annotations

from collections.abc import Iterator

from broker.coordinator.runtime import LoadedMarker, LoadedRecord
from broker.wire.records import BatchHeader, decode_records

_CONTROL_COMMIT = 1


def entries_of(header: BatchHeader, buffer: memoryview | bytes) -> Iterator[LoadedRecord | LoadedMarker]:
    """The records of a batch of the internal topic. A control batch contains one marker, whose type is in the key
    (KIP-98)."""
    for offset, timestamp_ms, key, value, _ in decode_records(buffer):
        if key is None:
            continue  # no coordinator wrote it: every record of a coordinator has a key
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

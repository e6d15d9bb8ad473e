"""The records and markers of an internal topic's log, in the form in which a shard loads them.

A record that nobody can read is left out, and the others are loaded. Else one such record, which the client id
`__admin_client` may write, would keep a coordinator from its work for good. Only a change by the disk ends the loading.
Shown by tests/broker_node/test_node_coordinators.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from broker.coordinator.runtime import LoadedMarker, LoadedRecord
from broker.log.damage import unreadable
from broker.log.errors import LogCorruptError
from broker.wire.batch_decoder import iter_fields
from broker.wire.errors import CorruptBatchError
from broker.wire.record_filter import body_of
from broker.wire.records import RawBatch

_CONTROL_COMMIT = 1
LeftOut: TypeAlias = Callable[[int, Exception], None]  # the offset of a record (of a batch: its first), and why


def replay(batch: RawBatch, into: Callable[[LoadedRecord | LoadedMarker], None], left_out: LeftOut) -> Iterator[None]:
    """Replays the batch into a shard. It yields after each record, where other work may be done. Raises
    LogCorruptError."""
    entries = entries_of(batch)
    while True:
        try:
            entry = next(entries, None)
        except CorruptBatchError as error:
            failure = unreadable(batch, error)
            if isinstance(failure, LogCorruptError):
                raise failure from error
            left_out(batch.header.base_offset, error)
            return
        if entry is None:
            return
        try:
            into(entry)
        except Exception as error:  # whatever a shard cannot make of bytes that any client may have chosen
            left_out(entry.offset, error)
        yield


def entries_of(batch: RawBatch) -> Iterator[LoadedRecord | LoadedMarker]:
    """The records of a batch of the internal topic. A control batch contains one marker, whose type is in the key
    (KIP-98)."""
    header = batch.header
    for offset, timestamp_ms, key, value in iter_fields(header, body_of(batch)):
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

"""What a log knows of transactions (KIP-98): end markers, and which offsets are not decided yet.

Owns the layout of an end-transaction marker, which is a control batch of one record. Owns two kinds of transactions
that are not decided: those that are ongoing in this log, and those that have ended but whose marker is not below the
high watermark yet. The first unstable offset is the lowest offset of both, and a read_committed consumer stops there.
Knows no segment and no file.
Shown by tests/broker_log/test_log_transactions.py.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from broker.log.filesystem import Buffer
from broker.wire.errors import CorruptBatchError
from broker.wire.records import decode_records, encode_batch_buffers

_CONTROL_KEY = struct.Struct(">hh")  # version, type
_MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch
_KEY_VERSION = 0
_VALUE_VERSION = 0
ABORT_TYPE = 0
COMMIT_TYPE = 1
NO_COORDINATOR_EPOCH = -1


class EndMarker(NamedTuple):
    """The record of a control batch that ends one producer's transaction in one log."""

    is_commit: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """`last_offset` is the offset of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_commit: bool


def encode_end_marker(*, producer_id: int, producer_epoch: int, marker: EndMarker, timestamp_ms: int) -> bytearray:
    """A whole control batch at offset 0, writable, so that a leader can place it."""
    key = _CONTROL_KEY.pack(_KEY_VERSION, COMMIT_TYPE if marker.is_commit else ABORT_TYPE)
    value = _MARKER_VALUE.pack(_VALUE_VERSION, marker.coordinator_epoch)
    buffers = encode_batch_buffers(
        [value],
        keys=[key],
        timestamps_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    return bytearray().join(buffers)


def decode_end_marker(batch: Buffer) -> EndMarker | None:
    """The marker in a control batch. None if it was compacted away, or if the batch has another control type (KRaft's
    own, or an unknown one). Raises CorruptBatchError for a record without a control key."""
    records = decode_records(batch)
    if not records:
        return None
    _, _, key, value, _ = records[0]
    if key is None or len(key) < _CONTROL_KEY.size:
        raise CorruptBatchError(f"a control record with the key {key!r}: expected a version and a type")
    _, control_type = _CONTROL_KEY.unpack_from(key)
    if control_type not in (ABORT_TYPE, COMMIT_TYPE):
        return None
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatchError(f"an end marker with the value {value!r}: expected a version and a coordinator epoch")
    _, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    return EndMarker(control_type == COMMIT_TYPE, coordinator_epoch)


class OpenTransactions:
    """Invariant: `_ongoing` is ordered by first offset (offsets only rise, and dicts keep order); `_unreplicated` is
    ordered by marker offset."""

    __slots__ = ("_ongoing", "_unreplicated")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}  # producer id -> first offset
        self._unreplicated: deque[tuple[int, int]] = deque()  # (first offset, marker offset), marker >= high watermark

    def __len__(self) -> int:
        return len(self._ongoing)

    def first_offset_of(self, producer_id: int) -> int | None:
        """First offset of this producer's ongoing transaction; None if it has none here."""
        return self._ongoing.get(producer_id)

    @property
    def first_unstable_offset(self) -> int | None:
        """From this offset on, no record is decided for a read_committed consumer. None if all records are decided."""
        first = next(iter(self._ongoing.values()), None)
        if self._unreplicated:
            ended = min(first_offset for first_offset, _ in self._unreplicated)
            return ended if first is None else min(first, ended)
        return first

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Does nothing if the producer has a transaction here already."""
        self._ongoing.setdefault(producer_id, first_offset)

    def end(self, producer_id: int, marker_offset: int, *, is_commit: bool) -> CompletedTransaction | None:
        """None if the producer had no transaction here. A marker may be repeated, or the log may hold no records of
        its transaction."""
        first_offset = self._ongoing.pop(producer_id, None)
        if first_offset is None:
            return None
        self._unreplicated.append((first_offset, marker_offset))
        return CompletedTransaction(producer_id, first_offset, marker_offset, is_commit)

    def stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset after the marker of `completed` is replicated. The entry in the index holds it."""
        return next(iter(self._ongoing.values()), completed.last_offset + 1)

    def high_watermark_advanced(self, high_watermark: int) -> None:
        while self._unreplicated and self._unreplicated[0][1] < high_watermark:
            self._unreplicated.popleft()

    def clear(self) -> None:
        self._ongoing.clear()
        self._unreplicated.clear()

    # -- the snapshot's form

    def dump(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return list(self._ongoing.items()), list(self._unreplicated)

    def restore(self, ongoing: Sequence[Sequence[int]], unreplicated: Sequence[Sequence[int]]) -> None:
        self._ongoing = {producer_id: first_offset for producer_id, first_offset in ongoing}
        self._unreplicated = deque((first_offset, marker_offset) for first_offset, marker_offset in unreplicated)

    def check_invariants(self) -> None:
        starts = list(self._ongoing.values())
        assert starts == sorted(starts)
        markers = [marker_offset for _, marker_offset in self._unreplicated]
        assert markers == sorted(markers)
        assert all(first_offset < marker_offset for first_offset, marker_offset in self._unreplicated)

"""What a test is handed out is what a read_committed consumer must see, and the whole log says what else is there."""

from __future__ import annotations

from collections.abc import Iterator

from broker.log.transactions import EndMarker, encode_end_marker
from broker.wire.batch import RawBatch, iter_batches, set_base_offset
from broker.wire.records import encode_batch
from harness.fixtures.committed import RecordStatus, records_of

COMMITTED, ABORTED, OPEN, MARKER = (
    RecordStatus.COMMITTED, RecordStatus.ABORTED, RecordStatus.OPEN, RecordStatus.MARKER,
)  # fmt: skip


def batches(*parts: bytes | bytearray) -> Iterator[RawBatch]:
    offset = 0
    for part in parts:
        buffer = bytearray(part)
        set_base_offset(buffer, offset)
        for batch in iter_batches(buffer):
            offset = batch.header.next_offset
            yield batch


def sent(*values: bytes, producer_id: int = -1) -> bytes:
    if producer_id < 0:
        return bytes(encode_batch(list(values), timestamps_ms=5))
    return bytes(
        encode_batch(
            list(values), timestamps_ms=5, producer_id=producer_id, producer_epoch=0, base_sequence=0,
            transactional=True,
        )
    )  # fmt: skip


def marker(producer_id: int, *, is_commit: bool) -> bytearray:
    return encode_end_marker(producer_id=producer_id, producer_epoch=0, marker=EndMarker(is_commit, 0), timestamp_ms=5)


def test_the_marker_of_its_own_producer_ends_a_transaction() -> None:
    found = records_of(
        3,
        batches(
            sent(b"a", b"b", producer_id=1), sent(b"c", producer_id=2), sent(b"d"), marker(1, is_commit=False),
            sent(b"e", producer_id=1), marker(2, is_commit=True), marker(1, is_commit=True), sent(b"f", producer_id=1),
        ),
    )  # fmt: skip
    assert [(record.offset, record.status, record.value) for record in found if record.status is not MARKER] == [
        (0, ABORTED, b"a"), (1, ABORTED, b"b"), (2, COMMITTED, b"c"), (3, COMMITTED, b"d"), (5, COMMITTED, b"e"),
        (8, OPEN, b"f"),
    ]  # fmt: skip
    assert [record.offset for record in found if record.status is MARKER] == [4, 6, 7]
    assert {record.partition for record in found} == {3}


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    found = records_of(0, batches(sent(b"a"), marker(9, is_commit=False), sent(b"b")))
    assert [record.status for record in found] == [COMMITTED, MARKER, COMMITTED]

"""What the markers in the copiers' topic say of each copy, and what its header says of its transaction."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from broker.wire.batch import RawBatch, iter_batches
from broker.wire.records import encode_batch
from harness.run.evidence.copied_records import ABORTED, COMMITTED, OPEN, read_copies, rows_of
from runlog.streams.payload import make
from runlog.streams.schema import COPIES

NAMES = [column.name for column in COPIES.columns]


def value(seq: int) -> bytes:
    return make(producer=1, incarnation=0, seq=seq, intended_ns=1_000, body=b"x" * 30)


def copies(base: int, seqs: list[int], producer_id: int, header: bytes | None = b"2/1/7") -> bytes:
    headers = () if header is None else (("copy", header),)
    return bytes(
        encode_batch(
            [value(seq) for seq in seqs], timestamps_ms=0, base_offset=base, producer_id=producer_id,
            producer_epoch=0, base_sequence=0, transactional=True, headers=[headers] * len(seqs),
        )
    )  # fmt: skip


def marker(base: int, producer_id: int, *, is_commit: bool) -> bytes:
    return bytes(
        encode_batch(
            [struct.pack(">hi", 0, 0)], keys=[struct.pack(">hh", 0, int(is_commit))], timestamps_ms=0, base_offset=base,
            producer_id=producer_id, producer_epoch=0, transactional=True, control=True,
        )
    )  # fmt: skip


def rows(data: bytes) -> list[dict[str, int]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows_of(3, iter_batches(data))]


def test_a_marker_ends_what_its_own_producer_has_open() -> None:
    found = rows(
        copies(0, [0, 1], 11)
        + copies(2, [2], 12)
        + marker(3, 11, is_commit=True)
        + copies(4, [3], 11)
        + marker(5, 12, is_commit=False)
    )
    assert [(row["offset"], row["seq"], row["outcome"]) for row in found] == [
        (0, 0, COMMITTED),
        (1, 1, COMMITTED),
        (2, 2, ABORTED),
        (4, 3, OPEN),
    ]
    assert {row["partition"] for row in found} == {3}


def test_the_header_names_the_transaction_and_a_bad_one_names_none() -> None:
    for header, expected in ((b"2/1/7", (2, 1, 7)), (b"2/x/7", (-1, -1, -1)), (None, (-1, -1, -1))):
        (row,) = rows(copies(0, [0], 11, header))
        assert (row["copier"], row["copier_incarnation"], row["txn"]) == expected
        assert (row["producer"], row["crc_ok"]) == (1, 1)


class Deleted:
    """A log whose first records were deleted."""

    def start_offset(self, partition: int) -> int:
        return 2

    def end_offset(self, partition: int) -> int:
        return 4

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]:
        return iter_batches(copies(2, [2], 12) + marker(3, 12, is_commit=True))


def test_copies_that_retention_may_have_removed_make_the_read_incomplete(tmp_path: Path) -> None:
    """Otherwise they would be missing copies, and the cell would fail."""
    found = read_copies(tmp_path, "c", reader=Deleted(), partitions=[0])
    assert (found.complete, found.committed) == (False, 1)
    assert found.reason == "partition 0: the copies below offset 2 were deleted"
    compacted = read_copies(tmp_path, "d", reader=Deleted(), partitions=[], is_compacted=True)
    assert (compacted.complete, compacted.reason) == (False, "compaction may have removed copies")

"""The final read is complete only if every offset up to the leader's end was read, with nothing in between."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from broker.wire.batch import RawBatch, iter_batches
from broker.wire.records import CodecId, encode_batch
from harness.run.evidence import final_read
from harness.run.evidence.final_read import read_log
from runlog.files.clock import RunClock
from runlog.records.cell import FinalReadRecord
from runlog.streams.parquet import read_stream
from runlog.streams.payload import make
from runlog.streams.record_keys import TURNS, fingerprint, key_name
from tests.harness.test_harness_copies import marker


class Log:
    """A partition as bytes."""

    def __init__(self, data: bytes, *ends: int, start: int = 0) -> None:
        self._data, self._ends, self._start = data, list(ends), start

    def start_offset(self, partition: int) -> int:
        return self._start

    def end_offset(self, partition: int) -> int:
        return self._ends.pop(0) if len(self._ends) > 1 else self._ends[0]

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]:
        """Of what lies there, whole batches: the first one has `from_offset`."""
        return (each for each in iter_batches(self._data) if each.header.next_offset > (from_offset or 0))


def values(first_seq: int, count: int) -> list[bytes]:
    return [
        make(producer=1, incarnation=0, seq=seq, intended_ns=1_000_000 + seq * 1_000, body=b"x" * 100)
        for seq in range(first_seq, first_seq + count)
    ]


def batch(base: int, count: int, codec: CodecId = CodecId.NONE) -> bytes:
    return bytes(
        encode_batch(values(base, count), timestamps_ms=0, base_offset=base, partition_leader_epoch=2, codec=codec)
    )


def in_transaction(base: int, count: int, producer_id: int) -> bytes:
    return bytes(
        encode_batch(
            values(base, count), timestamps_ms=0, base_offset=base, partition_leader_epoch=2, producer_id=producer_id,
            producer_epoch=0, base_sequence=0, transactional=True,
        )
    )  # fmt: skip


def read(tmp_path: Path, log: Log, *, is_compacted: bool = False) -> FinalReadRecord:
    clock = RunClock(t0_monotonic_ns=1_000_000)
    return read_log(tmp_path, "c", reader=log, partitions=[0], clock=clock, is_compacted=is_compacted)


def test_every_record_and_batch_gets_a_row(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(0, 3) + batch(3, 4, CodecId.LZ4), 7))
    assert (result.complete, result.reason, result.end_offsets, result.records) == (True, "", {0: 7}, 7)
    log = read_stream(tmp_path, "log", "c").to_pydict()
    assert log["seq"] == log["offset"] == list(range(7))
    assert log["batch_base_offset"] == [0, 0, 0, 3, 3, 3, 3]
    assert log["crc_ok"] == [1] * 7
    assert log["intended_us"] == list(range(7))
    batches = read_stream(tmp_path, "batches", "c").to_pydict()
    assert batches["records"] == [3, 4]
    assert batches["codec"] == [0, 3]
    plain = len(batch(3, 4))
    assert batches["uncompressed_bytes"] == [len(batch(0, 3)), plain]
    assert batches["size_bytes"][1] < plain


def test_markers_decide_which_records_of_transactions_are_in_the_log(tmp_path: Path) -> None:
    """Two overlap, one ends only in what a second look at the end offset brings, and one never ends."""
    data = (
        batch(0, 1)
        + in_transaction(1, 2, 11)
        + in_transaction(3, 1, 12)
        + marker(4, 11, is_commit=True)
        + in_transaction(5, 1, 11)
        + marker(6, 12, is_commit=False)
        + in_transaction(7, 2, 13)
        + marker(9, 11, is_commit=True)
    )
    result = read(tmp_path, Log(data, 9, 10, 10))
    assert (result.complete, result.reason, result.records, result.uncommitted) == (True, "", 7, 3)
    log = read_stream(tmp_path, "log", "c").to_pydict()
    assert sorted(log["offset"]) == [0, 1, 2, 5]
    undone = read_stream(tmp_path, "uncommitted", "c").to_pydict()
    assert dict(zip(undone["offset"], undone["outcome"], strict=True)) == {3: 0, 7: -1, 8: -1}
    assert undone["seq"] == undone["offset"]
    assert read_stream(tmp_path, "batches", "c").to_pydict()["records"] == [1, 2, 1, 0, 1, 0, 2, 0]


def test_open_transactions_take_no_more_memory_than_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that loses a marker leaves a transaction open for the rest of the log."""
    monkeypatch.setattr(final_read, "OPEN_ROWS_MAX", 3)
    data = (
        in_transaction(0, 2, 11)
        + in_transaction(2, 2, 12)
        + in_transaction(4, 2, 11)
        + marker(6, 11, is_commit=True)
        + in_transaction(7, 4, 12)
    )
    rows_held: list[int] = []
    add = final_read._Logs.add

    def noted(self: Any, *arguments: Any) -> None:
        add(self, *arguments)
        rows_held.append(sum(map(len, self._open.values())))

    monkeypatch.setattr(final_read._Logs, "add", noted)
    result = read(tmp_path, Log(data, 11))
    assert (result.complete, result.records, result.uncommitted) == (True, 10, 6)
    assert max(rows_held) < 3
    log, undone = (read_stream(tmp_path, name, "c").to_pydict() for name in ("log", "uncommitted"))
    assert log["offset"] == log["seq"] == [0, 1, 4, 5]
    assert undone["offset"] == undone["seq"] == [2, 3, 7, 8, 9, 10]
    assert set(undone["outcome"]) == {-1}
    assert {path.name for path in tmp_path.iterdir()} == {"log", "uncommitted", "batches"}


def test_rows_that_the_disk_does_not_take_are_neither_lost_nor_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait in memory until the file has them. The second producer's do not fit any more."""
    monkeypatch.setattr(final_read, "OPEN_ROWS_MAX", 4)

    class Small(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell():
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    monkeypatch.setattr(final_read.tempfile, "TemporaryFile", lambda **_: Small())
    result = read(tmp_path, Log(in_transaction(0, 2, 11) + in_transaction(2, 2, 12), 4))
    assert not result.complete
    assert "No space left on device" in result.reason
    undone = read_stream(tmp_path, "uncommitted", "c").to_pydict()
    assert sorted(undone["offset"]) == [0, 1, 2, 3]


def test_a_log_that_ends_early_is_incomplete(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(0, 3), 7))
    assert not result.complete
    assert "read to offset 3, end offset 7" in result.reason


def test_a_gap_between_batches_is_incomplete(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(0, 3) + batch(5, 2), 7))
    assert not result.complete
    assert "a batch at offset 5, expected 3" in result.reason


def test_deleted_records_are_left_out_and_the_rest_is_complete(tmp_path: Path) -> None:
    """A log start in the middle of a batch: the batch is still served as a whole."""
    result = read(tmp_path, Log(batch(3, 4) + batch(7, 2), 9, start=5))
    assert (result.complete, result.reason, result.records) == (True, "", 4)
    assert read_stream(tmp_path, "log", "c").to_pydict()["offset"] == [5, 6, 7, 8]


class Expiring(Log):
    """Retention moves the log's start after the first batch was read."""

    def __init__(self, data: bytes, *ends: int, moves_to: int) -> None:
        super().__init__(data, *ends)
        self._moves_to = moves_to

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]:
        for number, each in enumerate(super().batches(partition, to_offset, from_offset=from_offset)):
            if number == 0:
                yield each
                self._start = self._moves_to
            elif each.header.next_offset > self._start:
                yield each


def test_the_read_goes_on_at_the_new_start_if_retention_deletes_what_comes_next(tmp_path: Path) -> None:
    log = batch(0, 3) + batch(3, 4) + batch(7, 2)
    result = read(tmp_path / "whole", Expiring(log, 9, moves_to=7))
    assert (result.complete, result.reason, result.start_offsets) == (True, "", {0: 7})
    assert result.size_bytes == {0: len(batch(7, 2))}
    assert read_stream(tmp_path / "whole", "log", "c").to_pydict()["offset"] == [0, 1, 2, 7, 8]
    result = read(tmp_path / "cut", Expiring(log, 9, moves_to=5))
    # A leader serves a batch as a whole, also if the log now begins in its middle.
    assert (result.complete, result.reason, result.start_offsets) == (True, "", {0: 0})
    assert read_stream(tmp_path / "cut", "log", "c").to_pydict()["offset"] == list(range(9))
    result = read(tmp_path / "all", Expiring(log, 9, moves_to=9))
    assert (result.complete, result.reason, result.start_offsets, result.size_bytes) == (True, "", {0: 9}, {0: 0})


def test_a_hole_behind_the_new_start_is_incomplete(tmp_path: Path) -> None:
    result = read(tmp_path, Expiring(batch(0, 3) + batch(7, 2), 9, moves_to=5))
    assert "a batch at offset 7, expected 5" in result.reason


def test_a_compacted_log_has_gaps(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(0, 3) + batch(5, 2), 7), is_compacted=True)
    assert (result.complete, result.reason, result.records) == (True, "", 5)


def test_keys_are_known_if_every_record_that_is_left_has_its_own(tmp_path: Path) -> None:
    numbers = np.zeros(TURNS, dtype=np.int64)
    numbers[:9] = [4, 0, 1, 2, 0, 3, 0, 0, 1]
    names = [key_name(number) for number in numbers.tolist()]
    cleaned = keyed(1, names[1:3]) + keyed(5, names[5:9])

    def crc(data: bytes, name: str, end: int = 9) -> int | None:
        clock = RunClock(t0_monotonic_ns=1_000_000)
        log = Log(data, end)
        found = read_log(tmp_path / name, "c", reader=log, partitions=[0], clock=clock, is_compacted=True, keys=numbers)
        assert found.complete, found.reason
        return found.keys_crc

    assert crc(cleaned, "all") == fingerprint(numbers)
    assert crc(keyed(1, names[1:3]) + keyed(5, [*names[5:8], names[0]]), "other") is None
    assert crc(keyed(1, names[1:3]) + keyed(5, [*names[5:8], None]), "none") is None
    assert read(tmp_path / "not", Log(cleaned, 9), is_compacted=True).keys_crc is None
    # A stranger's record with a key of ours may have superseded ours. With another key it has not.
    strange = encode_batch([b"not ours"], keys=[names[3]], timestamps_ms=0, base_offset=9, partition_leader_epoch=2)
    assert crc(cleaned + bytes(strange), "stranger", end=10) is None
    strange = encode_batch([b"not ours"], keys=[b"other"], timestamps_ms=0, base_offset=9, partition_leader_epoch=2)
    assert crc(cleaned + bytes(strange), "apart", end=10) == fingerprint(numbers)
    # What is damaged says nothing about keys.
    damaged = keyed(5, names[5:9]).replace(names[5], b"key-999999")
    assert crc(keyed(1, names[1:3]) + damaged, "damaged") == fingerprint(numbers)


def keyed(base: int, keys: Sequence[bytes | None]) -> bytes:
    return bytes(
        encode_batch(
            values(base, len(keys)), keys=list(keys), timestamps_ms=0, base_offset=base, partition_leader_epoch=2
        )
    )


def test_the_start_of_the_log_and_the_bytes_above_it_are_told(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(3, 4) + batch(7, 2), 9, start=5))
    assert (result.start_offsets, result.size_bytes) == ({0: 5}, {0: len(batch(3, 4) + batch(7, 2))})


def test_a_log_that_begins_above_its_start_is_incomplete(tmp_path: Path) -> None:
    result = read(tmp_path, Log(batch(7, 2), 9, start=5))
    assert "a batch at offset 7, expected 5" in result.reason


def test_a_batch_with_a_wrong_crc_is_read_and_its_records_are_corrupt(tmp_path: Path) -> None:
    """The leader served it: that is a finding, and not a reason to look away."""
    damaged = bytearray(batch(3, 2))
    damaged[-20] ^= 0x10  # in the value of the last record
    result = read(tmp_path, Log(batch(0, 3) + bytes(damaged) + batch(5, 1), 6))
    assert (result.complete, result.corrupt) == (True, ("partition 0: offsets 3 to 4",))
    log = read_stream(tmp_path, "log", "c").to_pydict()
    assert dict(zip(log["offset"], log["crc_ok"], strict=True)) == {0: 1, 1: 1, 2: 1, 3: 0, 4: 0, 5: 1}


def test_an_end_offset_that_moves_without_records_is_incomplete(tmp_path: Path) -> None:
    for moved_to in (4, 2):
        result = read(tmp_path / str(moved_to), Log(batch(0, 3), 3, moved_to))
        assert not result.complete
        assert f"{moved_to} after" in result.reason


def test_a_high_watermark_that_rises_is_followed(tmp_path: Path) -> None:
    """After acks=1 followers may still take what is there. A fetch may bring more than was readable a moment before."""

    class Rising(Log):
        def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]:
            start = from_offset or 0
            return (each for each in iter_batches(self._data) if start <= each.header.base_offset <= to_offset)

    for ends in ((3, 7, 8), (3, 8), (0, 3, 8)):
        result = read(tmp_path / str(ends), Rising(batch(0, 3) + batch(3, 4) + batch(7, 1), *ends))
        assert (result.complete, result.reason, result.end_offsets, result.records) == (True, "", {0: 8}, 8)
    assert read_stream(tmp_path / str(ends), "log", "c").to_pydict()["offset"] == list(range(8))


def test_foreign_records_are_counted_and_left_out(tmp_path: Path) -> None:
    data = bytes(encode_batch([b"not ours", *values(0, 1)], timestamps_ms=0, base_offset=0, partition_leader_epoch=0))
    result = read(tmp_path, Log(data, 2))
    assert (result.complete, result.records, result.foreign) == (True, 2, 1)
    assert read_stream(tmp_path, "log", "c").num_rows == 1


def test_an_unreachable_partition_says_why(tmp_path: Path) -> None:
    class Dead(Log):
        def end_offset(self, partition: int) -> int:
            raise TimeoutError("no leader")

    result = read(tmp_path, Dead(b"", 0))
    assert (result.complete, result.reason) == (False, "partition 0: TimeoutError: no leader")


def test_a_marker_of_a_transaction_is_nobodys_record(tmp_path: Path) -> None:
    """A control batch takes an offset. Counted as a record of somebody else it would fail each transactional load."""
    key = b"\x00\x00\x00\x01"
    marker = encode_batch(
        [b"\x00\x00\x00\x00\x00\x00"], timestamps_ms=0, keys=[key], base_offset=3, partition_leader_epoch=2,
        producer_id=7, producer_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    result = read(tmp_path, Log(batch(0, 3) + bytes(marker) + batch(4, 2), 6))
    assert (result.complete, result.records, result.foreign) == (True, 5, 0)
    assert read_stream(tmp_path, "batches", "c").to_pydict()["records"] == [3, 0, 2]

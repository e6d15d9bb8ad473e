"""Compaction: all rows reach Parquet once, sends without an outcome become unknown, a crash between is harmless."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from runlog.files.paths import live_directory
from runlog.streams import compact
from runlog.streams.inflight import InflightRing
from runlog.streams.parquet import arrow_schema, read_stream, write_part
from runlog.streams.schema import BATCHES, LOG, RECV, SEND, SendStatus
from runlog.streams.segment import SegmentWriter
from runlog.streams.seq_bits import windows


def _write_cell(run_dir: Path, *, sent: int, completed: set[int], slots: int = 1024) -> Path:
    live = live_directory(run_dir, "c1")
    ring = InflightRing(live, producer=1, incarnation=0, slots=slots)
    writer = SegmentWriter(live, SEND, "p1", rows_per_segment=50)
    for seq in range(sent):
        ring.record(seq, seq * 100, seq * 100 + 7, 256)
        if seq in completed:
            writer.append(1, 0, seq, 0, SendStatus.ACKED, 0, 256, seq * 100, seq * 100 + 7, seq * 100 + 50, seq, -1)
    ring.close()
    writer.close()
    consumer = SegmentWriter(live, RECV, "c0")
    for offset in range(10):
        consumer.append(0, -1, 0, offset, 1, 0, offset, offset * 100, offset * 100 + 90, 1, -1, 0)
    consumer.close()
    return live


def test_sends_without_an_outcome_become_unknown_rows_with_their_times(tmp_path: Path) -> None:
    live = _write_cell(tmp_path, sent=200, completed=set(range(200)) - {3, 150, 199})
    result = compact.compact_cell(tmp_path, "c1")
    assert result.rows == {"send": 200, "recv": 10}
    assert not live.exists()
    (producer,) = result.producers
    assert (producer.producer, producer.high_seq) == (1, 199)
    rows = {row["seq"]: row for row in read_stream(tmp_path, SEND, "c1").to_pylist()}
    assert sorted(rows) == list(range(200))
    unknown = {seq for seq, row in rows.items() if row["status"] == SendStatus.UNKNOWN}
    assert unknown == {3, 150, 199}
    assert rows[150]["intended_us"] == 15_000
    assert rows[150]["sent_us"] == 15_007
    assert rows[199]["size_bytes"] == 256
    assert (rows[199]["acked_us"], rows[199]["offset"], rows[199]["partition"]) == (-1, -1, -1)
    assert rows[4]["acked_us"] == 450


def test_a_send_whose_ring_slot_was_overwritten_gets_an_interpolated_time(tmp_path: Path) -> None:
    _write_cell(tmp_path, sent=200, completed=set(range(200)) - {5}, slots=16)
    compact.compact_cell(tmp_path, "c1")
    rows = {row["seq"]: row for row in read_stream(tmp_path, SEND, "c1").to_pylist()}
    assert rows[5]["status"] == SendStatus.UNKNOWN
    assert rows[5]["intended_us"] == 500


@pytest.mark.thorough
def test_the_highest_of_many_known_times_is_kept() -> None:
    """Of the others one of two goes away again and again: else they would grow with the sends."""
    sent = compact._Sent()
    for first in range(0, 60_000, 6_000):
        seqs = np.arange(first, first + 6_000)
        sent.take(seqs, seqs * 100)
    points = sent.points()
    assert len(points) <= compact._POINTS_MAX + 1
    assert points[-1] == (59_999, 5_999_900)
    assert points[0] == (0, 0)
    assert max(np.diff([seq for seq, _ in points])) <= 60


def test_known_times_of_a_long_cell_are_evenly_spread() -> None:
    """Also those of its beginning: a send of that time is placed by its neighbours."""
    sent = compact._Sent()
    for first in range(0, 1_000_000, 5_000):
        seqs = np.arange(first, first + 5_000)
        sent.take(seqs, seqs * 100)
    points = sent.points()
    assert len(points) <= compact._POINTS_MAX + 1
    assert max(np.diff([seq for seq, _ in points])) <= 2 * 1_000_000 / compact._POINTS_MAX


def test_a_sequence_number_that_no_load_has_is_told_and_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number below it that has no row would get one."""
    monkeypatch.setattr(compact, "_SEQS_MAX", 250)
    live = _write_cell(tmp_path, sent=300, completed={299})
    with pytest.raises(compact.CompactionError, match="incarnation 0: sequence number 299 is damaged"):
        compact.compact_cell(tmp_path, "c1")
    assert compact.has_segments(live), "it can be looked at, and tried again"


@pytest.mark.parametrize("completed", [set(range(5, 300, 3)), set(range(300)), set[int]()])
def test_what_has_no_row_is_found_window_by_window_and_written_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, completed: set[int]
) -> None:
    """All sequence numbers of a cell were in memory: 17 bytes for each record."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for run_dir in (whole, cut):
        _write_cell(run_dir, sent=300, completed=completed)
    asked: list[tuple[int, int]] = []

    def narrow(highest: dict[tuple[int, int], int]) -> Iterator[tuple[int, int]]:
        for window in windows(highest, 64):
            asked.append(window)
            yield window

    expected = compact.compact_cell(whole, "c1")
    monkeypatch.setattr(compact, "windows", narrow)
    assert compact.compact_cell(cut, "c1", rows_per_part=50) == expected
    assert len(asked) == 5
    rows = [
        sorted(read_stream(run_dir, SEND, "c1").to_pylist(), key=lambda row: row["seq"]) for run_dir in (whole, cut)
    ]
    assert rows[0] == rows[1]
    parts = list(cut.glob("send/cell=c1/part-unknown*.parquet"))
    assert bool(parts) == (len(completed) < 300)
    assert max((pq.read_metadata(part).num_rows for part in parts), default=0) < 50 + 64


def test_a_producer_killed_before_any_outcome_leaves_unknown_rows_only(tmp_path: Path) -> None:
    _write_cell(tmp_path, sent=5, completed=set())
    result = compact.compact_cell(tmp_path, "c1")
    assert result.producers[0].high_seq == 4
    assert read_stream(tmp_path, SEND, "c1")["status"].to_pylist() == [SendStatus.UNKNOWN] * 5


@pytest.mark.parametrize("crash_at", ["before the marker", "while removing"])
def test_compacting_again_after_a_crash_gives_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: str
) -> None:
    live = _write_cell(tmp_path, sent=300, completed=set(range(250)))

    def crash(directory: Path) -> None:
        if crash_at == "before the marker":
            (directory / "compacted").unlink()
        else:
            next(directory.glob("send-*.seg")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(compact, "_remove", crash)
        compact.compact_cell(tmp_path, "c1", rows_per_part=100)
    compact.compact_cell(tmp_path, "c1", rows_per_part=100)
    assert sorted(read_stream(tmp_path, SEND, "c1")["seq"].to_pylist()) == list(range(300))
    assert not live.exists()


def test_a_cell_without_load_compacts_to_nothing(tmp_path: Path) -> None:
    assert compact.compact_cell(tmp_path, "c1") == compact.CompactionResult()
    assert read_stream(tmp_path, SEND, "c1").num_rows == 0


def test_streams_at_rest_are_small_and_hold_unsigned_crcs(tmp_path: Path) -> None:
    count = 20_000
    columns = {column.name: list(range(count)) for column in LOG.columns}
    columns |= {name: [0] * count for name in ("partition", "producer", "incarnation", "leader_epoch", "crc_ok")}
    path = write_part(tmp_path, "log", "c1", columns)
    assert path.stat().st_size < 3 * count
    assert path.parent.name == "cell=c1"
    assert pq.ParquetFile(path).schema_arrow.equals(arrow_schema(LOG))
    batch = {column.name: [0] for column in BATCHES.columns} | {"crc": [0xFFFF_FFFE]}
    write_part(tmp_path, BATCHES, "c1", batch)
    assert read_stream(tmp_path, BATCHES, "c1")["crc"].to_pylist() == [0xFFFF_FFFE]


def _rows(run_dir: Path) -> tuple[list[int], int]:
    """The sequences of the sends, and how many rows were received."""
    return sorted(read_stream(run_dir, SEND, "c1")["seq"].to_pylist()), read_stream(run_dir, RECV, "c1").num_rows


@pytest.mark.parametrize("come_again", [0, 20, 299])
def test_what_was_recovered_stays_when_less_than_it_comes_once_more(tmp_path: Path, come_again: int) -> None:
    _write_cell(tmp_path, sent=300, completed=set(range(300)))
    compact.compact_cell(tmp_path, "c1", rows_per_part=100)
    before = _files(tmp_path)
    if come_again:
        _write_cell(tmp_path, sent=come_again, completed=set(range(come_again)))
        with pytest.raises(compact.LostRowsError, match=r"producer 1: the segments have .* rows of stream send"):
            compact.compact_anew(tmp_path, "c1")
        assert (live_directory(tmp_path, "c1") / "send-p1-000000.seg").exists(), "and what came stays too"
    else:
        live_directory(tmp_path, "c1").mkdir(parents=True)
        compact.compact_anew(tmp_path, "c1")
    assert {name: data for name, data in _files(tmp_path).items() if name in before} == before
    assert _rows(tmp_path) == (list(range(300)), 10)


def test_readers_rows_count_as_well(tmp_path: Path) -> None:
    live = _write_cell(tmp_path, sent=30, completed=set(range(30)))
    compact.compact_cell(tmp_path, "c1")
    _write_cell(tmp_path, sent=30, completed=set(range(30)))
    (live / "recv-c0-000000.seg").unlink()
    with pytest.raises(compact.LostRowsError, match="consumer 0: the segments have 0 rows of stream recv"):
        compact.compact_anew(tmp_path, "c1")
    assert _rows(tmp_path) == (list(range(30)), 10)


def test_more_than_was_recovered_takes_its_place(tmp_path: Path) -> None:
    _write_cell(tmp_path, sent=250, completed=set(range(200)))
    compact.compact_cell(tmp_path, "c1", rows_per_part=50)
    _write_cell(tmp_path, sent=300, completed=set(range(300)))
    result = compact.compact_anew(tmp_path, "c1")
    assert result.rows == {"send": 300, "recv": 10}
    assert _rows(tmp_path) == (list(range(300)), 10), "and not those of both"
    assert not live_directory(tmp_path, "c1").exists()


@pytest.mark.parametrize("moved", [0, 1, 2, 3, 4])
def test_a_crash_while_parts_are_replaced_is_made_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    _write_cell(tmp_path, sent=250, completed=set(range(250)))
    compact.compact_cell(tmp_path, "c1", rows_per_part=50)
    live = _write_cell(tmp_path, sent=300, completed=set(range(299)))
    real, left = os.replace, [moved]

    def crash(source: Path, target: Path) -> None:
        if live / "anew" in Path(source).parents and Path(source).suffix == ".parquet" and Path(source).name[0] != ".":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(compact.os, "replace", crash)
        try:
            compact.compact_cell(tmp_path, "c1", rows_per_part=150)
        except KeyboardInterrupt:
            assert live.exists()
    compact.compact_cell(tmp_path, "c1", rows_per_part=150)
    assert _rows(tmp_path) == (list(range(300)), 10)
    assert not live.exists()


def _files(run_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run_dir)): path.read_bytes() for path in run_dir.rglob("*.parquet")}

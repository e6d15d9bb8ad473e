"""Segments: every finished row is read back, after a clean close, while being written and after a real SIGKILL."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runlog.streams import inflight, segment
from runlog.streams.schema import LOG, RECV, SEND
from tests.patience import Patience


def _row(seq: int) -> tuple[int, ...]:
    return (1, 0, seq, 2, 0, 0, 100, 10 * seq, 10 * seq + 1, 10 * seq + 5, seq + 1_000, 10 * seq + 3)


def _seqs(directory: Path) -> list[int]:
    return [seq for content in segment.read_segments(directory, SEND) for seq in content.rows["seq"].tolist()]


def test_many_sends_in_the_ring_are_those_recorded_one_by_one(tmp_path: Path) -> None:
    rings = [inflight.InflightRing(tmp_path, producer=number, incarnation=0, slots=16) for number in (1, 2)]
    times, sizes = np.arange(100, 130), np.arange(30) + 7
    for seq in range(30):
        rings[0].record(seq, 100 + seq, 500, 7 + seq)
    rings[1].record_many(0, times[:16], 500, sizes[:16])
    rings[1].record_many(16, times[16:], 500, sizes[16:])
    for ring in rings:
        assert ring.take(29) == (129, 500, 36)
        found = ring.take_many(np.array([28, 3, 17]))  # 3 has lost its slot to 19
        assert found[["intended_us", "size_bytes"]].tolist() == [(128, 35), (103, 10), (117, 24)]
        assert ring.take(5) == (105, 500, 12)
        with pytest.raises(KeyError, match="5"):
            ring.take(5)
        with pytest.raises(KeyError, match="40"):
            ring.take_many(np.array([27, 40]))
    for ring in rings:
        ring.close()
    states = inflight.read_rings(tmp_path)
    assert [state.seqs.tolist() for state in states] == [list(range(14, 30))] * 2
    assert states[0].intended_us.tolist() == states[1].intended_us.tolist()


def test_rows_come_back_in_order_over_several_files(tmp_path: Path) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=10)
    for seq in range(37):
        writer.append(*_row(seq))
    assert _seqs(tmp_path) == list(range(37))  # open
    writer.close()
    writer.close()
    assert len(segment.list_segments(tmp_path, SEND)) == 4
    assert _seqs(tmp_path) == list(range(37))  # closed
    last = list(segment.read_segments(tmp_path, SEND))[-1].rows[-1]
    assert tuple(last.tolist()) == _row(36)


def test_the_fast_appends_write_what_append_writes(tmp_path: Path) -> None:
    recv_row = (0, -1, 3, 44, 1, 0, 45, 450, 470, 1, 460, 0)
    for stream, row in ((SEND, _row(5)), (RECV, recv_row)):
        writer = segment.SegmentWriter(tmp_path, stream, "p1")
        writer.append(*row)
        (writer.append_send if stream is SEND else writer.append_recv)(*row)
        writer.close()
        (content,) = segment.read_segments(tmp_path, stream)
        assert [tuple(found.tolist()) for found in content.rows] == [row, row]


def test_a_prepared_file_becomes_the_next_one_and_an_unused_one_goes(tmp_path: Path) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=10)
    for seq in range(25):
        writer.append(*_row(seq))
        writer.prepare()
    assert len(list(tmp_path.glob(f"*{segment.SPARE_SUFFIX}"))) == 1
    assert _seqs(tmp_path) == list(range(25))
    writer.close()
    writer.prepare()
    assert list(tmp_path.glob(f"*{segment.SPARE_SUFFIX}")) == []
    assert len(segment.list_segments(tmp_path, SEND)) == 3
    assert _seqs(tmp_path) == list(range(25))


def test_rows_appended_in_bulk_are_those_appended_one_by_one(tmp_path: Path) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=10)
    writer.append(*_row(0))
    rows = np.array([(*_row(seq), 0) for seq in range(1, 35)], dtype=segment.live_row_dtype(SEND))
    writer.append_rows(rows)
    writer.append(*_row(35))
    writer.close()
    found = [row for content in segment.read_segments(tmp_path, SEND) for row in content.rows.tolist()]
    assert found == [_row(seq) for seq in range(36)]


def test_rows_that_the_disk_did_not_take_do_not_come_back_with_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first one have their marks already, and the next row would take the place of the first one."""
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=100)
    writer.append(*_row(0))
    rows = np.array([(*_row(seq), 0) for seq in range(1, 35)], dtype=segment.live_row_dtype(SEND))
    write = os.pwrite

    def written_and_failed(descriptor: int, data: memoryview, position: int) -> int:
        write(descriptor, data, position)
        raise OSError(errno.EIO, "the disk")

    with monkeypatch.context() as failing:
        failing.setattr(os, "pwrite", written_and_failed)
        with pytest.raises(OSError, match="the disk"):
            writer.append_rows(rows)
    writer.append(*_row(50))
    writer.append_rows(rows[:2])
    read = [seq for content in segment.read_segments(tmp_path, SEND) for seq in content.rows["seq"].tolist()]
    assert read == [0, 50, 1, 2]


def test_rows_that_a_kill_interrupts_are_left_out_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill comes after the call that writes the rows."""
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=100)
    writer.append(*_row(0))
    rows = np.array([(*_row(seq), 0) for seq in range(1, 35)], dtype=segment.live_row_dtype(SEND))
    write = os.pwrite

    def written_and_killed(descriptor: int, data: memoryview, position: int) -> int:
        write(descriptor, data, position)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pwrite", written_and_killed)
    with pytest.raises(KeyboardInterrupt):
        writer.append_rows(rows)
    (content,) = segment.read_segments(tmp_path, SEND)
    assert (content.rows["seq"].tolist(), content.torn_rows) == ([0], 1)
    follower = segment.SegmentFollower(tmp_path, SEND, "p1")
    assert follower.read_new()["seq"].tolist() == [0]


def test_a_row_without_its_commit_mark_is_left_out_and_counted(tmp_path: Path) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=10)
    for seq in range(3):
        writer.append(*_row(seq))
    writer.close()
    path = segment.list_segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[-1] = 0
    path.write_bytes(data)
    content = segment.read_segment(path)
    assert content.rows["seq"].tolist() == [0, 1]
    assert content.torn_rows == 1
    path.write_bytes(data[:-20])  # a file cut within a row
    assert segment.read_segment(path).rows["seq"].tolist() == [0, 1]


def test_the_number_of_segments_is_bounded(tmp_path: Path) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=2, segments_max=2)
    for seq in range(4):
        writer.append(*_row(seq))
    with pytest.raises(segment.SegmentsFull, match="2 segments of 2 rows"):
        writer.append(*_row(4))
    assert _seqs(tmp_path) == [0, 1, 2, 3]


def test_foreign_files_and_streams_at_rest_are_refused(tmp_path: Path) -> None:
    (tmp_path / "send-p1-000000.seg").write_bytes(b"something else" * 100)
    with pytest.raises(segment.SegmentError, match="not a run-log segment"):
        segment.read_segment(tmp_path / "send-p1-000000.seg")
    with pytest.raises(segment.SegmentError, match="not written row by row"):
        segment.SegmentWriter(tmp_path, LOG, "p1")
    with pytest.raises(segment.SegmentError, match="writer name"):
        segment.SegmentWriter(tmp_path, SEND, "p-1")


def test_an_allocated_file_without_rows_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "send-p1-000000.seg"
    path.write_bytes(b"\0" * 4096)
    assert len(segment.read_segment(path).rows) == 0


def test_a_follower_sees_each_row_once_over_file_changes(tmp_path: Path) -> None:
    follower = segment.SegmentFollower(tmp_path, SEND, "p1")
    assert len(follower.read_new()) == 0
    writer = segment.SegmentWriter(tmp_path, SEND, "p1", rows_per_segment=10)
    seen: list[int] = []
    for seq in range(95):
        writer.append(*_row(seq))
        if seq % 7 == 0:
            seen.extend(follower.read_new()["seq"].tolist())
    writer.close()
    for _look in range(12):
        seen.extend(follower.read_new()["seq"].tolist())
    assert seen == list(range(95))


def test_the_ring_keeps_the_latest_sends(tmp_path: Path) -> None:
    ring = inflight.InflightRing(tmp_path, producer=4, incarnation=2, slots=8)
    for seq in range(21):
        ring.record(seq, seq * 10, seq * 10 + 3, 100)
    (state,) = inflight.read_rings(tmp_path)
    assert (state.producer, state.incarnation, state.high_seq) == (4, 2, 20)
    assert state.seqs.tolist() == list(range(13, 21))
    assert state.sent_us.tolist() == [seq * 10 + 3 for seq in range(13, 21)]
    ring.close()


_WRITER = """
import sys, time
from pathlib import Path
from runlog.streams.inflight import InflightRing
from runlog.streams.schema import SEND
from runlog.streams.segment import SegmentWriter
directory = Path(sys.argv[1])
ring = InflightRing(directory, producer=1, incarnation=0)
writer = SegmentWriter(directory, SEND, "p1", rows_per_segment=20_000)
for seq in range(100_000_000):
    ring.record(seq, seq * 10, seq * 10 + 1, 100)
    writer.append(1, 0, seq, 2, 0, 0, 100, seq * 10, seq * 10 + 1, seq * 10 + 5, seq, -1)
    if seq % 10_000 == 0:
        print(seq, flush=True)
"""


@pytest.mark.slow
def test_a_sigkill_of_the_writer_loses_no_finished_row(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert process.stdout is not None
    told = 0
    patience = Patience("100,000 rows")
    try:
        while told < 100_000:
            told = int(process.stdout.readline())
            patience.check(told)
    finally:
        process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=60) == -signal.SIGKILL
    told = max([told, *[int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]])
    rows = np.concatenate([content.rows for content in segment.read_segments(tmp_path, SEND)])
    torn = sum(content.torn_rows for content in segment.read_segments(tmp_path, SEND))
    assert told >= 100_000
    assert rows["seq"].tolist() == list(range(len(rows)))
    assert len(rows) >= told + 1  # everything that the writer claimed to have written
    assert torn <= 1
    (state,) = inflight.read_rings(tmp_path)
    assert state.high_seq - int(rows["seq"][-1]) in (0, 1)


def test_a_disk_that_was_full_takes_rows_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p0", rows_per_segment=2)
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", _refuse)
        for seq in range(3):
            with pytest.raises(OSError, match="No space left"):
                writer.append(*_row(seq))
        writer.prepare()
    assert list(tmp_path.iterdir()) == [], "no file is left without its rows"
    for seq in range(3, 9):
        writer.append(*_row(seq))
    writer.close()
    assert _seqs(tmp_path) == [3, 4, 5, 6, 7, 8]


def test_a_spare_file_that_the_disk_does_not_take_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = segment.SegmentWriter(tmp_path, SEND, "p0", rows_per_segment=2)
    writer.append(*_row(0))
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", _refuse)
        writer.prepare()
        writer.append(*_row(1))
    writer.append(*_row(2))
    writer.close()
    assert _seqs(tmp_path) == [0, 1, 2]


def _refuse(_descriptor: int, _offset: int, _size_bytes: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")

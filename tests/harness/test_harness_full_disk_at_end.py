"""The disk of a run gets full while its cell goes on, with faults that are not healed yet, or just before its end.

Nothing hangs, everything is healed and ended, what was written stays, and the cell is inconclusive with the reason. The
brokers of the run write to the same disk. So they fail too, which is not their fault. That faults are healed on a full
disk is shown without processes by tests/chaos/test_chaos_timeline_healing.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.errors import ExitCode
from harness.run.directory.recover import recover_run
from runlog.files.paths import live_directory
from runlog.records.cell import CellAnomaly, CellStatus
from runlog.records.documents import read_cell, read_run_record
from runlog.records.holes import HoleKind
from runlog.records.run import RunStatus
from runlog.streams.compact import has_segments
from runlog.streams.parquet import partition_directory
from runlog.streams.schema import SEND
from tests.harness.harness_process import HarnessProcess, Start, leases, write_suite
from tests.harness.small_disk import SmallDisk, why_no_disk

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_no_disk()), reason=why_no_disk())]
CELL = "chaos-short-only"
SIZE_MIB = 150
REASON = "the disk of the run is full: "
ATTEMPTS_MAX = 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    found = SmallDisk(tmp_path, fails=False, size_mib=SIZE_MIB)
    yield found
    found.close()


def started(start: Start, directory: Path, run_dir: Path) -> HarnessProcess:
    suite = write_suite(directory, measure_ms=9_000, held_ms=8_000)
    return start("run", str(suite), "--run-dir", str(run_dir), "--toxiproxy", "embedded", "--no-report", "--no-certify")


def assert_ended_and_told(process: HarnessProcess, run_dir: Path) -> None:
    assert process.wait() == ExitCode.ENVIRONMENT, process.screen
    assert process.family() == {}, "brokers that were paused and links that were cut are gone too"
    assert leases(process.state_home) == []
    assert REASON in process.text
    assert "free some space, or put the run elsewhere with --run-dir" in process.text
    assert "Traceback" not in process.text
    assert read_run_record(run_dir).status is RunStatus.FINISHED
    outcome = read_cell(run_dir, CELL).outcome
    assert outcome.status is CellStatus.FAILED
    assert outcome.anomaly is CellAnomaly.NONE, outcome.reason
    assert outcome.reason.startswith(REASON)
    assert "No space left on device" in outcome.reason


def sends(run_dir: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in partition_directory(run_dir, SEND, CELL).glob("*.parquet"))


@pytest.mark.long
def test_a_disk_that_gets_full_under_a_fault_ends_the_cell_and_says_so(
    start: Start, tmp_path: Path, disk: SmallDisk
) -> None:
    run_dir = disk.path / "run"
    process = started(start, tmp_path, run_dir)
    process.await_text("FAULT link_cut, pause")
    disk.spoil()
    assert_ended_and_told(process, run_dir)
    kinds = {hole.kind for hole in read_cell(run_dir, CELL).outcome.holes or ()}
    assert HoleKind.SAMPLES in kinds, "the recorder of CPU could not go on"


@pytest.mark.long
def test_a_run_log_that_the_disk_cannot_take_stays_in_segments_until_there_is_room(
    start: Start, tmp_path: Path, disk: SmallDisk
) -> None:
    for attempt in range(ATTEMPTS_MAX):
        run_dir = disk.path / f"run-{attempt}"
        process = started(start, tmp_path, run_dir)
        process.await_text("· drain")
        disk.spoil()
        ended = process.wait()
        if has_segments(live_directory(run_dir, CELL)) or attempt == ATTEMPTS_MAX - 1:
            break
        # On a busy host the cell may be over, or its rows may be in Parquet, before the disk is full.
        assert ended in {ExitCode.PASS, ExitCode.ENVIRONMENT}, process.screen
        disk.mend()
        shutil.rmtree(run_dir)
    assert_ended_and_told(process, run_dir)
    assert has_segments(live_directory(run_dir, CELL))
    assert {HoleKind.SEND_ROWS, HoleKind.RECV_ROWS} <= {
        hole.kind for hole in read_cell(run_dir, CELL).outcome.holes or ()
    }
    disk.mend()
    (line,) = recover_run(run_dir)
    assert "recovered" in line
    assert sends(run_dir) >= 4_000, "9 s with 500 records in each"
    assert not has_segments(live_directory(run_dir, CELL))
    assert read_cell(run_dir, CELL).outcome.reason.startswith(REASON), "it says why it is no verdict"

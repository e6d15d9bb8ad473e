"""Which run directory may be made whole: not one whose harness goes on, here or where it cannot be seen. And what is
made whole: each cell that is not, whatever its run says of itself."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.lease import read_identity
from harness.errors import UsageError
from harness.run.directory.recover import QUIET_S, recover_run
from harness.run.directory.run_directory import own_identity
from runlog.files.paths import cell_directory, live_directory
from runlog.files.place import here
from runlog.records.cell import CellStatus
from runlog.records.codec import to_json
from runlog.records.documents import read_cell
from runlog.records.run import RunStatus
from runlog.streams import compact
from runlog.streams.inflight import InflightRing
from runlog.streams.inventory import check_files
from runlog.streams.parquet import read_stream
from runlog.streams.schema import SCHEMA_VERSION, SEND, SendStatus
from runlog.streams.segment import SegmentWriter

GONE = {"pid": 4_000_000, "start_ticks": 5}
ELSEWHERE = here().as_json() | {"pid_namespace": "pid:[1]"}
RESTARTED = here().as_json() | {"boot_id": "before", "machine": "m"}


def run_of(directory: Path, owner: object) -> Path:
    manifest = {"status": "running", "owner": owner, "t0_monotonic_ns": 1}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


def status_of(directory: Path) -> str:
    return str(json.loads((directory / "manifest.json").read_text())["status"])


@pytest.mark.parametrize(
    "owner",
    [GONE, GONE | {"place": here().as_json()}, None, [], {"pid": "x"}, {"pid": 5, "start_ticks": 5, "place": 7}],
)
def test_a_run_whose_harness_is_gone_is_made_whole(tmp_path: Path, owner: object) -> None:
    recover_run(run_of(tmp_path, owner))
    assert status_of(tmp_path) == "killed"


def test_a_run_whose_harness_lives_is_left_alone(tmp_path: Path) -> None:
    identity = read_identity(os.getpid())
    assert identity is not None
    for owner in (to_json(own_identity()), {"pid": identity.pid, "start_ticks": identity.start_ticks}):
        with pytest.raises(UsageError, match=f"still being written by process {os.getpid()}"):
            recover_run(run_of(tmp_path, owner))
    assert status_of(tmp_path) == "running"


def test_a_run_of_another_namespace_is_left_alone_while_something_is_written(tmp_path: Path) -> None:
    run_of(tmp_path, GONE | {"place": ELSEWHERE})
    (tmp_path / "cells").mkdir()
    with pytest.raises(UsageError, match="which cannot be seen from here"):
        recover_run(tmp_path)
    assert status_of(tmp_path) == "running"
    long_ago_s = time.time() - QUIET_S - 1
    for path in tmp_path.rglob("*"):
        os.utime(path, (long_ago_s, long_ago_s))
    recover_run(tmp_path)
    assert status_of(tmp_path) == "killed"


def test_a_run_from_before_a_restart_is_made_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = here()
    machine = type(now)(host=now.host, machine="m", boot_id=now.boot_id, pid_namespace=now.pid_namespace)
    monkeypatch.setattr("harness.run.directory.recover.here", lambda: machine)
    recover_run(run_of(tmp_path, to_json(own_identity()) | {"place": RESTARTED}))
    assert status_of(tmp_path) == "killed"


ROWS = 30


def run_with_segments(directory: Path, status: RunStatus, *, ended_us: int | None = None) -> Path:
    """A run whose only cell could not be compacted."""
    manifest = {"status": status, "schema_version": SCHEMA_VERSION, "cells": ["c1"], "t0_monotonic_ns": 1}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    write_segments(directory)
    cell = {"cell_id": "c1", "outcome": {"status": "failed", "ended_us": ended_us}}
    (cell_directory(directory, "c1") / "cell.json").write_text(json.dumps(cell))
    return directory


def write_segments(directory: Path, rows: int = ROWS) -> None:
    ring = InflightRing(live_directory(directory, "c1"), producer=0, incarnation=0, slots=64)
    sends = SegmentWriter(live_directory(directory, "c1"), SEND, "p0i0")
    for seq in range(rows):
        ring.record(seq, seq, seq, 10)
        sends.append(0, 0, seq, 0, SendStatus.ACKED, 0, 10, seq, seq, seq + 1, seq, -1)
    ring.close()
    sends.close()


def missing(directory: Path) -> tuple[str, ...]:
    document = json.loads((cell_directory(directory, "c1") / "cell.json").read_text())
    return check_files(directory, "c1", document.get("files")).problems


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("ended_us", [None, 5])
def test_segments_that_were_left_are_recovered_whatever_became_of_the_run(
    tmp_path: Path, status: RunStatus, ended_us: int | None
) -> None:
    run_with_segments(tmp_path, status, ended_us=ended_us)
    (line,) = recover_run(tmp_path)
    assert line.startswith(f"c1: {ROWS} rows of send recovered; the harness ")
    assert read_stream(tmp_path, SEND, "c1").num_rows == ROWS
    assert missing(tmp_path) == ()
    found = read_cell(tmp_path, "c1").outcome.status
    assert found is (CellStatus.INTERRUPTED if ended_us is None else CellStatus.FAILED)
    assert status_of(tmp_path) == ("killed" if status is RunStatus.RUNNING else status)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert recover_run(tmp_path) == [], "once"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.RUNNING])
def test_what_cannot_be_recovered_is_told_stays_missing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: RunStatus
) -> None:
    run_with_segments(tmp_path, status)

    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(compact, "write_table", full)
        (line,) = recover_run(tmp_path)
    assert "c1: not recovered" in line
    assert "No space left on device; its run log stays in cells/c1/live" in line
    assert any("what they hold is missing" in problem for problem in missing(tmp_path))
    (line,) = recover_run(tmp_path)
    assert f"{ROWS} rows of send recovered" in line
    assert missing(tmp_path) == ()


def test_a_part_of_what_load_hosts_have_does_not_take_the_place_of_what_was_recovered(tmp_path: Path) -> None:
    """`harness gather` broke off, and `harness report` is said once more."""
    run_with_segments(tmp_path, RunStatus.RUNNING)
    recover_run(tmp_path)
    write_segments(tmp_path, ROWS - 1)
    (line,) = recover_run(tmp_path)
    assert "not recovered: producer 0: the segments have 29 rows of stream send" in line
    assert read_stream(tmp_path, SEND, "c1").num_rows == ROWS
    assert any("what they hold is missing" in problem for problem in missing(tmp_path))


def test_a_cell_that_was_compacted_and_not_written_is_completed(tmp_path: Path) -> None:
    """The disk was full when its documents were written."""
    run_with_segments(tmp_path, RunStatus.FAILED)
    compact.compact_cell(tmp_path, "c1")
    (line,) = recover_run(tmp_path)
    assert "c1: no rows recovered; the harness ended before it had completed this cell" in line
    assert missing(tmp_path) == ()
    assert recover_run(tmp_path) == []

"""JSON lines survive a torn end, documents are replaced whole."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runlog.files.clock import RunClock
from runlog.files.documents import HALF_UNSEEN_S, read_json, remove_halves, write_json
from runlog.files.json_lines import JsonlWriter
from runlog.files.paths import manifest_path
from runlog.files.place import here
from runlog.records.cell import CellRecord, CellStatus
from runlog.records.codec import from_document
from runlog.records.documents import read_cell, read_run_record, read_search_record, write_cell, write_run, write_search
from runlog.records.run import RunRecord
from runlog.records.search import Clause, SearchRecord
from tests.json_lines import read_jsonl
from tests.patience import run_command


def test_a_torn_last_line_is_ignored_and_writing_goes_on_after_it(tmp_path: Path) -> None:
    path = tmp_path / "cells" / "c1" / "faults.jsonl"
    with JsonlWriter(path) as writer:
        writer.append({"t_us": 1, "kind": "cut"})
    with path.open("ab") as file:
        file.write(b'{"t_us": 2, "ki')
    assert list(read_jsonl(path)) == [{"t_us": 1, "kind": "cut"}]
    with JsonlWriter(path) as writer:
        writer.append({"t_us": 3})
    assert [event["t_us"] for event in read_jsonl(path)] == [1, 3]


def test_a_line_that_the_disk_takes_only_in_part_is_an_error_and_the_next_one_is_whole(tmp_path: Path) -> None:
    """A limit of the process stands for a disk that gets full in the middle of a line: the kernel writes what fits."""
    path = tmp_path / "cluster.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with JsonlWriter(path) as writer:
        writer.append({"t_us": 1})
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 4, hard))
        try:
            with pytest.raises(OSError, match="too large"):
                writer.append({"t_us": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        writer.append({"t_us": 3})
    assert [event["t_us"] for event in read_jsonl(path)] == [1, 3]


def test_an_absent_file_has_no_events(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


def test_documents_come_back_and_leave_no_temporary_file(tmp_path: Path) -> None:
    write_run(tmp_path, from_document(RunRecord, {"run_id": "r", "t0_monotonic_ns": 5_000}))
    write_cell(tmp_path, from_document(CellRecord, {"cell_id": "c1", "outcome": {"status": "done"}}))
    assert read_cell(tmp_path, "c1").outcome.status is CellStatus.DONE
    clock = RunClock(t0_monotonic_ns=read_run_record(tmp_path).t0_monotonic_ns or 0)
    assert clock.to_us(1_005_000) == 1_000
    assert clock.to_mono_ns(1_000) == 1_005_000
    assert [path for path in tmp_path.rglob("*.tmp")] == []


KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from runlog.files.documents import write_json
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
write_json(Path(sys.argv[1]), {"half": True})
"""


@pytest.mark.slow
def test_what_a_killed_writer_has_left_is_removed_and_what_may_still_be_written_stays(tmp_path: Path) -> None:
    writer = run_command([sys.executable, "-c", KILLED_WRITER, str(tmp_path / "lease.json")])
    assert writer.returncode == -signal.SIGKILL
    (half,) = tmp_path.iterdir()
    alive = tmp_path / f".lease.json.{here().key}-{os.getpid()}-00000000.tmp"
    unseen = tmp_path / ".lease.json.00000000-1-00000000.tmp"
    of_others = tmp_path / ".somebody.tmp"
    for path in (alive, unseen, of_others):
        path.touch()
    remove_halves(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, unseen, of_others]), half
    os.utime(unseen, (0, time.time() - HALF_UNSEEN_S - 60))
    remove_halves(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, of_others])


def test_fields_of_another_version_stay_when_a_document_is_written_again(tmp_path: Path) -> None:
    write_json(manifest_path(tmp_path), {"run_id": "r", "status": "running", "of_tomorrow": [1, {"a": 2}]})
    write_run(tmp_path, read_run_record(tmp_path))
    assert read_json(manifest_path(tmp_path))["of_tomorrow"] == [1, {"a": 2}]


def test_what_a_document_is_cleaned_of_is_not_written(tmp_path: Path) -> None:
    record = from_document(RunRecord, {"run_id": "r", "argv": ["--password", "hush"]})
    write_run(tmp_path, record, clean=lambda document: {**document, "argv": ["--password", "(not shown)"]})
    assert read_run_record(tmp_path).argv == ("--password", "(not shown)")


def test_a_search_of_another_version_is_none(tmp_path: Path) -> None:
    assert read_search_record(tmp_path) is None
    rates = {"searched_per_s": [1.0, 9.0], "low_per_s": 2.0, "half_per_s": 3.0, "high_per_s": 4.0}
    found = from_document(SearchRecord, {"schema_version": 2, "limited_by": ["p99", "of tomorrow"], **rates})
    write_search(tmp_path, found)
    assert read_search_record(tmp_path) == found
    assert found.limited_by == (Clause.LATENCY,)
    write_search(tmp_path, replace(found, schema_version=9))
    assert read_search_record(tmp_path) is None


def test_a_search_that_says_no_estimate_is_none(tmp_path: Path) -> None:
    write_search(tmp_path, from_document(SearchRecord, {"schema_version": 2, "searched_per_s": [1.0, 9.0]}))
    assert read_search_record(tmp_path) is None


def test_a_broken_document_is_named(tmp_path: Path) -> None:
    manifest_path(tmp_path).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json is not JSON"):
        read_run_record(tmp_path)


def test_a_document_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise OSError(28, "No space left on device")

    write_json(tmp_path / "a.json", {"kept": 1})
    with pytest.raises(OSError, match="No space"):
        write_json(tmp_path / "a.json", {"kept": 2, "more": Unspeakable()})
    assert read_json(tmp_path / "a.json") == {"kept": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_two_writers_of_one_document_do_not_meet(tmp_path: Path) -> None:
    """The second writes while the first is half through: each has a file of its own until its rename."""

    class Meanwhile:
        def __str__(self) -> str:
            write_json(tmp_path / "a.json", {"by": "second"})
            return "first"

    write_json(tmp_path / "a.json", {"by": Meanwhile()})
    assert read_json(tmp_path / "a.json") == {"by": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

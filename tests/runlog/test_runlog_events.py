"""JSON lines survive a torn end, documents are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from runlog.files.clock import RunClock
from runlog.files.documents import read_cell, read_json, read_manifest, write_cell, write_json, write_manifest
from runlog.files.lines import JsonlWriter, read_jsonl
from runlog.files.paths import manifest_path


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


def test_an_absent_file_has_no_events(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


def test_documents_come_back_and_leave_no_temporary_file(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"run_id": "r", "t0_monotonic_ns": 5_000})
    write_cell(tmp_path, {"cell_id": "c1", "outcome": {"status": "done"}})
    assert read_cell(tmp_path, "c1")["outcome"] == {"status": "done"}
    clock = RunClock(t0_monotonic_ns=read_manifest(tmp_path)["t0_monotonic_ns"])
    assert clock.to_us(1_005_000) == 1_000
    assert clock.to_mono_ns(1_000) == 1_005_000
    assert [path for path in tmp_path.rglob("*.tmp")] == []


def test_a_broken_document_is_named(tmp_path: Path) -> None:
    manifest_path(tmp_path).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json is not JSON"):
        read_manifest(tmp_path)


def test_lines_without_the_text_are_passed_over_and_torn_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    path.write_text('{"topic":"t","a":1}\n{"topic":"u"}\n{"topic":"t","a"')
    assert list(read_jsonl(path, containing='"t"')) == [{"topic": "t", "a": 1}]


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

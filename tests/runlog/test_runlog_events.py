"""JSON lines survive a torn end, documents are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from runlog import events


def test_a_torn_last_line_is_ignored_and_writing_goes_on_after_it(tmp_path: Path) -> None:
    path = tmp_path / "cells" / "c1" / "faults.jsonl"
    with events.JsonlWriter(path) as writer:
        writer.append({"t_us": 1, "kind": "cut"})
    with path.open("ab") as file:
        file.write(b'{"t_us": 2, "ki')
    assert list(events.read_jsonl(path)) == [{"t_us": 1, "kind": "cut"}]
    with events.JsonlWriter(path) as writer:
        writer.append({"t_us": 3})
    assert [event["t_us"] for event in events.read_jsonl(path)] == [1, 3]


def test_an_absent_file_has_no_events(tmp_path: Path) -> None:
    assert list(events.read_jsonl(tmp_path / "none.jsonl")) == []


def test_documents_come_back_and_leave_no_temporary_file(tmp_path: Path) -> None:
    events.write_manifest(tmp_path, {"run_id": "r", "t0_monotonic_ns": 5_000})
    events.write_cell(tmp_path, {"cell_id": "c1", "outcome": {"status": "done"}})
    assert events.read_cell(tmp_path, "c1")["outcome"] == {"status": "done"}
    clock = events.clock_of(tmp_path)
    assert clock.to_us(1_005_000) == 1_000
    assert clock.to_mono_ns(1_000) == 1_005_000
    assert [path for path in tmp_path.rglob("*.tmp")] == []


def test_a_broken_document_is_named(tmp_path: Path) -> None:
    events.manifest_path(tmp_path).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json is not JSON"):
        events.read_manifest(tmp_path)


def test_lines_without_the_text_are_passed_over_and_torn_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "wire.jsonl"
    path.write_text('{"topic":"t","a":1}\n{"topic":"u"}\n{"topic":"t","a"')
    assert list(events.read_jsonl(path, containing='"t"')) == [{"topic": "t", "a": 1}]


def test_a_document_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(tmp_path: Path) -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise OSError(28, "No space left on device")

    events.write_json(tmp_path / "a.json", {"kept": 1})
    with pytest.raises(OSError, match="No space"):
        events.write_json(tmp_path / "a.json", {"kept": 2, "more": Unspeakable()})
    assert events.read_json(tmp_path / "a.json") == {"kept": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_two_writers_of_one_document_do_not_meet(tmp_path: Path) -> None:
    """The second writes while the first is half through: each has a file of its own until its rename."""

    class Meanwhile:
        def __str__(self) -> str:
            events.write_json(tmp_path / "a.json", {"by": "second"})
            return "first"

    events.write_json(tmp_path / "a.json", {"by": Meanwhile()})
    assert events.read_json(tmp_path / "a.json") == {"by": "first"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

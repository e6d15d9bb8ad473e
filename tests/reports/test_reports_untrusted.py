"""A report on a run directory that somebody else sent: it touches nothing outside, and its words stay words."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.main import execute
from harness.errors import ExitCode
from reports.read.run_files import RunDirectoryError, read_run
from reports.render.files import write_csv
from reports.render.plain import csv_cell, fenced, markdown
from reports.render.words import json_text

NAMES = st.text(max_size=60) | st.sampled_from(
    ["=1+1", "+a", "-a", "@SUM(A1)", "\t=1", "\r=1", "]]>", "`a`", "```", "a|b", "</script>", "a\nb", "# a", "\ud800"]
)


@pytest.mark.parametrize("command", ["report", "compare", "confirm"])
def test_no_command_follows_a_link_in_a_run_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    run_dir, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "verdicts.json").write_text("mine")
    (run_dir / "cells").mkdir(parents=True)
    (run_dir / "manifest.json").write_text("{}")
    (run_dir / "results").symlink_to(outside)
    other = tmp_path / "other"
    other.mkdir()
    assert execute([command, str(run_dir), *([str(other)] if command == "compare" else [])]) == ExitCode.USAGE
    assert "results is a symbolic link" in capsys.readouterr().err
    assert (outside / "verdicts.json").read_text() == "mine"
    assert not (run_dir / "report.stderr.log").exists()


def test_the_analysis_itself_refuses_a_link_too(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "manifest.json").symlink_to("/etc/hostname")
    with pytest.raises(RunDirectoryError, match=r"manifest\.json is a symbolic link"):
        read_run(tmp_path)


def test_a_strange_run_directory_is_read_as_text_alone(tmp_path: Path) -> None:
    (tmp_path / "cells" / "good").mkdir(parents=True)
    (tmp_path / "cells" / "<script>").mkdir()
    (tmp_path / "manifest.json").write_text('{"run_id": "a\\ud800\\u0000b", "cells": ["good"]}')
    (tmp_path / "cells" / "good" / "cell.json").write_text("[" * 100_000)
    deep, odd = b"[" * 1_000_000, b'{"t_us": 1, "kind": "x\\udfff"}'
    (tmp_path / "cells" / "good" / "cluster.jsonl").write_bytes(deep + b"\n" + odd + b"\n")
    run = read_run(tmp_path)
    assert run.record.run_id == "a\ufffd\ufffdb"
    assert [cell.cell_id for cell in run.cells] == ["good"]
    assert [event.kind for event in run.cells[0].cluster_events] == ["x\ufffd"]
    assert any("names that no cell has" in note for note in run.notes)


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-a", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-1+1", "=", "-"])
def test_a_text_begins_no_formula(text: str) -> None:
    assert str(csv_cell(text)).startswith("'")


@pytest.mark.parametrize("value", [-1, 1.5, -2e-5, None, True, "-1", "+1.5", "-2e-05", "acks=all", "1+1"])
def test_a_number_and_a_plain_text_stay_as_they_are(value: object) -> None:
    assert csv_cell(value) == value


@given(NAMES)
def test_a_table_holds_each_name_in_one_cell_that_is_no_formula(name: str) -> None:
    assert not re.match(r"[=+@\t\r\n]|-(?![\d.])", str(csv_cell(name))) or re.fullmatch(r"[+-][\d.eE+-]+", name)


def test_a_csv_file_is_read_back_row_by_row(tmp_path: Path) -> None:
    names = ["=1+1", 'a"b', "a,b", "a\nb", "\ud800\x00", "plain"]
    write_csv(tmp_path / "t.csv", ["name", "n"], [(name, -1) for name in names])
    with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.reader(stream))
    assert [row[0] for row in rows[1:]] == ["'=1+1", 'a"b', "a,b", "a\nb", "\ufffd\ufffd", "plain"]
    assert {row[1] for row in rows[1:]} == {"-1"}


@given(NAMES)
def test_a_name_in_markdown_is_one_line_and_ends_neither_cell_nor_block(name: str) -> None:
    shown = markdown(name)
    assert not re.search(r"[\r\n]", shown)
    assert not re.search(r"(?<!\\)(\\\\)*[|`\[]", shown)
    assert "<" not in shown
    shown.encode("utf-8")
    block = fenced([f"x {name}"])
    assert not any(line.strip().startswith(block[0]) for line in block[1:-1])
    assert block[0] == block[-1]


def test_a_name_that_people_write_stays_as_it_is() -> None:
    for name in ("acks=1, linger.ms=5", "max_in_flight is 5", "p99 12.3 ms (at most 20)", "baseline"):
        assert markdown(name) == name


@given(NAMES)
def test_data_in_the_page_ends_no_script(name: str) -> None:
    text = str(json_text({"spec": name, name: "data"}))
    assert "<" not in text
    assert json.loads(text)["spec"] == name


def test_xml_takes_what_no_xml_may_hold() -> None:
    from runlog.files.strangers import clean_text

    element = ElementTree.Element("testcase", name='a]]>b\x00\x1b[2J\ud800<&"\n|`')
    text = clean_text(ElementTree.tostring(element, encoding="unicode"))
    assert ElementTree.fromstring(text).get("name", "").startswith("a]]>b")

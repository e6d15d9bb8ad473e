"""Runs that were interrupted can still be reported: what is missing is named and nothing passes by accident."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reports.__main__ import main
from reports.analyse.analysis import analyse
from reports.evidence.happenings import findings
from reports.figures.figures import figures_of
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.run_files import RunDirectoryError, read_run
from reports.render.page import write_page
from reports.render.results import write_results
from runlog.records.cell import CellStatus
from tests.reports.cells import make_cell
from tests.reports.synthetic_run import Damage, SyntheticCell, write_run


def report(spark: SparkSession, directory: Path) -> dict[str, dict[str, object]]:
    run = read_run(directory)
    judged = [Judged(facts=item, verdict=judge(item)) for item in analyse(spark, run)]
    figures = figures_of(run, judged)
    write_results(figures, directory)
    assert write_page(figures, directory).stat().st_size > 100_000
    document = json.loads((directory / "results" / "verdicts.json").read_text())
    return {cell["cell_id"]: cell for cell in document["cells"]}


@pytest.mark.long
@pytest.mark.spark
def test_every_kind_of_wreck_is_reported_as_inconclusive(spark: SparkSession, tmp_path: Path) -> None:
    names = ["sound", "no-log", "cut-parquet", "torn-lines", "no-cell-json", "never-started", "no-outcome"]
    cells = [SyntheticCell(cell_id=name, seed=9, damage=Damage(duplicated_batches=2)).build() for name in names[:6]]
    directory = write_run(tmp_path / "run", cells)
    for path in directory.glob("log/cell=no-log/*"):
        path.unlink()
    cut = next(directory.glob("send/cell=cut-parquet/*.parquet"))
    cut.write_bytes(cut.read_bytes()[:-100])
    lines = directory / "cells" / "torn-lines" / "wire.jsonl"
    lines.write_bytes(lines.read_bytes() + b'{"outcome": "dropp')
    (directory / "cells" / "no-cell-json" / "cell.json").unlink()
    for stream in ("send", "recv", "log", "batches"):
        for path in directory.glob(f"{stream}/cell=never-started/*"):
            path.unlink()
    running = directory / "cells" / "no-outcome"
    running.mkdir()
    (running / "cell.json").write_text(json.dumps({"cell_id": "no-outcome", "kind": "chaos", "title": "in progress"}))

    found = report(spark, directory)
    assert {name: cell["verdict"] for name, cell in found.items()} == {
        "sound": "pass",
        "torn-lines": "inconclusive",  # its list says that the file was whole
        "no-log": "inconclusive",
        "cut-parquet": "inconclusive",
        # The duplicates are in the log for all to see, and no expectation allows them any more.
        "no-cell-json": "fail",
        "never-started": "inconclusive",
        "no-outcome": "inconclusive",
    }
    assert "unreadable" in str(found["cut-parquet"]["reasons"])
    assert found["sound"]["lost"] == 0


@pytest.mark.long
@pytest.mark.spark
def test_what_a_log_that_was_not_read_to_its_end_does_not_hold_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    directory = write_run(tmp_path / "run", [SyntheticCell(cell_id="cut", seed=9, damage=Damage()).build()])
    document = json.loads((directory / "cells" / "cut" / "cell.json").read_text())
    document["outcome"] |= {"status": "interrupted", "final_read": {"complete": False, "reason": "not reached"}}
    (directory / "cells" / "cut" / "cell.json").write_text(json.dumps(document))
    for path in directory.glob("log/cell=cut/*"):
        path.unlink()
    cell = report(spark, directory)["cut"]
    assert (cell["verdict"], cell["lost"]) == ("inconclusive", None)
    assert f"{cell['acked']} acknowledged record(s) were not found" in str(cell["notes"])
    assert "| – |" in (directory / "summary.md").read_text()


@pytest.mark.spark
def test_a_run_without_any_stream_is_inconclusive(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "cell.json").write_text('{"cell_id": "a", "kind": "sweep"}')
    assert report(spark, tmp_path)["a"]["verdict"] == "inconclusive"


def test_a_directory_that_is_no_run_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        read_run(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert "not a run directory" in capsys.readouterr().err


def test_planned_cells_that_never_began_are_named(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"cells": ["first", "second"]}')
    (tmp_path / "cells" / "first").mkdir(parents=True)
    run = read_run(tmp_path)
    assert [(cell.cell_id, cell.record.outcome.status) for cell in run.cells] == [
        ("first", CellStatus.UNKNOWN),
        ("second", CellStatus.ABSENT),
    ]
    assert "second" in run.notes[0]


def test_times_of_wire_lines_are_put_on_the_runs_clock(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"t0_monotonic_ns": 1000000, "cells": ["a"]}')
    (tmp_path / "cells" / "a").mkdir(parents=True)
    (tmp_path / "cells" / "a" / "wire.jsonl").write_text(
        '{"mono_ns": 3500000, "outcome": "dropped"}\n[1]\nnonsense\n{"mono_ns": 1'
    )
    cell = read_run(tmp_path).cells[0]
    assert [line.t_us for line in cell.exchanges] == [2500]
    assert [hole.what.split(" ")[:3] for hole in cell.holes[1:]] == [
        ["wire.jsonl:", "line", "2"],
        ["wire.jsonl:", "line", "3"],
        ["wire.jsonl:", "the", "last"],
    ]
    assert "torn" in cell.holes[-1].what


@pytest.mark.parametrize(("status", "found"), [("done", 1), ("interrupted", 0)])
def test_an_isr_is_only_short_at_the_end_of_a_cell_that_came_to_its_end(status: str, found: int) -> None:
    """A run killed under its faults ends with a short ISR: nobody had healed them yet."""
    changes = tuple(
        {"kind": "isr_changed", "t_us": t_us, "topic": "t", "partition": 0, "broker": 1, "leader_epoch": 0, "isr": isr}
        for t_us, isr in ((0, [1, 2, 3]), (9, [1]))
    )
    topic = {"name": "t", "replication_factor": 3}
    cell = make_cell(cell_id="c", document={"topic": topic, "outcome": {"status": status}}, events=changes)
    told = findings(cell, ())
    assert (told["isr_never_recovers"].count if "isr_never_recovers" in told else 0) == found

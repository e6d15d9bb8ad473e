"""Spark is started when the last load has ended, waits for a word, and is gone when nobody wants it any more."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.run import orchestrator
from harness.run.orchestrator import Run
from harness.run.report import analysis_process
from harness.run.report.analysis_process import AnalysisAhead, available_kib
from harness.run.report.reporting import make_report
from harness.run.report.spark_choice import THIS_HOST, SparkChoice
from harness.terminal.progress import Progress
from harness.terminal.signals import StopFlag
from runlog.records.verdicts import VerdictsRecord

# Its arguments and what it reads go into a file; verdicts are its own.
_SCRIPT = """
    import json, sys
    from pathlib import Path
    run, own_id = Path(sys.argv[1]), sys.argv[sys.argv.index("--analysis-id") + 1]
    master = sys.stdin.readline().strip() if "-" in sys.argv else ""
    word = sys.stdin.readline().strip() if "--wait" in sys.argv else ""
    with (run / "begun.jsonl").open("a") as told:
        told.write(json.dumps([master, word, "--wait" in sys.argv, "--allow" in sys.argv]) + "\\n")
    if "--wait" in sys.argv and word != "begin":
        sys.exit(3)
    verdicts = {"analysis": {"id": own_id}, "verdict": "x", "exit_code": 0, "cells": []}
    (run / "results" / "verdicts.json").write_text(json.dumps(verdicts))
"""


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script = tmp_path / "analysis.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    monkeypatch.setattr(analysis_process, "_ANALYSIS", (sys.executable, str(script)))
    monkeypatch.setattr(analysis_process, "AHEAD_KIB_MIN", 0)
    (tmp_path / "run" / "results").mkdir(parents=True)
    return tmp_path / "run"


def begun(run_dir: Path) -> list[Any]:
    path = run_dir / "begun.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def report(run_dir: Path, ahead: AnalysisAhead, master: str | None = None) -> VerdictsRecord:
    return make_report(run_dir, spark=SparkChoice(master=master), stop=StopFlag(), progress=Progress(0), ahead=ahead)


@pytest.mark.slow
@pytest.mark.parametrize("master", [None, "spark://h:1"])
def test_the_one_that_waits_is_told_to_begin_and_its_verdicts_count(run_dir: Path, master: str | None) -> None:
    ahead = AnalysisAhead(run_dir, SparkChoice(master=master), None)
    ahead.start()
    ahead.start()  # once is enough
    assert report(run_dir, ahead, master).exit_code == 0
    assert begun(run_dir) == [[master or "", "begin", True, False]]
    assert [path.name for path in run_dir.glob("report.*")] == ["report.stderr.log"]


@pytest.mark.slow
def test_nothing_that_waits_is_left_when_something_is_measured_again(run_dir: Path) -> None:
    ahead = AnalysisAhead(run_dir, THIS_HOST, None)
    ahead.start()
    waiting = ahead._waiting
    assert waiting is not None
    ahead.cancel()
    assert not waiting.process.is_running()
    assert list(run_dir.glob("report.*")) == []
    assert report(run_dir, ahead).exit_code == 0, "the analysis is begun as without it"
    assert begun(run_dir)[-1] == ["", "", False, False]


@pytest.mark.slow
def test_one_that_has_ended_is_replaced_by_one_that_tells_why(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = AnalysisAhead(run_dir, THIS_HOST, None)
    script = run_dir / "dead.py"
    script.write_text("import sys; sys.exit('no Spark')")
    monkeypatch.setattr(analysis_process, "_ANALYSIS", (sys.executable, str(script)))
    ahead.start()
    assert ahead._waiting is not None
    assert ahead._waiting.process.wait(60)
    with pytest.raises(HarnessError, match="no Spark"):
        report(run_dir, ahead)


def test_without_memory_for_both_nothing_is_started_beside_the_brokers(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis_process, "AHEAD_KIB_MIN", 1 << 60)
    ahead = AnalysisAhead(run_dir, THIS_HOST, None)
    ahead.start()
    assert ahead.begin() is None


def test_memory_that_the_system_does_not_tell_is_none(tmp_path: Path) -> None:
    assert available_kib() > 0
    assert available_kib(tmp_path / "meminfo") == 0


class _Ahead:
    """Counts what is asked of it."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def start(self) -> None:
        self.steps.append("start")

    def cancel(self) -> None:
        self.steps.append("cancel")


class _Cell:
    """A cell whose load ends at once."""

    is_disk_full = False

    def __init__(self, *_: object) -> None:
        self.on_load_finished = lambda: None

    def add_notes(self, _notes: object) -> None: ...

    def carry_out(self) -> None:
        self.on_load_finished()


def test_spark_starts_at_the_end_of_the_last_load_alone_and_is_gone_before_the_next_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No cell is measured beside it: also not one that is carried out a second time."""
    monkeypatch.setattr(orchestrator, "CellRun", _Cell)
    ahead = _Ahead()
    suite = _Bag(search=None)
    run: Any = object.__new__(Run)
    run._ahead, run._hosts, run._context, run._is_disk_full = ahead, None, None, False
    run._request = _Bag(cells=("a", "b", "c", "d"), suite=suite)
    run._loads = _Bag(take=lambda: None, fill=lambda: None)
    cell: Any = _Bag(kind="sweep")
    for order in range(4):
        run._run_cell(cell, None, order, ())
    assert ahead.steps == ["cancel", "cancel", "cancel", "cancel", "start"]
    run._run_cell(cell, None, 3, ())
    assert ahead.steps[5:] == ["cancel", "start"]
    run._request = _Bag(cells=("a",), suite=_Bag(search=object()))
    run._run_cell(cell, None, 0, ())
    assert ahead.steps[7:] == ["cancel"], "tries follow, and nobody knows how many"


class _Bag:
    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)

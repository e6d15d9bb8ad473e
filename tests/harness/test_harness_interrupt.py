"""Ctrl-C and SIGKILL at several moments of a real run: what is left behind (nothing), and what can still be reported.

A Ctrl-C is a byte written to the terminal, so that the kernel sends SIGINT to the foreground process group as it does
for a person. SIGINT to the process alone is what `kill -INT` and most CI systems send.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Final

import pytest

from harness.errors import ExitCode
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell, read_run_record
from runlog.records.run import RunStatus
from tests.harness.harness_process import (
    HarnessProcess,
    Start,
    family,
    leases,
    listening_sockets,
    still_listening,
    write_suite,
)
from tests.json_lines import read_jsonl

pytestmark = [pytest.mark.slow]

CELL: Final = "chaos-short-only"


def run_short(start: Start, tmp_path: Path, **times: int) -> HarnessProcess:
    return start("run", str(write_suite(tmp_path, **times)), "--run-dir", "run", "--toxiproxy", "embedded")


def fault_applied(tmp_path: Path) -> bool:
    faults = read_jsonl(tmp_path / "run" / "cells" / CELL / "faults.jsonl")
    return sum(event.get("phase") == "applied" for event in faults) == 2


def assert_nothing_left(process: HarnessProcess, listeners: set[str]) -> None:
    assert process.family() == {}
    assert still_listening(listeners) == set()
    assert leases(process.state_home) == []


# Under faults and during the analysis: the tests below.
MOMENTS: Final = {"cluster": "terminal", "connect": "process", "measure": "process", "final read": "terminal"}


@pytest.mark.parametrize(
    ("moment", "how"),
    [pytest.param(*each, marks=() if each[0] == "measure" else pytest.mark.long) for each in MOMENTS.items()],
)
def test_ctrl_c_leaves_nothing_and_exits_130(start: Start, tmp_path: Path, moment: str, how: str) -> None:
    process = run_short(start, tmp_path)
    process.await_text(f"· {moment}")
    if moment == "cluster":
        process.await_that(lambda: (tmp_path / "run" / "clusters" / "1" / "broker-1").exists(), "a broker's directory")
    listeners = listening_sockets(process.family())
    if how == "terminal":
        process.press_ctrl_c()
    else:
        process.send(signal.SIGINT)
    assert process.wait() == ExitCode.INTERRUPTED, process.screen
    assert "Traceback" not in process.text
    assert_nothing_left(process, listeners)
    # A busy host may have ended the load before the key came. Then the analysis was interrupted, and not the run.
    lawful = {RunStatus.INTERRUPTED, *((RunStatus.FINISHED,) if is_load_over(tmp_path) else ())}
    assert read_run_record(tmp_path / "run").status in lawful


def is_load_over(tmp_path: Path) -> bool:
    path = tmp_path / "run" / "cells" / CELL / "cell.json"
    return path.exists() and read_cell(tmp_path / "run", CELL).outcome.status is CellStatus.DONE


@pytest.mark.long
def test_ctrl_c_under_faults_heals_them_and_the_partial_run_is_reported(start: Start, tmp_path: Path) -> None:
    process = run_short(start, tmp_path, measure_ms=20_000, held_ms=15_000)
    process.await_that(lambda: fault_applied(tmp_path), "both faults")
    listeners = listening_sockets(process.family())
    assert len(listeners) >= 12 + 13, "of three brokers, and of a proxy for every link but the two that are cut"
    process.press_ctrl_c()
    assert process.wait() == ExitCode.INTERRUPTED, process.screen
    assert_nothing_left(process, listeners)
    phases = [event["phase"] for event in read_jsonl(tmp_path / "run" / "cells" / CELL / "faults.jsonl")]
    assert phases.count("healed") == phases.count("applied") == 2
    outcome = read_cell(tmp_path / "run", CELL).outcome
    assert (outcome.status, outcome.reason) == (CellStatus.INTERRUPTED, "stopped by a signal")

    report = start("report", "run")
    assert report.wait() == ExitCode.INCONCLUSIVE, report.screen
    verdicts = json.loads((tmp_path / "run" / "results" / "verdicts.json").read_text())
    assert [cell["verdict"] for cell in verdicts["cells"]] == ["inconclusive"]
    assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
    assert report.stdout.splitlines()[-1] == str(tmp_path / "run" / "report.html")


@pytest.mark.long
def test_sigkill_under_faults_leaves_nothing_after_clean_and_the_run_can_be_analysed(
    start: Start, tmp_path: Path
) -> None:
    process = run_short(start, tmp_path, measure_ms=20_000, held_ms=15_000)
    process.await_that(lambda: fault_applied(tmp_path), "both faults")
    too_early = start("report", "run")
    assert too_early.wait() == ExitCode.USAGE
    assert "is still being written by process" in too_early.text
    listeners = listening_sockets(process.family())
    process.send(signal.SIGKILL)
    process.wait()
    assert leases(process.state_home), "a SIGKILL leaves the lease for the next start"

    cleaning = start("clean")
    assert cleaning.wait() == ExitCode.PASS, cleaning.screen
    assert_nothing_left(process, listeners)

    report = start("report", "run")
    report.await_that(lambda: any("java" in command for command in family(report.state_home).values()), "Spark's JVM")
    report.press_ctrl_c()
    assert report.wait() == ExitCode.INTERRUPTED, report.screen
    assert family(report.state_home) == {}
    assert f"{CELL}:" in report.text
    assert "recovered" in report.text
    assert read_run_record(tmp_path / "run").status is RunStatus.KILLED

    again = start("report", "run")
    assert again.wait() == ExitCode.INCONCLUSIVE, again.screen
    (cell,) = json.loads((tmp_path / "run" / "results" / "verdicts.json").read_text())["cells"]
    assert cell["verdict"] == "inconclusive"
    assert any("harness was killed" in reason for reason in cell["reasons"]), cell["reasons"]
    assert cell["throughput_records_per_s"] > 0

"""Tables and lines fit a terminal of 80, 100 and 120 columns, and lose no name and no digit; a pipe has everything."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli import inspect, plan_text
from harness.cli.confirm import text as confirm_text
from harness.cli.main import execute
from harness.run import reporting
from harness.run.progress import Progress
from harness.run.terminal_tables import Column, table_lines, wrapped_line
from reports.figures.compare.confirm import confirm
from runlog.records.codec import from_document
from runlog.records.fault import FaultLine, FaultPhase
from runlog.records.load import Progress as LoadProgress
from runlog.records.sweep import PredictedFigure
from runlog.records.verdicts import VerdictsRecord

WIDTHS = (80, 100, 120)
LONG = "chaos-request-refused-in-flight-5-idempotent"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _verdicts(**more: object) -> VerdictsRecord:
    exact = {"predicted": 2034, "observed": 2034, "only_predicted": 0, "only_observed": 0, "expected": "predicted"}
    latency = {"corrected": {"p50": 2_100, "p99": 1_234_567}, "uncorrected": {"p99": 1_034_567}}
    cell = {
        "cell_id": LONG, "verdict": "pass", "throughput_records_per_s": 2_950.4, "latency_us": latency,
        "lost": 2034, "duplicated": 1095, "reordered": 1224, "predicted": {"lost": exact, "reordered": exact},
    }  # fmt: skip
    other = {**cell, "cell_id": "sweep-baseline", "verdict": "inconclusive", "predicted": {}, "lost": 0}
    return from_document(VerdictsRecord, {"cells": [cell, other], "verdict": "pass", "exit_code": 0, **more})


@pytest.mark.parametrize("width", WIDTHS)
def test_the_summary_keeps_names_and_digits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = _Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")  # no colours: what is looked at is the text
    monkeypatch.setattr("sys.stdout", out)
    reporting.print_verdicts(_verdicts(), Path("/r/report.html"))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = out.getvalue()
    for wanted in (
        LONG,
        "sweep-baseline",
        "inconclusive",
        "2,950",
        "1234.6",
        "2,034",
        "1,095",
        "1,224",
        "2,034 = 2,034",
    ):
        assert wanted in text, (wanted, text)
    assert "…" not in text


def test_a_piped_summary_has_every_column_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    reporting.print_verdicts(_verdicts(), Path("/r/report.html"))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(LONG))
    for wanted in ("pass", "2,950", "2.1", "1234.6", "1034.6", "2,034", "1,095", "1,224", "2,034 = 2,034 reordered"):
        assert wanted in line


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", ["scenarios", "suites", "faults", "clients", "clusters"])
def test_lists_fit_and_are_left_aligned(what: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(inspect, "stdout_width", lambda: width)
    assert execute(["list", what]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    monkeypatch.setattr(inspect, "stdout_width", lambda: None)
    assert execute(["list", what]) == 0
    piped = capsys.readouterr().out
    words = [word for word in piped.split() if word != "-"]
    assert set(words) <= set(shown.replace(":", " ").split()) | set(shown.split()), "a word was lost"
    names = [line.split()[0] for line in piped.splitlines()[1:]]
    assert all(any(line.startswith(name) for line in shown.splitlines()) for name in names)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_plan_fits(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(plan_text, "stdout_width", lambda: width)
    assert execute(["run", "small-records", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("a cluster of its own") == 4


@pytest.mark.parametrize("width", WIDTHS)
def test_the_live_line_keeps_what_is_behind_and_which_fault_acts(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    out = _Terminal()
    progress = Progress(21, out)
    progress.begin_cell(13, "leader-loss: Leader loss with acks=all, min.insync.replicas=2", 41)
    progress.phase("measure")
    progress.fault(FaultLine(t_us=1, id="a", kind="kill", phase=FaultPhase.APPLIED))
    counters = LoadProgress(
        latency_us_p50=3_100, latency_us_p99=1_200_000, end_to_end_us_p99=1_400_000, backlog=12_345,
        schedule_lag_us_p99=5_000, failed=17, unknown=4,
    )  # fmt: skip
    for acked in (1000, 4000):
        progress.figures(replace(counters, acked=acked))
    line = out.getvalue().rpartition("\x1b[2K")[2]
    assert len(line) < width
    for wanted in ("[13/21]", "FAULT kill", "12,345 behind", "17 failed", "4 unknown", "leader-loss"):
        assert wanted in line, (wanted, line)


def test_a_table_that_cannot_fit_is_stacked_and_loses_nothing() -> None:
    columns = (Column(heading="name"), Column(heading="n", is_figure=True), Column(heading="what", is_text=True))
    rows = [["a-name-of-thirty-characters-yes", "1,234,567", "some words that go on and on for a while"]]
    for width in range(34, 120):
        text = "\n".join(table_lines(columns, rows, width))
        assert max(map(len, text.splitlines())) <= width
        for word in " ".join(rows[0]).split():
            assert word in text


@pytest.mark.parametrize("width", WIDTHS)
def test_limits_doubts_and_what_to_run_fit_and_lose_no_word(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = (
        f"limit median(p99_ms) <= 50: undecided, over 3 cells (1,234.6, 48), not known in 1; {LONG}: disturbed host"
    )
    tally = {"limit": "median(end_to_end_p999_ms) <= 1.5 * baseline", "held": 12, "broken": 3, "undecided": 4}
    warning = "12 of 14 cells of the sweep were disturbed by the host (first baseline: other programs took 19% of all)"
    verdicts = _verdicts(
        limits=[{"subject": LONG, "reason": reason, "result": "inconclusive", "allowed": ""}],
        reading={
            "limits": [tally], "warnings": [warning] * 6, "recommendation": ["No recommendation: " + warning],
            "properties": "max.in.flight.requests.per.connection=5\n# measured on a topic with replication.factor=3",
        },
    )  # fmt: skip
    out = _Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("sys.stdout", out)
    reporting.print_verdicts(verdicts, Path("/r/report.html"))
    assert max(map(len, out.getvalue().splitlines())) <= width
    words = " ".join(out.getvalue().split())
    for wanted in (reason, warning, "held 12, broken 3, undecided 4", "1.5 * baseline", "2 more are in the report"):
        assert wanted in words
    assert "…" not in words


@pytest.mark.parametrize("width", WIDTHS)
def test_what_confirm_says_fits(width: int) -> None:
    told = {"value": 1_234_567.0, "low": 1_034_567.0, "high": 1_434_567.0}
    figures = {"p99": from_document(PredictedFigure, told)}
    found = confirm(figures, {"p99": [1_100_000.0, 1_200_000.0, 1_300_000.0, 1_400_000.0]})
    for line in confirm_text(LONG, found, figures):
        parts = wrapped_line(line, width)
        assert max(map(len, parts)) <= width
        assert "".join(" ".join(parts).split()) == "".join(line.split())

"""Tables and lines fit a terminal of 80 and 120 columns, and lose no name and no digit; a pipe has everything."""

from __future__ import annotations

import ast
import io
import os
import pty
import termios
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cli.hosts import doctor
from harness.cli.main import execute
from harness.cli.planning import plan_text
from harness.cli.suites import inspect
from harness.run.report import reporting
from harness.terminal.progress import Progress
from harness.terminal.tables import Column, print_fitting, table_lines, width_of
from runlog.records.codec import from_document
from runlog.records.fault import FaultLine, FaultPhase
from runlog.records.load import Progress as LoadProgress
from runlog.records.verdicts import VerdictsRecord

WIDTHS = (80, 120)
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


def test_a_table_that_fits_but_for_its_texts_has_a_line_for_each_row() -> None:
    """At 120 columns each cell took two lines although its figures fitted beside its name."""
    lines = reporting._summary_lines(_verdicts().cells, 120)
    (at,) = [number for number, line in enumerate(lines) if line.startswith(LONG)]
    for wanted in ("pass", "2,950", "1234.6", "2,034", "1,095", "1,224"):
        assert wanted in lines[at]
    assert lines[at + 1] == "    predicted: 2,034 = 2,034 lost, 2,034 = 2,034 reordered"


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
            "damage": [f"leader loss, {LONG}: 2,034 lost = predicted. The next leader never had them."] * 2,
            "safety_cost": ["capacity 9,155 records/s with acks=all, 11,492 with acks=1: -20 % (-29 to -11)"],
            "limits": [tally], "warnings": [warning] * 8, "recommendation": ["No recommendation: " + warning],
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
    for wanted in ("what was damaged:", "never had them.", "what safety costs:", "-20 % (-29 to -11)"):
        assert wanted in words
    for wanted in (reason, warning, "held 12, broken 3, undecided 4", "1.5 * baseline", "2 more are in the report"):
        assert wanted in words
    assert "…" not in words


def test_sentences_are_wrapped_in_a_pipe_too_and_lines_to_copy_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    sentence, line = "Clear choice: " + "this and that " * 30, "ssl.keystore.location=" + "/a" * 90
    verdicts = _verdicts(reading={"recommendation": [sentence], "properties": line})
    reporting.print_verdicts(verdicts, Path("/r/report.html"))
    told = capsys.readouterr().out.splitlines()
    assert f"    {line}" in told
    said = told[told.index("what to run:") + 1 : told.index(f"    {line}")]
    assert max(map(len, said)) <= 120
    assert " ".join(" ".join(said).split()) == sentence.strip()


def test_where_ceilings_stand_and_what_was_disturbed_is_said_beside_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = [
        {"cell_id": "sweep-a", "kind": "sweep", "verdict": "pass", "capacity_records_per_s": 9.0, "lost": 0},
        {"cell_id": "ceiling-a", "kind": "ceiling", "verdict": "pass", "capacity_records_per_s": 9.0, "lost": 0,
         "notes": ["disturbed host: other programs took 45% of all cores in the measured window"]},
    ]  # fmt: skip
    reporting.print_verdicts(_verdicts(cells=cells), Path("/r/report.html"))
    told = capsys.readouterr().out
    assert "1 of the 2 cells are ceilings: their figures stand in the column capacity" in told
    assert "disturbed by other programs on the host: 1 of 2 cells (ceiling-a)" in told


def _failing(check: doctor.Check) -> doctor.Check:
    def probe() -> str:
        raise doctor.CheckFailed(f"expected {check.name} to answer, and got nothing within the time that it had")

    return replace(check, probe=probe)


def _told(monkeypatch: pytest.MonkeyPatch, width: int | None, *arguments: str) -> list[str]:
    """Lines on both streams: of a terminal of this width, or of a pipe."""
    out = io.StringIO() if width is None else _Terminal()
    monkeypatch.setenv("COLUMNS", str(width or 40))  # a pipe does not care
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    execute(list(arguments))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_what_doctor_finds_and_advises_fits(width: int, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "jars in a directory that has a name of several words and is found below the cache of the user"
    checks = [_failing(one) if fails else replace(one, probe=lambda: long) for one in doctor._checks("auto")]
    monkeypatch.setattr(doctor, "_checks", lambda choice: checks)
    shown, piped = _told(monkeypatch, width, "doctor"), _told(monkeypatch, None, "doctor")
    assert max(map(len, shown)) <= width
    assert " ".join(" ".join(shown).split()) == " ".join(" ".join(piped).split()), "a word was lost"
    assert len(piped) == len(checks) * (2 if fails else 1)
    further = [line for line in shown if not line.startswith(("ok ", "FAIL ", "missing "))]
    assert all(line.startswith(" " * len("missing  ")) for line in further)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_cluster_that_starts_and_is_asked_says_so_in_lines_that_fit(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = _Terminal()
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stderr", out)
    path = "/a/directory/of/the/cache/" + "with-a-long-name/" * 6
    print_fitting(f"starting 3 reference broker(s) in {path}", to_stderr=True)
    lines = out.getvalue().splitlines()
    assert path in lines, "a path stays whole, on a line of its own"
    assert all(len(line) <= width for line in lines if line != path)


def test_words_for_people_go_through_the_one_function_that_fits_them() -> None:
    """A sentence that `print` writes is broken by the terminal, in the middle of a word."""
    root = Path(__file__).parents[2] / "harness"
    found = []
    for path in sorted(path for package in ("cli", "run", "terminal") for path in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and path.name != "tables.py":
                is_question = any(keyword.arg == "end" for keyword in node.keywords)
                if isinstance(node.args[0], ast.JoinedStr | ast.Constant) and not is_question:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_the_width_is_that_of_the_terminal_that_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `harness run demo > FILE` only stderr is a terminal. Its lines had the 120 columns of no terminal at all."""
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, (24, 66))
        with os.fdopen(theirs, "w", closefd=False) as stream:
            assert width_of(stream) == 66
            Progress(3, stream).say("a sentence of rather many words, which no terminal of so few columns has room for")
        lines = os.read(ours, 4096).decode().splitlines()
        assert [len(line) <= 66 for line in lines] == [True, True]
    finally:
        os.close(theirs)
        os.close(ours)

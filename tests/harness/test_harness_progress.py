"""The live line: rate, latency, how far readers and the generator are behind, faults that act, time left."""

from __future__ import annotations

import io

import pytest

from harness.terminal import progress as progress_module
from harness.terminal.progress import Progress
from runlog.records.fault import FaultLine, FaultPhase
from runlog.records.load import Progress as LoadProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def last_line(self) -> str:
        return self.getvalue().rpartition("\x1b[2K")[2]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "240")
    return now


def test_the_line_shows_rate_latency_backlog_faults_and_time_left(clock: list[float]) -> None:
    terminal = Terminal()
    progress = Progress(4, terminal)
    progress.begin_cell(2, "linger.ms=50", 30.0)
    progress.phase("measure")
    progress.figures(LoadProgress(acked=1_000))
    clock[0] += 0.5
    progress.fault(FaultLine(t_us=1, id="f1", kind="kill", phase=FaultPhase.APPLIED))
    progress.figures(
        LoadProgress(
            acked=2_500, latency_us_p50=4_100, latency_us_p99=9_800, end_to_end_us_p99=123_456, backlog=321,
            schedule_lag_us_p99=2_500, unknown=7,
        )
    )  # fmt: skip
    assert terminal.last_line() == (
        "[2/4] linger.ms=50 · measure · about 30 s left · FAULT kill · 3,000 acked/s · 321 behind · "
        "7 unknown · p99 9.8 ms · p50 4.1 ms · read p99 123 ms · generator late 2.5 ms"
    )
    progress.fault(FaultLine(t_us=1, id="f1", kind="kill", phase=FaultPhase.HEALED))
    progress.figures(LoadProgress(acked=2_500, schedule_lag_us_p99=1_999))
    assert "FAULT" not in terminal.last_line()
    assert "generator" not in terminal.last_line()


def test_a_narrow_terminal_shortens_the_title(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    terminal = Terminal()
    progress = Progress(1, terminal)
    progress.begin_cell(1, "a title that is rather long for such a narrow window", 5.0)
    progress.phase("warmup")
    assert len(terminal.last_line()) == 59
    assert terminal.last_line() == "[1/1] a title that is rather lon… · warmup · about 5 s left"


def test_without_a_terminal_only_lines_that_stay_are_written(clock: list[float]) -> None:
    stream = io.StringIO()
    progress = Progress(1, stream)
    progress.begin_cell(1, "baseline", 5.0)
    progress.phase("measure")
    progress.figures(LoadProgress(acked=5))
    assert stream.getvalue() == ""
    progress.end_cell("done")
    assert stream.getvalue() == "[1/1] baseline: done in 0.0 s\n"

"""An analysis that waits starts Spark, begins when it is told, and ends when nobody will tell it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.run.report.analysis_process import BEGIN as HARNESS_SAYS
from reports.ahead import BEGIN
from runlog.records.results import read_verdicts
from tests.patience import run_command
from tests.reports.synthetic_run import SyntheticCell, write_run

# Everything but Spark: its session says that it has started, and the analysis what it found.
_WITHOUT_SPARK = """
import os, sys
from pathlib import Path
from reports import ahead, job
from reports.__main__ import end_with, main
from reports.read import session
def enter(self):
    self.spark = self.spark or object()
    print("started", flush=True)
    return self.spark
session.Session.__enter__ = enter
session.Session.let_go = lambda self: setattr(self, "spark", None)
def analyse(request, run, allowances, into, own):
    with own:
        print(len(run.cells), own.is_small, flush=True)
    return 0
job._analyse = analyse
job.require_what_it_takes = lambda master: None
if os.environ.get("WAIT_S"):
    ahead.carry_out_when_told.__defaults__ = (float(os.environ["WAIT_S"]),)
end_with(main([*sys.argv[1:], "--wait"]))
"""
LONG_S = 60.0


def waiting(run_dir: Path, *arguments: str, wait_s: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_SPARK, str(run_dir), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "WAIT_S": wait_s},
    )  # fmt: skip


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """One whose run has not ended: there is no manifest yet."""
    return tmp_path


def test_harness_and_analysis_use_one_word() -> None:
    assert HARNESS_SAYS == BEGIN


@pytest.mark.slow
def test_the_run_directory_is_read_when_the_word_comes_and_not_before(run_dir: Path) -> None:
    process = waiting(run_dir)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    (run_dir / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    out, _ = process.communicate(f"{BEGIN}\n", timeout=LONG_S)
    assert out.splitlines()[-2:] == ["0 True", str(run_dir / "report.html")]
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stdin", "told"), [("", "stdin has ended"), ("stop\n", "stdin says 'stop', expected 'begin'")]
)
def test_it_ends_when_nobody_will_tell_it(run_dir: Path, stdin: str, told: str) -> None:
    process = waiting(run_dir)
    _, errors = process.communicate(stdin, timeout=LONG_S)
    assert process.returncode == 3
    assert f"the analysis was not begun: {told}" in errors
    assert not list(run_dir.iterdir())


@pytest.mark.slow
def test_it_waits_for_a_bounded_time(run_dir: Path) -> None:
    process = waiting(run_dir, wait_s="0.01")
    assert process.wait(LONG_S) == 3
    assert process.stderr is not None
    assert "nobody asked for the analysis" in process.stderr.read()
    process.communicate()


@pytest.mark.slow
def test_the_master_comes_before_the_word(run_dir: Path) -> None:
    (run_dir / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    process = waiting(run_dir, "--master", "-")
    out, errors = process.communicate(f"local[1]\n{BEGIN}\n", timeout=LONG_S)
    assert process.returncode == 0, errors
    assert out.splitlines()[0] == "started"


@pytest.mark.slow
def test_a_run_that_became_large_meanwhile_gets_a_session_for_a_large_one(run_dir: Path) -> None:
    (run_dir / "manifest.json").write_text('{"cells": [], "status": "finished"}')
    process = waiting(run_dir)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    part = run_dir / "send" / "cell=a" / "0.parquet"
    part.parent.mkdir(parents=True)
    with part.open("wb") as file:
        file.truncate(17 << 20)
    out, errors = process.communicate(f"{BEGIN}\n", timeout=LONG_S)
    assert process.returncode == 0, errors
    assert "0 False" in out


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long
def test_with_spark_it_finds_what_one_that_did_not_wait_finds_and_leaves_no_jvm(tmp_path: Path) -> None:
    run_dir = write_run(tmp_path, [SyntheticCell(cell_id="calm").build()])
    command = [sys.executable, "-m", "reports", str(run_dir)]
    plain = run_command(command)
    before = read_verdicts(run_dir)
    done = run_command([*command, "--wait"], input=f"{BEGIN}\n")
    assert done.returncode == plain.returncode == before.exit_code, done.stderr
    after = read_verdicts(run_dir)
    assert after.cells == before.cells
    assert after.analysis != before.analysis

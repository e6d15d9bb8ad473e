"""An analysis whose report is written ends within a bound, whatever Spark's JVM does, and leaves no JVM behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports.read.spark_jvm import END_GRACE_S, KILLED_S, ask_to_end, wait_until_gone
from tests.patience import communicate, wait_until
from tests.reports.synthetic_run import SyntheticCell, write_run

# On a host with six processes for each core, from the last answer of Spark to the page: some ten seconds of work.
WRITING_S = 240.0


@pytest.mark.slow
def test_a_jvm_that_ends_when_asked_is_not_killed() -> None:
    obedient = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    ask_to_end(obedient)
    assert wait_until_gone(obedient, grace_s=60)
    assert obedient.returncode == 0


@pytest.mark.slow
def test_a_jvm_that_does_not_end_when_asked_is_killed_within_the_bound() -> None:
    deaf = subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE)
    ask_to_end(deaf)
    assert wait_until_gone(deaf, grace_s=0.01, killed_s=60)
    assert deaf.returncode == -9


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_a_jvm_that_is_frozen_holds_up_neither_the_analysis_nor_who_reads_its_output(tmp_path: Path) -> None:
    """The JVM stops before it is asked to end. It holds stdout and stderr, which this test reads to their end."""
    run_dir = write_run(tmp_path, [SyntheticCell(cell_id="calm").build()])
    script = f"""
import os, pathlib, signal, sys, time
from reports.__main__ import end_with, main
from reports.read import session
from reports.read.spark_jvm import own_jvm
let_go = session.Session.let_go
def freeze(self):
    if self.spark is not None:
        os.kill(own_jvm().pid, signal.SIGSTOP)
        pathlib.Path({str(tmp_path / "frozen")!r}).write_text(f"{{own_jvm().pid}} {{time.monotonic()}}")
    let_go(self)
session.Session.let_go = freeze
end_with(main([{str(run_dir)!r}]))
"""
    command = [sys.executable, "-c", script]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _, told = communicate(process, "the end of the analysis and of its output")
    finally:
        process.kill()
    ended = time.monotonic()
    assert process.returncode in (0, 1, 4), told
    assert (run_dir / "report.html").is_file()
    pid, frozen = (tmp_path / "frozen").read_text().split()
    assert ended - float(frozen) < END_GRACE_S + KILLED_S + WRITING_S
    # Whoever inherits it takes a moment to collect it.
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the JVM goes with the analysis that started it")

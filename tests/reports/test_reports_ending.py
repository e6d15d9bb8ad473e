"""An analysis whose report is written ends within a bound, whatever Spark's JVM does, and leaves no JVM behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports.read.spark_jvm import END_GRACE_S, KILLED_S, ask_to_end, wait_until_gone
from tests.patience import communicate, run_command, wait_until
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


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("is_under_way", [False, True])
def test_what_python_forgets_is_not_sent_to_a_jvm_that_ends(tmp_path: Path, is_under_way: bool) -> None:
    """py4j tells the JVM which objects Python has forgotten, in a thread. A JVM that ended before it had read such a
    message reset the connection, and two tracebacks were printed. Here the JVM is stopped, so it surely has not read
    it. `is_under_way`: the message is sent before the JVM is asked to end. Then it is answered first."""
    script = f"""
import gc, os, signal, threading, time
from pyspark import SparkContext
from reports.read.session import Session
from reports.read.spark_jvm import own_jvm
session = Session(master="local[1]", small=True)
session.__enter__()
found = [session.spark.range(1).selectExpr("id + 1 AS x") for _ in range(20)]
client = SparkContext._gateway._gateway_client
worker = next(thread for thread in threading.enumerate() if type(thread).__name__ == "FinalizerWorker")
while client.finalizer_deque or len(client.deque) < 2:  # until the thread has a connection, and nothing to send
    session.spark.range(1)
    gc.collect()
    time.sleep(0.1)
jvm = own_jvm()
os.kill(jvm.pid, signal.SIGSTOP)

def forget():
    found.clear()
    gc.collect()
    while client.finalizer_deque and len(client.deque) > 1 and worker.is_alive():
        time.sleep(0.01)

if {is_under_way}:
    forget()
    session.let_go()
    assert jvm.stdin.closed is False, "it is asked to end only when it has answered"
    os.kill(jvm.pid, signal.SIGCONT)
else:
    session.let_go()
    forget()
    jvm.kill()
session.__exit__()
worker.join(30)
print("ended", jvm.returncode)
"""
    done = run_command([sys.executable, "-c", script], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == ("0" if is_under_way else "-9")
    assert "Py4J" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr

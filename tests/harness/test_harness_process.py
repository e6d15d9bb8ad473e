"""Children die with their parent, even by SIGKILL and from whatever thread they came; or outlive it when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clusters.broker_process import spawn, start_ticks

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


def wait_until(condition: Callable[[], bool], *, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def test_start_ticks_tell_a_process_from_its_successor() -> None:
    own = start_ticks(os.getpid())
    assert own is not None
    assert start_ticks(os.getpid()) == own
    assert start_ticks(2**22 + 1) is None


@pytest.mark.slow
def test_a_child_outlives_the_thread_that_asked_for_it() -> None:
    started = []
    thread = threading.Thread(target=lambda: started.append(spawn("sleeper", SLEEP, stderr_path=None)))
    thread.start()
    thread.join()
    (process,) = started
    try:
        assert not wait_until(lambda: not process.is_running(), timeout_s=0.5)
    finally:
        process.kill_and_wait()
    assert process.popen.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_stopped_child_can_be_stopped_for_good(tmp_path: Path) -> None:
    process = spawn("sleeper", SLEEP, stderr_path=tmp_path / "stderr")
    process.send_signal(signal.SIGSTOP)
    assert process.stop(grace_s=60) == -signal.SIGTERM


PARENT = """
import sys, time
from harness.clusters.broker_process import spawn
command = (sys.executable, "-c", "import time; time.sleep(60)")
child = spawn("sleeper", command, stderr_path=None, outlive_parent={outlive})
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("outlive", [False, True])
def test_a_child_dies_with_a_killed_parent_unless_it_is_to_outlive_it(outlive: bool) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(outlive=outlive)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child_pid = int(parent.stdout.readline())
    ticks = start_ticks(child_pid)
    assert ticks is not None
    parent.kill()
    parent.wait()
    try:
        died = wait_until(lambda: start_ticks(child_pid) != ticks, timeout_s=2.0 if outlive else 60.0)
        assert died is not outlive
    finally:
        if start_ticks(child_pid) == ticks:
            os.kill(child_pid, signal.SIGKILL)


@pytest.mark.slow
def test_what_a_child_started_ends_with_it_and_a_later_group_of_its_number_does_not() -> None:
    helper = f"import subprocess, sys, time; subprocess.Popen({SLEEP!r}); print('ready', flush=True); time.sleep(60)"
    child = spawn("leader", (sys.executable, "-c", helper), stderr_path=None, pipes=True, outlive_parent=True)
    assert child.popen.stdout is not None
    assert child.popen.stdout.readline() == b"ready\n"
    child.kill_and_wait()

    def group_is_gone() -> bool:
        try:
            os.killpg(child.pid, 0)
        except ProcessLookupError:
            return True
        return False

    assert wait_until(group_is_gone, timeout_s=60.0), "its helper was in its group"
    with subprocess.Popen(SLEEP, start_new_session=True) as later:
        child.popen.pid = later.pid  # as if the number had been given out again
        child._end_group()
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                later.wait(0.3)
        finally:
            later.kill()

"""A forked broker is a process like any other: its files, its environment, its exit codes, its end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from cluster_helper import Cluster

from broker.node.__main__ import EXIT_CONFIGURATION
from broker.wire.record_check import PURE_VARIABLE
from tests.broker_node.broker_fork import start_broker

pytestmark = pytest.mark.slow


def test_a_wrong_configuration_is_told_where_a_broker_tells_it(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_text("before\n")
    process = start_broker(tmp_path / "missing.properties", log, os.environ)
    assert process.wait(60) == process.poll() == process.returncode == EXIT_CONFIGURATION
    before, told = log.read_text().splitlines()
    assert before == "before"
    assert "missing.properties" in told


def test_it_runs_until_it_is_told_to_end_and_its_code_tells_how(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        process = cluster.processes[1]
        assert process.pid not in (os.getpid(), os.getppid())
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert cluster.terminate(1) == 0
        process.kill()  # nobody is there: nobody is hit
        cluster.start(1)
        killed = cluster.processes[1]
        cluster.kill(1)
        assert killed.wait(0) == -signal.SIGKILL


@pytest.mark.parametrize(("pure", "told"), [("", "compiled=True"), ("1", "compiled=False")])
def test_it_has_the_environment_of_its_start_and_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure: str, told: str
) -> None:
    monkeypatch.setenv(PURE_VARIABLE, pure)
    with Cluster(tmp_path, brokers=1) as cluster:
        assert told in cluster.stderr(1)
        opened = Path(f"/proc/{cluster.processes[1].pid}/fd")
        assert {os.readlink(opened / number) for number in "01"} == {os.devnull}

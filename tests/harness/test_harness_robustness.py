"""What breaks around the harness: a dead proxy server, a taken port, a broker that never comes back.

Each run ends within a time limit, with a message that says what to do, and leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.errors import EnvironmentFault, ExitCode
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell
from tests.harness.harness_process import HarnessProcess, Start, leases, write_suite

pytestmark = pytest.mark.slow
CELL = "chaos-short-only"
# From the moment it broke to the exit: draining, healing, stopping; on a busy machine.
BOUND_S = 240.0


def run_short(start: Start, tmp_path: Path, run_dir: str = "run", *, measure_ms: int = 20_000) -> HarnessProcess:
    suite = write_suite(tmp_path, measure_ms=measure_ms, held_ms=3_000)
    return start("run", str(suite), "--run-dir", run_dir, "--toxiproxy", "embedded", "--no-report")


def assert_nothing_left(process: HarnessProcess) -> None:
    assert process.family() == {}
    assert leases(process.state_home) == []


@pytest.mark.long
def test_a_dead_toxiproxy_server_is_named_and_the_cell_carried_out_once_more(start: Start, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, measure_ms=12_000, held_ms=1_000)  # it is killed within the first one
    process = start("run", str(suite), "--run-dir", "run", "--toxiproxy", "embedded", "--no-report")
    process.await_text("· measure")
    (server,) = [pid for pid, command in process.family().items() if "chaos.toxiproxy.server" in command]
    os.kill(server, signal.SIGKILL)
    process.await_text("once more")
    assert process.wait() == ExitCode.PASS, process.screen
    outcome = read_cell(tmp_path / "run", CELL).outcome
    why = "attempt 1 was put aside: the embedded toxiproxy that carries the links ended with -9: see "
    assert [note for note in outcome.notes if note.startswith(why)]
    assert_nothing_left(process)


@pytest.mark.long
def test_a_broker_that_never_comes_back_is_told_with_its_last_words(start: Start, tmp_path: Path) -> None:
    process = run_short(start, tmp_path)
    process.await_text("· measure")
    directory = tmp_path / "run" / "clusters" / "1" / "broker-1"
    (pid,) = [pid for pid, command in process.family().items() if str(directory) in command]
    (directory / "server.properties").write_text("node.id=one\n")
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    assert process.wait() == ExitCode.INCONCLUSIVE, process.screen
    outcome = read_cell(tmp_path / "run", CELL).outcome
    assert outcome.status is CellStatus.FAILED
    assert "the cluster did not get healthy again" in outcome.reason
    assert f"broker 1 ended with 2 ({directory / 'stderr.log'})" in outcome.reason
    assert "server.properties:1: node.id: expected a whole number, got 'one'" in outcome.reason
    assert time.monotonic() - began < BOUND_S
    assert_nothing_left(process)


def test_a_port_in_use_says_so_and_starts_nothing(tmp_path: Path) -> None:
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    cluster = build_cluster(key, tmp_path, proxy_choice="embedded", lease=None, seed=0)
    address = cluster.layout.nodes[0].direct
    with socket.create_server((address.host, address.port)):
        began = time.monotonic()
        with pytest.raises(EnvironmentFault) as error:
            cluster.start()
    assert "another process took the port meanwhile: run again, ports are chosen anew" in str(error.value)
    assert str(address.port) in str(error.value)
    assert time.monotonic() - began < cluster.layout.start_timeout_s, "it does not wait for what cannot come"
    assert not cluster.is_running(1)

"""Readers and producers of a load are two processes, told and asked as one; neither outlives the other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlog.streams.compact import compact_cell
from runlog.streams.schema import RECV, SEND
from tests.patience import wait_until
from tests.workloads.load_process import Load
from tests.workloads.test_workloads_run import MockCluster, _workload

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    mock = MockCluster()
    yield mock
    mock.stop()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pid: int) -> None:
    wait_until(lambda: not is_running(pid), f"the end of process {pid}")


def test_two_processes_make_one_load_and_one_run_log(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(producers=1), client="reference")
    load.wait_phase("measure")
    (readers,) = children_of(load.process.pid)
    assert load.finish() == 0, load.events[-3:]
    assert not is_running(readers)
    compact_cell(tmp_path, "c1")
    sent, received = load.rows(SEND.name), load.rows(RECV.name)
    assert len(sent) == 2_500
    assert {(row["producer"], row["seq"]) for row in received} == {(row["producer"], row["seq"]) for row in sent}
    health = load.done["health"]
    assert len(health["cpu_share_by_process"]) == 2
    if len(os.sched_getaffinity(0)) > 1:
        first, second = health["cores_by_process"]
        assert first != second, "each is kept to a core of its own"


def test_readers_that_die_are_told_and_the_load_ends(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(drain_ms=2_000), client="reference")
    load.wait_phase("measure")
    (readers,) = children_of(load.process.pid)
    os.kill(readers, signal.SIGKILL)
    assert load.finish() == 0, load.events[-3:]
    told = [event["message"] for event in load.events if event["event"] == "error"]
    assert any(message.startswith("the process of the readers: ") for message in told), told


def test_readers_end_with_the_process_that_made_them(tmp_path: Path, cluster: MockCluster) -> None:
    load = Load(tmp_path, cluster.addresses, _workload(measure_ms=60_000), client="reference")
    load.wait_phase("measure")
    (readers,) = children_of(load.process.pid)
    load.process.kill()
    load.close()
    wait_gone(readers)

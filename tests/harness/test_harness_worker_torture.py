"""`harness worker` at random moments of a run: SIGKILL, SIGTERM, a reader that is gone, a full disk or a full device.

Each time all brokers are as they were (they run, none is paused, none is left down by us), each record that was sent is
accounted for once the load host has been gathered, and no verdict is `fail`: what we did is not the cluster's fault. A
few moments run with the other long tests, which read the outcome of the cell. `make torture` does fifty of each and
analyses each by Spark. TORTURE_SEED repeats those of an earlier time.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Literal, get_args

import pytest
from pyspark.sql import SparkSession

from harness.run.recover import recover_run
from reports.analyse.analysis import analyse
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from reports.read.session import Session
from tests.harness.load_workers import RUN_QUIET_S, Workers, harness, said, started_harness
from tests.harness.small_disk import SmallDisk, why_no_disk
from tests.harness.strangers import FaultWorkers, Strangers
from tests.patience import communicate, files_seen, wait_until

pytestmark = [
    pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(3_600),
    pytest.mark.skipif(bool(why_no_disk()), reason=why_no_disk()),
]  # fmt: skip
Kind = Literal["SIGKILL", "SIGTERM", "EPIPE", "ENOSPC", "DEVICE"]
KINDS: Final = get_args(Kind)
IS_ANALYSED: Final = "TORTURE_KILLS" in os.environ
MOMENTS: Final = int(os.environ.get("TORTURE_KILLS", str(len(KINDS))))
SEED: Final = int(os.environ.get("TORTURE_SEED", "20"))
CELL_S: Final = 8.0  # of the only cell, from its first file on; a busy host is hit in an earlier phase of it

SCENARIO = """
name: hosts
title: Each thing that a fault host does, one after the other
damage: none
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 1}}
properties: {acks: all, linger.ms: 5, delivery.timeout.ms: 120000}
workload: {rate_per_s: 300, record_size_bytes: 200, producers: 1, warmup_ms: 200, measure_ms: 5000, drain_ms: 60000}
timeline:
  - {id: still, at: 200ms, fault: pause, target: "follower:0"}
  - {id: goes-on, after: still, delay: 700ms, heal: still}
  - {id: stopped, after: goes-on, delay: 100ms, fault: terminate, target: "follower:1"}
  - {id: back, after: stopped, delay: 500ms, heal: stopped}
  - {id: dead, after: back, delay: 100ms, fault: kill, target: "follower:0"}
  - {id: alive, after: dead, delay: 500ms, heal: dead}
cases:
  only: {title: "acks=all"}
"""
SUITE = """
name: torture
workload: {rate_per_s: 300, record_size_bytes: 200, producers: 2, warmup_ms: 200, measure_ms: 4000, drain_ms: 60000}
topic: {partitions: 2, replication_factor: 3}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    kind: Kind
    after_s: float
    broker: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.after_s:.2f}s-{self.broker}"


def moments(seed: int) -> list[Moment]:
    """Each kind in turn, at one moment in each of as many equal parts of the cell."""
    source, count = random.Random(seed), MOMENTS
    times = [CELL_S * (number + source.random()) / count for number in range(count)]
    source.shuffle(times)
    return [
        Moment(kind=KINDS[number % len(KINDS)], after_s=after_s, broker=source.choice((1, 2, 3)))
        for number, after_s in enumerate(times)
    ]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession | None]:
    if not IS_ANALYSED:
        yield None
        return
    with Session(master="local[2]", small=True) as session:
        yield session


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    found = Strangers(tmp_path_factory.mktemp("strangers") / "cluster")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def disk(tmp_path: Path, moment: Moment) -> Iterator[SmallDisk]:
    """Of the workers. What they say goes there too."""
    found = SmallDisk(tmp_path, fails=moment.kind == "DEVICE")
    yield found
    found.close()


class Pipes:
    """What workers say is read by nobody after `hang_up`."""

    def __init__(self) -> None:
        self._reading: list[int] = []

    def opened(self) -> IO[bytes]:
        reading, writing = os.pipe()
        self._reading.append(reading)
        return os.fdopen(writing, "wb")

    def hang_up(self) -> None:
        while self._reading:
            os.close(self._reading.pop())


class PipedFaultWorkers(FaultWorkers):
    pipes: Pipes

    def opened_log(self, broker: int) -> IO[bytes]:
        return self.pipes.opened()


class PipedWorkers(Workers):
    pipes: Pipes

    def log(self, name: str) -> IO[bytes]:
        return self.pipes.opened()


def hit(process: subprocess.Popen[str], run_dir: Path, moment: Moment, strike: Callable[[], object]) -> int:
    """The exit code of the run, in which `strike` came at that moment of its cell."""

    def has_begun() -> bool:
        return process.poll() is not None or any(run_dir.glob("cells/*/cell.json"))

    try:
        wait_until(has_begun, "the cell begins", seen=files_seen(run_dir.parent), poll_s=0.05)
        time.sleep(moment.after_s)
        strike()
        communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
    finally:
        process.kill()
        process.wait(timeout=60)
    return process.returncode


def assert_no_verdict_fails(spark: SparkSession | None, run_dir: Path) -> None:
    recover_run(run_dir)
    (path,) = run_dir.glob("cells/*/cell.json")
    outcome = json.loads(path.read_text())["outcome"]
    assert not outcome.get("anomaly"), outcome
    for facts in () if spark is None else analyse(spark, read_run(run_dir)):
        verdict = judge(facts)
        assert verdict.result in ("pass", "inconclusive"), verdict.reasons


def processes_of(strangers: Strangers, broker: int) -> list[int]:
    wanted = " ".join(strangers.nodes[broker].command)
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if command == wanted:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("moment", moments(SEED), ids=str)
def test_a_fault_host_leaves_every_broker_as_it_was(
    tmp_path: Path, strangers: Strangers, spark: SparkSession | None, disk: SmallDisk, moment: Moment
) -> None:
    scenario, suite, run_dir, pipes = tmp_path / "hosts.yaml", tmp_path / "suite.yaml", tmp_path / "run", Pipes()
    scenario.write_text(SCENARIO)
    suite.write_text(SUITE + f"chaos: [{{scenario: {scenario}}}]\n")
    PipedFaultWorkers.pipes = pipes
    make = PipedFaultWorkers if moment.kind == "EPIPE" else FaultWorkers
    workers = make(directory_on(disk), strangers, lost_after="5s")

    def strike() -> None:
        match moment.kind:
            case "SIGKILL":
                workers.kill(moment.broker)
                workers.start(moment.broker)  # as an init system does
            case "SIGTERM":
                workers.terminate(moment.broker)
                assert strangers.identity(moment.broker) is not None, "it was started before the worker ended"
                assert strangers.state(moment.broker) != "T", "it goes on before the worker ended"
                workers.start(moment.broker)
            case "EPIPE":
                pipes.hang_up()
            case "ENOSPC" | "DEVICE":
                disk.spoil()

    try:
        code = hit(
            started_harness(
                tmp_path,
                [
                    "run", str(suite), "--yes", "--cluster", "external",
                    "--bootstrap-server", strangers.bootstrap_servers,
                    "--toxiproxy", "embedded", "--no-certify", "--no-report", "--run-dir", str(run_dir),
                    *workers.options,
                ],
            ),
            run_dir, moment, strike,
        )  # fmt: skip
        wait_until(strangers.are_well, "all brokers are as they were, whatever the disk is like")
    finally:
        disk.mend()
        workers.close()
        pipes.hang_up()
    assert code in (0, 4), (tmp_path / "run.stderr").read_text()
    assert strangers.are_well()
    for broker in strangers.nodes:
        assert len(processes_of(strangers, broker)) == 1, "no broker was started twice"
        held = workers.leases(broker)
        # A disk that failed when the lease was to be removed keeps it. The next start of the worker finds it healed.
        assert moment.kind in ("ENOSPC", "DEVICE") or not held or json.loads(held)["held"] == []
    assert_no_verdict_fails(spark, run_dir)


def directory_on(disk: SmallDisk) -> Path:
    found = disk.path / "workers"
    found.mkdir()
    return found


@pytest.mark.parametrize("moment", moments(SEED + 1), ids=str)
def test_a_load_host_accounts_for_every_record(
    tmp_path: Path, strangers: Strangers, spark: SparkSession | None, disk: SmallDisk, moment: Moment
) -> None:
    suite, run_dir, pipes = tmp_path / "suite.yaml", tmp_path / "run", Pipes()
    suite.write_text(SUITE + "sweep: {baseline: {linger.ms: 5}, vary: {}, repetitions: 1, repeat_share: 0}\n")
    PipedWorkers.pipes = pipes
    make = PipedWorkers if moment.kind == "EPIPE" else Workers
    workers = make(directory_on(disk), "load-1")

    def strike() -> None:
        match moment.kind:
            case "SIGKILL":
                workers.kill("load-1")
                workers.start_again("load-1")
            case "SIGTERM":
                workers.terminate("load-1")
                workers.start_again("load-1")
            case "EPIPE":
                pipes.hang_up()
            case "ENOSPC" | "DEVICE":
                disk.spoil()

    try:
        code = hit(
            started_harness(
                tmp_path,
                [
                    "run", str(suite), "--yes", "--cluster", "external",
                    "--bootstrap-server", strangers.bootstrap_servers,
                    "--no-certify", "--no-report", "--run-dir", str(run_dir), *workers.options,
                ],
            ),
            run_dir, moment, strike,
        )  # fmt: skip
        disk.mend()
        assert code in (0, 4), (tmp_path / "run.stderr").read_text()
        where = ["--load-listen", f"127.0.0.1:{workers.port}", "--load-key", str(workers.master_key)]
        gathered = harness(tmp_path, ["gather", str(run_dir), *where])
        left = sorted(str(path.relative_to(workers.spool)) for path in workers.spool.rglob("*.seg"))
        assert gathered.returncode == 0 or left, said(gathered)
        assert not left or gathered.returncode, f"gathered, and still there: {left}"
    finally:
        disk.mend()
        workers.close()
        pipes.hang_up()
    assert strangers.are_well()
    assert_no_verdict_fails(spark, run_dir)

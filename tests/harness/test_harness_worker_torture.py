"""`harness worker` at random moments of a run: SIGKILL, SIGTERM, a reader that is gone, a full disk, a dead device.

Each time all brokers are as they were: they run once, none is paused, and no proxy is cut or has a toxic. Each record
has one outcome, or a hole says which run log is missing. The run ends as inconclusive and says why, or it ends well and
nothing is missing. No verdict is `fail`, because what we did is not the cluster's fault. No process is left, and files
of others are untouched. A moment is a random time after something that happens in a run: a phase of the load, or a
fault. A few moments run with the other long tests, which read the outcome of the cell. `make torture` does fifty and
analyses each by Spark; TORTURE_ANALYSIS=no leaves that out. TORTURE_SEED repeats those of an earlier time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, get_args

import pytest
from pyspark.sql import SparkSession

from broker.door.questions import DirectConnection, metadata_of
from chaos.toxiproxy.client import ToxiproxyClient
from harness.run.directory.recover import recover_run
from reports.analyse.analysis import analyse
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from reports.read.session import Session
from tests.harness.accounting import account_of, assert_accounted_for
from tests.harness.harness_process import family
from tests.harness.load_workers import RUN_QUIET_S, Workers, harness, said, started_harness
from tests.harness.small_disk import SmallDisk, why_no_disk
from tests.harness.strangers import FaultWorkers, Strangers
from tests.json_lines import read_jsonl
from tests.patience import communicate, files_seen, wait_until

pytestmark = [
    pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(3_600),
    pytest.mark.skipif(bool(why_no_disk()), reason=why_no_disk()),
]  # fmt: skip
Kind = Literal["SIGKILL", "SIGTERM", "EPIPE", "ENOSPC", "EIO"]
KINDS: Final = get_args(Kind)
IS_ANALYSED: Final = "TORTURE_KILLS" in os.environ and os.environ.get("TORTURE_ANALYSIS") != "no"
MOMENTS: Final = max(len(KINDS), int(os.environ.get("TORTURE_KILLS", "0")) // 2)  # of each of the two workers
SEED: Final = int(os.environ.get("TORTURE_SEED", "20"))
DISK_MIB: Final = 48

# What a moment comes after, and the seconds within which it comes then. The first of all is that the cell has begun.
OF_LOAD: Final[Mapping[str, float]] = {
    "begun": 4.0, "connect": 1.0, "warmup": 0.2, "measure": 4.0, "drain": 1.0, "done": 4.0,
}  # fmt: skip
OF_FAULTS: Final[Mapping[str, float]] = {
    "begun": 4.0, "connect": 1.0, "measure": 0.3, "still": 0.7, "slow": 0.7, "cut": 0.7, "stalled": 0.7, "stopped": 0.7,
    "dead": 0.7, "drain": 1.0, "done": 4.0,
}  # fmt: skip
SCENARIO = """
name: hosts
title: Each thing that a fault host does, one after the other
damage: none
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 1}}
properties: {acks: all, linger.ms: 5, delivery.timeout.ms: 120000}
workload: {rate_per_s: 300, record_size_bytes: 200, producers: 1, warmup_ms: 200, measure_ms: 9000, drain_ms: 60000}
timeline:
  - {id: still, at: 200ms, fault: pause, target: "follower:0"}
  - {id: goes-on, after: still, delay: 700ms, heal: still}
  - {id: slow, after: goes-on, delay: 100ms, fault: latency, target: followers->leader, with: {latency_ms: 100}}
  - {id: quick, after: slow, delay: 700ms, heal: slow}
  - {id: cut, after: quick, delay: 100ms, fault: link_cut, target: "follower:0->leader"}
  - {id: whole, after: cut, delay: 700ms, heal: cut}
  - {id: stalled, after: whole, delay: 100ms, fault: link_stall, target: "follower:0->leader", with: {stream: both}}
  - {id: flows, after: stalled, delay: 700ms, heal: stalled}
  - {id: stopped, after: flows, delay: 100ms, fault: terminate, target: "follower:1"}
  - {id: back, after: stopped, delay: 700ms, heal: stopped}
  - {id: dead, after: back, delay: 100ms, fault: kill, target: "follower:0"}
  - {id: alive, after: dead, delay: 700ms, heal: dead}
cases:
  only: {title: "acks=all"}
"""
SUITE = """
name: torture
workload:
  {rate_per_s: 300, record_size_bytes: 200, producers: 2, consumers: 1, warmup_ms: 200, measure_ms: 4000,
   drain_ms: 60000}
topic: {partitions: 2, replication_factor: 3}
"""
SETTINGS: Final = {
    "replica.lag.time.max.ms": "10000", "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    kind: Kind
    after: str
    delay_s: float
    broker: int  # whose worker it meets, where no fault says it

    def __str__(self) -> str:
        return f"{self.kind}-{self.after}-{self.delay_s:.2f}s"


def moments(seed: int, phases: Mapping[str, float]) -> list[Moment]:
    """Each kind in turn. A kind meets another phase each time, as long as there are some."""
    source = random.Random(seed)
    names = source.sample(list(phases), len(phases))
    found = []
    for number in range(MOMENTS):
        turn, which = divmod(number, len(KINDS))
        after = names[(turn + which * len(names) // len(KINDS)) % len(names)]
        delay_s = source.uniform(0, phases[after])
        found.append(Moment(kind=KINDS[which], after=after, delay_s=delay_s, broker=source.choice((1, 2, 3))))
    return found


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession | None]:
    if not IS_ANALYSED:
        yield None
        return
    with Session(master="local[2]", small=True) as session:
        yield session


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """For load hosts. Nothing is between them and these brokers."""
    found = Strangers(tmp_path_factory.mktemp("strangers") / "cluster")
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    """For fault hosts, whose workers have the proxies of all links. They start with the first of these workers."""
    found = Strangers(tmp_path_factory.mktemp("proxied") / "cluster", proxied=True, settings=SETTINGS)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def disk(tmp_path: Path, moment: Moment) -> Iterator[SmallDisk]:
    """Of the workers. What they say goes there too."""
    found = SmallDisk(tmp_path, fails=moment.kind == "EIO", size_mib=DISK_MIB)
    (found.path / "workers").mkdir()
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


@contextlib.contextmanager
def waited_for(log: Path) -> Iterator[None]:
    """Until the worker that is started in this block is there. One that was ended while it still imported would leave
    what the worker before had broken to the next start."""
    before = _starts(log)
    yield
    wait_until(lambda: _starts(log) > before, f"a worker is there: {log}")


def _starts(log: Path) -> int:
    return log.read_text().count("waiting for a master") if log.exists() else 0


class OfOthers:
    """Files of somebody else, beside those of the workers."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(f"somebody else's: {path.name}")

    def assert_untouched(self) -> None:
        for path in self._paths:
            assert path.read_text() == f"somebody else's: {path.name}"


def lines(run_dir: Path, name: str) -> list[dict[str, Any]]:
    return [line for path in run_dir.glob(f"cells/*/{name}.jsonl") for line in read_jsonl(path)]


def phase_of(run_dir: Path) -> str:
    """Of the load: the last one that has begun."""
    told = [line["value"] for line in lines(run_dir, "stats") if line.get("name") == "phase"]
    return str(told[-1]) if told else "begun"


def applied(run_dir: Path) -> dict[str, list[str]]:
    """Each fault that is applied and not healed, and what it was applied to."""
    found: dict[str, list[str]] = {}
    for line in lines(run_dir, "faults"):
        if line["phase"] == "applied":
            found[line["id"]] = line["resolved"]
        elif line["phase"] == "healed":
            found.pop(line["id"], None)
    return found


def has_come(run_dir: Path, moment: Moment) -> bool:
    if moment.after == "begun":
        return any(run_dir.glob("cells/*/cell.json"))
    is_of_load = any(line.get("value") == moment.after for line in lines(run_dir, "stats") if line["name"] == "phase")
    return is_of_load or any(line["id"] == moment.after for line in lines(run_dir, "faults"))


def hit(process: subprocess.Popen[str], run_dir: Path, moment: Moment, strike: Callable[[], object]) -> int:
    """The exit code of the run, in which `strike` came at that moment."""
    try:
        wait_until(
            lambda: process.poll() is not None or has_come(run_dir, moment), f"a run comes to {moment.after}",
            seen=files_seen(run_dir.parent), poll_s=0.05,
        )  # fmt: skip
        time.sleep(moment.delay_s)
        met = f"phase {phase_of(run_dir)}, faults {applied(run_dir)}, over: {process.poll() is not None}"
        began_s = time.monotonic()
        strike()
        communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
        print(f"MOMENT {moment}: {met}; exit code {process.returncode} after {time.monotonic() - began_s:.1f} s")
    finally:
        process.kill()
        process.wait(timeout=60)
    return process.returncode


def assert_told(run_dir: Path, code: int, screen: str) -> None:
    """Exit code 0: the cell is whole. 4: it says what is wrong, to the operator too."""
    recover_run(run_dir)
    account = account_of(run_dir)
    outcome = account.outcome
    print(f"ACCOUNT {account.counts()}; {len(account.log)} in the log; {outcome['status']}; {outcome['reason'][:150]}")
    print(f"HOLES {[hole['kind'] for hole in outcome['holes'] or ()]}; HOSTS {outcome['load_hosts'] or ()}"[:600])
    assert code in (0, 4), screen
    assert "Traceback" not in screen
    assert not outcome["anomaly"], outcome
    troubled = [host for host in outcome["load_hosts"] or () if host["state"] != "done"]
    if code == 0:
        assert outcome["status"] == "done"
        assert not outcome["holes"], "a run that ended well has none"
        assert account.is_whole
        assert account.sends
    else:
        assert outcome["status"] != "done" or outcome["holes"] or troubled, outcome
        assert all(host["name"] in screen and host["reason"] for host in troubled), screen
        assert outcome["reason"] or outcome["holes"] or troubled
    assert_accounted_for(account)


def assert_verdict(spark: SparkSession | None, run_dir: Path, code: int) -> None:
    for facts in () if spark is None else analyse(spark, read_run(run_dir)):
        verdict = judge(facts)
        print(f"VERDICT {verdict.result}: {verdict.reasons}"[:600])
        assert verdict.result in ("pass", "inconclusive"), verdict.reasons
        assert code == 0 or verdict.result == "inconclusive", "a run that did not end well passes nothing"


def processes_of(strangers: Strangers, broker: int) -> set[int]:
    wanted = " ".join(strangers.nodes[broker].command)
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace") == wanted:
                found.add(int(path.parent.name))
    return found


def processes_by_broker(strangers: Strangers) -> dict[int, set[int]]:
    return {broker: processes_of(strangers, broker) for broker in strangers.nodes}


def own_topics(strangers: Strangers) -> list[str]:
    node = next(iter(strangers.nodes.values()))
    connection = DirectConnection(node.direct.host, node.direct.port, client_id="torture", timeout_s=30.0)
    try:
        return [topic.name for topic in connection.ask(metadata_of(None)).topics if topic.name.startswith("harness-")]
    finally:
        connection.close()


def assert_nothing_runs(strangers: Strangers, *state_homes: Path) -> None:
    """Of ours. Brokers that a worker has started are the operator's."""

    def left() -> dict[int, str]:
        found: dict[int, str] = {}
        for state_home in state_homes:
            found |= family(state_home)
        brokers = set().union(*(processes_of(strangers, broker) for broker in strangers.nodes))
        return {pid: command for pid, command in found.items() if pid not in brokers}

    wait_until(lambda: not left(), "nothing of ours runs", seen=lambda: sorted(left()))


# --- fault hosts ------------------------------------------------------------------------------------------------------


class Servers:
    """The proxy servers of fault hosts, as their workers note them. They are remembered if the disk gives nothing."""

    def __init__(self, workers: FaultWorkers, strangers: Strangers) -> None:
        self._workers, self._brokers = workers, list(strangers.nodes)
        self._urls: dict[Path, str] = {}

    def look(self) -> list[str]:
        for broker in self._brokers:
            root = self._workers.directory / f"state-{broker}" / "kafka-harness" / "fault-leases"
            for path in root.glob("*.proxies.json") if root.is_dir() else ():
                with contextlib.suppress(OSError, ValueError):
                    self._urls[path] = json.loads(path.read_text())["url"]
        return list(self._urls.values())

    def broken(self) -> list[str]:
        found = []
        for url in self.look():
            client = ToxiproxyClient(url)
            try:
                found += [
                    f"{name}: {state}"
                    for name, state in client.proxies().items()
                    if state.toxics or not state.is_enabled
                ]
            finally:
                client.close()
        return found


def host_of(resolved: list[str]) -> int:
    """Whose worker holds a fault of a broker (`2`) or of a link (`internal-2-1`)."""
    return int(resolved[0].split("-")[1] if "-" in resolved[0] else resolved[0])


@pytest.mark.parametrize("moment", moments(SEED, OF_FAULTS), ids=str)
def test_a_fault_host_leaves_every_broker_as_it_was(
    tmp_path: Path, proxied: Strangers, spark: SparkSession | None, disk: SmallDisk, moment: Moment
) -> None:
    strangers, directory = proxied, disk.path / "workers"
    scenario, suite, run_dir, pipes = tmp_path / "hosts.yaml", tmp_path / "suite.yaml", tmp_path / "run", Pipes()
    scenario.write_text(SCENARIO)
    suite.write_text(SUITE + f"chaos: [{{scenario: {scenario}}}]\n")
    state_homes = [directory / f"state-{broker}" for broker in strangers.nodes]
    others = OfOthers(*(home / "kafka-harness" / "fault-leases" / "host-9.json" for home in state_homes))
    PipedFaultWorkers.pipes = pipes
    make = PipedFaultWorkers if moment.kind == "EPIPE" else FaultWorkers
    workers = make(directory, strangers, lost_after="5s")
    servers = Servers(workers, strangers)

    def strike() -> None:
        held = applied(run_dir)
        broker = host_of(held[moment.after]) if held.get(moment.after) else moment.broker
        match moment.kind:
            case "SIGKILL":
                with waited_for(workers.log(broker)):
                    workers.kill(broker)
                    workers.start(broker)  # as an init system does
            case "SIGTERM":
                workers.terminate(broker)
                assert strangers.identity(broker) is not None, "it was started before the worker ended"
                assert strangers.state(broker) != "T", "it goes on before the worker ended"
                with waited_for(workers.log(broker)):
                    workers.start(broker)
            case "EPIPE":
                pipes.hang_up()
            case "ENOSPC" | "EIO":
                servers.look()
                disk.spoil()

    try:
        if not strangers.pid_file(1).exists():
            strangers.start()
        wait_until(strangers.are_linked, "the brokers see each other through the proxies of these workers")
        code = hit(
            started_harness(
                tmp_path,
                [
                    "run", str(suite), "--yes", "--cluster", "external",
                    "--bootstrap-server", strangers.bootstrap_servers,
                    "--direct-bootstrap-server", strangers.direct_bootstrap_servers,
                    "--toxiproxy", "embedded", "--no-certify", "--no-report", "--run-dir", str(run_dir),
                    *workers.options,
                ],
            ),
            run_dir, moment, strike,
        )  # fmt: skip
        wait_until(strangers.are_well, "all brokers are as they were, whatever the disk is like")
        wait_until(lambda: not servers.broken(), "all links are as they were", seen=servers.broken)
        wait_until(strangers.are_linked, "all links lead on")
        processes = processes_by_broker(strangers)
        assert all(len(each) == 1 for each in processes.values()), f"no broker was started twice: {processes}"
        disk.mend()
        for broker in strangers.nodes:
            if moment.kind in ("ENOSPC", "EIO"):  # the operator has seen to the disk
                workers.terminate(broker)
                with waited_for(workers.log(broker)):
                    workers.start(broker)
            wait_until(lambda broker=broker: not held_by(workers, broker), "nothing is held")  # type: ignore[misc]
        assert {broker: processes_of(strangers, broker) for broker in strangers.nodes} == processes, (
            "they are left alone"
        )
    finally:
        disk.mend()
        workers.close()
        pipes.hang_up()
    others.assert_untouched()
    assert_nothing_runs(strangers, tmp_path / "state-run", *state_homes)
    assert_told(run_dir, code, (tmp_path / "run.stderr").read_text())
    assert_verdict(spark, run_dir, code)


def held_by(workers: FaultWorkers, broker: int) -> list[Any]:
    held = workers.leases(broker)
    return list(json.loads(held)["held"]) if held else []


# --- load hosts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", moments(SEED + 1, OF_LOAD), ids=str)
def test_a_load_host_accounts_for_every_record(
    tmp_path: Path, strangers: Strangers, spark: SparkSession | None, disk: SmallDisk, moment: Moment
) -> None:
    suite, run_dir, pipes, directory = tmp_path / "suite.yaml", tmp_path / "run", Pipes(), disk.path / "workers"
    suite.write_text(SUITE + "sweep: {baseline: {linger.ms: 5}, vary: {}, repetitions: 1, repeat_share: 0}\n")
    of_another = Path("cells") / "cell" / "live" / "send-p0i0-000000.seg"
    others = OfOthers(*(directory / "spool" / name / "run-of-another" / of_another for name in ("load-1", "load-2")))
    PipedWorkers.pipes = pipes
    make = PipedWorkers if moment.kind == "EPIPE" else Workers
    workers = make(directory, "load-1")
    processes = processes_by_broker(strangers)

    def strike() -> None:
        match moment.kind:
            case "SIGKILL":
                with waited_for(directory / "load-1.log"):
                    workers.kill("load-1")
                    workers.start_again("load-1")
            case "SIGTERM":
                workers.terminate("load-1")
                with waited_for(directory / "load-1.log"):
                    workers.start_again("load-1")
            case "EPIPE":
                pipes.hang_up()
            case "ENOSPC" | "EIO":
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
        if moment.kind == "EIO":  # the operator has another disk, and starts the worker again
            workers.terminate("load-1")
            with waited_for(directory / "load-1.log"):
                workers.start_again("load-1")
        where = ["--load-listen", f"127.0.0.1:{workers.port}", "--load-key", str(workers.master_key)]
        gathered = harness(tmp_path, ["gather", str(run_dir), *where])
        left = sorted(
            path.name for path in workers.spool.rglob("*.seg") if "run-of-another" not in path.parts
        )  # fmt: skip
        assert gathered.returncode == 0 or left, said(gathered)
        assert not left or gathered.returncode, f"gathered, and still there: {left}"
        others.assert_untouched()
    finally:
        disk.mend()
        workers.close()
        pipes.hang_up()
    assert strangers.are_well()
    assert {broker: processes_of(strangers, broker) for broker in strangers.nodes} == processes, (
        "nobody touched a broker"
    )
    assert_nothing_runs(strangers, tmp_path / "state-run", directory / "state-load-1")
    assert own_topics(strangers) == []
    assert_told(run_dir, code, (tmp_path / "run.stderr").read_text())
    assert_verdict(spark, run_dir, code)

"""Faults on hosts that are not this one: brokers of somebody else, workers with their lists, real processes.

The link goes through a relay that a test can cut. The brokers are reference brokers, started by scripts of their
operator.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from harness.cli.main import execute
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.ports import free_port
from harness.run.hosts.fault_hosts import FaultHosts
from harness.run.hosts.load_hosts import load_hosts_request
from tests.harness.load_workers import harness, said
from tests.harness.strangers import WAIT_S, FaultWorkers, Strangers
from tests.patience import wait_until
from tests.workloads.load_hosts import Link
from workloads.hosts.keys import read_key

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    found = Strangers(tmp_path_factory.mktemp("strangers") / "cluster")
    try:
        found.start()
        yield found
    finally:
        found.stop()


class Linked:
    """A hub here, workers there, and a link in between that can be cut."""

    def __init__(self, directory: Path, strangers: Strangers, **more: Any) -> None:
        port = free_port()
        self.link = Link(("127.0.0.1", port), there_ms=0, back_ms=0, jitter_ms=0)
        self.workers = FaultWorkers(directory, strangers, port=port, through=self.link.port, **more)
        request = load_hosts_request(3, f"127.0.0.1:{port}", self.workers.master_key, option="--fault")
        self.said: list[str] = []
        self.hosts = FaultHosts(request, "run-1", directory / "hub.stderr", time.monotonic_ns())
        self.cluster = HostFaultCluster(strangers.bootstrap_servers, self.hosts, security=None, proxies=None)
        try:
            self.hosts.start(lambda: False, self.said.append)
            self.cluster.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.hosts.stop()
        self.workers.close()
        self.link.close()


@pytest.fixture
def linked(tmp_path: Path, strangers: Strangers) -> Iterator[Linked]:
    """Nothing is healed because a busy host kept the harness silent for a while."""
    yield from until_all_are_well(Linked(tmp_path, strangers, lost_after="60s"), strangers)


@pytest.fixture
def soon_lost(tmp_path: Path, strangers: Strangers) -> Iterator[Linked]:
    yield from until_all_are_well(Linked(tmp_path, strangers, lost_after="3s"), strangers)


def until_all_are_well(found: Linked, strangers: Strangers) -> Iterator[Linked]:
    yield found
    found.close()
    wait_until(strangers.are_well, "nobody is left broken")


@pytest.mark.long
def test_each_broker_is_broken_where_it_is_and_the_times_have_a_bound(linked: Linked, strangers: Strangers) -> None:
    cluster = linked.cluster
    assert cluster.broker_ids == (1, 2, 3)
    assert "host-2" in linked.said[-1]
    assert "broker 2: kill terminate pause, clock" in linked.said[-1]
    before = {broker: strangers.identity(broker) for broker in cluster.broker_ids}
    assert {broker: cluster.identity(broker) for broker in cluster.broker_ids} == before
    cluster.pause(2)
    identity = before[2]
    assert identity is not None
    assert strangers.state(2) == "T" == cluster.state_of(2, identity)
    cluster.resume(2)
    killed = before[1]
    assert killed is not None
    cluster.kill(1)
    assert strangers.identity(1) is None
    assert cluster.state_of(1, killed) is None
    assert not cluster.is_running(1)
    cluster.restart(1)
    cluster.terminate(3)
    assert not cluster.is_running(3)
    cluster.ensure_all_running()
    assert cluster.wait_healthy(None, timeout_s=WAIT_S)
    assert strangers.identity(1) not in (None, killed)
    times: list[dict[str, Any]] = cluster.take_times()
    assert [(each["host"], each["action"]) for each in times] == [
        ("host-2", "pause"), ("host-2", "resume"), ("host-1", "kill"), ("host-1", "start"), ("host-3", "terminate"),
        ("host-3", "start"),
    ]  # fmt: skip
    for each in times:
        error_us = each["clock_error_us"]
        assert error_us > 0
        assert each["asked_us"] - error_us <= each["from_us"] <= each["to_us"] <= each["answered_us"] + error_us
    assert cluster.take_times() == []


def test_when_the_harness_dies_everything_is_healed(soon_lost: Linked, strangers: Strangers) -> None:
    soon_lost.cluster.pause(1)
    soon_lost.cluster.kill(2)
    soon_lost.hosts._process.kill_and_wait()
    wait_until(strangers.are_well, "healed without a harness")


@pytest.mark.long
def test_what_an_operator_does_not_allow_is_refused_before_the_load(tmp_path: Path, strangers: Strangers) -> None:
    workers = FaultWorkers(tmp_path, strangers, allow="pause")
    try:
        done = harness(
            tmp_path,
            [
                "chaos", "leader-kill", "leader-loss", "--yes", "--cluster", "external", "--bootstrap-server",
                strangers.bootstrap_servers, "--no-report", "--run-dir", str(tmp_path / "run"), *workers.options,
            ],
        )  # fmt: skip
        assert done.returncode == 2, said(done)
        for broker in (1, 2, 3):
            assert f"fault host host-{broker} does not list kill for broker {broker}" in said_whole(done)
            assert f"no fault host has a proxy for internal-{broker}-{broker % 3 + 1} (leader-loss)" in said_whole(done)
        seen = harness(tmp_path, ["doctor", *workers.options])
        assert seen.returncode == 0, said(seen)
        assert [line.split(",")[1] for line in seen.stdout.splitlines()] == [
            f" broker {broker}: pause" for broker in (1, 2, 3)
        ]
    finally:
        workers.close()
    assert strangers.are_well()


def said_whole(done: subprocess.CompletedProcess[str]) -> str:
    """Without the breaks of its lines."""
    return " ".join(done.stderr.split())


class HostileMaster:
    """It has the key, and speaks Locust's protocol: it can ask for whatever it likes. Locust itself is not imported,
    because its gevent would take the place of this process's threads."""

    def __init__(self, workers: FaultWorkers) -> None:
        key = read_key(workers.master_key, "master")
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.curve_secretkey = key.secret.encode()
        self._socket.curve_publickey = key.public.encode()
        self._socket.curve_server = True
        self._socket.bind(f"tcp://127.0.0.1:{workers.port}")
        self._ids: dict[str, bytes] = {}
        self.answers: dict[int, dict[str, Any]] = {}

    def tell(self, name: str, kind: str, data: Any) -> None:
        self._send(self._ids[name], kind, data)

    def _send(self, identity: bytes, kind: str, data: Any) -> None:
        self._socket.send_multipart([identity, msgpack.dumps((kind, data, identity.decode()))])

    def step(self) -> None:
        while self._socket.poll(50):
            identity, body = self._socket.recv_multipart()
            kind, data, _ = msgpack.loads(body, strict_map_key=False)
            if kind == "client_ready":
                self._send(identity, "ack", {"index": 0})
            elif kind == "fault_hello":
                self._ids[data["name"]] = identity
                self.tell(data["name"], "host_welcome", {"run_id": "evil", "version": data["version"]})
            elif kind == "fault_answer":
                self.answers[data["number"]] = data

    def await_(self, is_so: Any, what: str) -> None:
        def after_a_step() -> bool:
            self.step()
            return bool(is_so())

        wait_until(after_a_step, what)

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


def test_a_hostile_master_gets_no_further_than_the_list(tmp_path: Path, strangers: Strangers) -> None:
    workers = FaultWorkers(tmp_path, strangers, allow="pause", brokers=[1])
    master = HostileMaster(workers)
    before = {broker: strangers.identity(broker) for broker in strangers.nodes}
    file = tmp_path / "made-by-the-master"
    ask = {"run_id": "evil", "broker": 1, "begin_until_ns": 2**62}
    asks: list[tuple[dict[str, Any], str]] = [
        ({"action": "kill"}, "this host's list allows pause for it"),
        ({"action": "terminate"}, "this host's list allows pause for it"),
        ({"action": "start"}, "not down by this worker"),
        ({"action": "pause", "broker": 2}, "this host has only broker 1 on its list"),
        ({"action": "pause", "broker": -1}, "does not take such a message"),
        ({"action": "exec"}, "does not take such a message"),
        ({"action": "start", "command": ["touch", str(file)]}, "does not take such a message"),
        ({"action": "kill", "pid": 1}, "does not take such a message"),
        ({"action": "kill", "signal": 9}, "does not take such a message"),
        ({"action": "logs", "topic": "../../etc", "partitions": 1}, "does not take such a message"),
        ({"action": "logs", "topic": "__consumer_offsets", "partitions": 1}, "not down by this worker"),
        ({"action": "look", "begin_until_ns": 0}, "came too late"),
        ({"action": ["kill"]}, "does not take such a message"),
    ]
    try:
        master.await_(lambda: "host-1" in master._ids, "the worker came")
        for number, (more, _) in enumerate(asks, start=1):
            master.tell("host-1", "fault_ask", {**ask, "number": number, **more})
        for junk in (None, 7, [], "x", {"number": "x"}, {"run_id": "evil"}):
            master.tell("host-1", "fault_ask", junk)
        master.tell("host-1", "spawn", {"user_classes_count": {"X": 1}})
        master.tell("host-1", "host_forget", {"run_id": "evil", "cell_id": "../.."})
        master.await_(lambda: len(master.answers) == len(asks), "each ask is answered")
        for number, (more, words) in enumerate(asks, start=1):
            answer = master.answers[number]
            assert not answer["is_done"], more
            assert words in answer["problem"], (more, answer["problem"])
        assert {broker: strangers.identity(broker) for broker in strangers.nodes} == before
        assert strangers.are_well()
        assert not file.exists()
        master.tell("host-1", "fault_ask", {**ask, "number": 90, "action": "pause"})
        master.await_(lambda: 90 in master.answers, "what is allowed is done")
        assert strangers.state(1) == "T"
    finally:
        master.close()
        workers.close()
    assert strangers.are_well(), "what it may do is healed when it goes"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_leader_loss_on_somebody_elses_cluster_has_the_exact_verdict(tmp_path: Path, strangers: Strangers) -> None:
    check_leader_loss(tmp_path, strangers)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(1_800)
@pytest.mark.kafka
def test_leader_loss_on_somebody_elses_apache_kafka_has_the_exact_verdict(tmp_path: Path) -> None:
    kafka = Strangers(tmp_path / "cluster", engine="kafka")
    try:
        kafka.start()
        check_leader_loss(tmp_path, kafka)
    finally:
        kafka.stop()


def check_leader_loss(tmp_path: Path, strangers: Strangers) -> None:
    workers = FaultWorkers(tmp_path, strangers)
    run_dir = tmp_path / "run"
    try:
        done = harness(
            tmp_path,
            [
                "chaos", "leader-loss-paused", "--yes", "--cluster", "external", "--bootstrap-server",
                strangers.bootstrap_servers, "--run-dir", str(run_dir), *workers.options,
            ],
        )  # fmt: skip
        assert done.returncode == 0, said(done)
    finally:
        workers.close()
    cells = {cell["case"]: cell for cell in json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]}
    assert {case: cell["verdict"] for case, cell in cells.items()} == {"acks-1": "pass", "acks-all": "pass"}
    cluster_lines = (run_dir / "cells").glob("*acks-1*/cluster.jsonl")
    truncated = [
        json.loads(line) for path in cluster_lines for line in path.read_text().splitlines() if '"truncated"' in line
    ]
    assert [line["source"] for line in truncated] == ["log_dump"]
    for path in (run_dir / "cells").glob("*/faults.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["kind"] in ("kill", "pause") and line["phase"] in ("applied", "healed"):
                times = line["detail"]["at_hosts"]
                assert sorted({each["host"] for each in times}) == [f"host-{name}" for name in line["resolved"]]
                assert all(each["clock_error_us"] > 0 for each in times)
        assert [line["kind"] for line in lines if line["phase"] == "proved" and line["kind"] != "wait"] == [
            "pause", "kill",
        ]  # fmt: skip
    assert strangers.are_well()


def test_options_that_do_not_fit_together_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workers = tmp_path / "keys"
    assert execute(["load-keys", str(workers)]) == 0
    capsys.readouterr()
    key = ["--load-key", str(workers / "master.key")]
    external = ["--cluster", "external", "--bootstrap-server", "127.0.0.1:1"]
    list_file = tmp_path / "list.yaml"
    list_file.write_text("brokers: {}")
    worker = ["worker", "--master", "x:1", "--key", str(workers / "worker.key"), "--allow-faults", str(list_file)]
    kill = ["chaos", "leader-kill", "--dry-run"]
    hosts = ["--fault-hosts", "3"]
    for arguments, words in (
        ([*kill, *hosts, *key], "--fault-hosts belongs to --cluster external"),
        ([*kill, *hosts, *external], "--fault-hosts needs --load-key"),
        ([*kill, *external], "needs --fault-hosts"),
        (["chaos", "slow-connect-brokers", "--dry-run", *hosts, *key, *external], "acts on more than"),
        ([*kill, *hosts, "--fault-listen", "x", *key, *external], "--fault-listen"),
        ([*kill, *external, "--direct-bootstrap-server", "x:1"], "--direct-bootstrap-server needs --fault-hosts"),
        ([*kill, *hosts, *key, *external, "--direct-bootstrap-server", "x"], "--direct-bootstrap-server: "),
        (worker, "--allow-faults"),
        ([*worker, "--spool", str(tmp_path)], "sends no load"),
    ):  # fmt: skip
        assert execute(arguments) == 2, arguments
        assert words in capsys.readouterr().err
    assert execute([*kill, *hosts, *key, *external]) == 3, "they fit, and then the cluster is tried: nobody is there"

"""Links between brokers of somebody else, through proxies on the brokers' hosts: real brokers, workers and proxies.

The brokers reach each other, and the clients them, by addresses where workers listen. The link of the harness to the
workers goes through a relay that a test can cut. What takes no minutes is shown on the brokers, workers and proxies of
test_harness_host_records.py.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chaos
from broker.door.clients import Producer
from chaos.faults import FAULTS
from chaos.faults.base import Compares, FaultRun
from chaos.targets import PartitionOfInterest
from chaos.toxiproxy.calls import ToxiproxyError
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.ports import PortAllocator, free_port
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.admin import Admin
from harness.run.hosts.fault_hosts import FaultHosts
from harness.run.hosts.load_hosts import load_hosts_request
from tests.harness.load_workers import PASS_OR_INCONCLUSIVE, Workers, assert_passed, harness, said
from tests.harness.no_load import port_of
from tests.harness.strangers import FaultWorkers, Strangers
from tests.patience import wait_until
from tests.workloads.load_hosts import Link

pytestmark = [pytest.mark.slow, pytest.mark.long]
LOST_AFTER_S = 8  # longer than a busy host keeps the harness silent
SETTINGS = {
    "replica.lag.time.max.ms": "10000", "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300",
}  # fmt: skip
TOPIC = "harness-links"


class Operator:
    """Three brokers whose links go through their hosts' workers, and a link to the harness that can be cut."""

    def __init__(self, directory: Path, *, requests: bool = False, **more: Any) -> None:
        """`requests`: the proxies of clients may read Kafka's requests. `more`: of the strangers."""
        self.strangers = Strangers(directory / "cluster", proxied=True, **{"settings": SETTINGS, **more})
        self.port = free_port()
        self.link = Link(("127.0.0.1", self.port), there_ms=0, back_ms=0, jitter_ms=0)
        self.workers = FaultWorkers(
            directory,
            self.strangers,
            port=self.port,
            through=self.link.port,
            lost_after=f"{LOST_AFTER_S}s",
            requests=requests,
        )
        self.runs = 0
        try:
            self.strangers.start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.strangers.stop()
        self.workers.close()
        self.link.close()


class Run:
    """The harness's side: a hub, and the cluster as faults see it."""

    def __init__(self, directory: Path, operator: Operator, **more: Any) -> None:
        operator.runs += 1
        self.operator = operator
        request = load_hosts_request(3, f"127.0.0.1:{operator.port}", operator.workers.master_key, option="--fault")
        self.hosts = FaultHosts(request, f"run-{operator.runs}", directory / "hub.stderr", time.monotonic_ns())
        proxies = LinkProxies("embedded", directory=directory / "own", lease=None, seed=1, ports=PortAllocator())
        self.cluster = HostFaultCluster(
            operator.strangers.bootstrap_servers, self.hosts, security=None, proxies=proxies, **more
        )
        self.said: list[str] = []
        try:
            self.hosts.start(lambda: False, self.said.append)
            self.cluster.start()
        except BaseException:
            self.close()
            raise

    def fault(self, name: str, target: str, **parameters: Any) -> FaultRun:
        spec = FAULTS[name]
        context = spec.context(target, port_of(self.cluster), PartitionOfInterest(topic=TOPIC), None, f"test-{name}")
        return spec.make(context, {**spec.parameters, **parameters})

    def isr(self) -> tuple[int, ...]:
        return self.cluster.isr(TOPIC, 0)

    def leader(self) -> int:
        found = self.cluster.leader(TOPIC, 0)
        assert found is not None
        return found

    def close(self) -> None:
        self.cluster.stop()
        self.hosts.stop()


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    found = Operator(tmp_path_factory.mktemp("operator"))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def run(tmp_path: Path, operator: Operator) -> Iterator[Run]:
    found = Run(tmp_path, operator)
    try:
        admin = Admin(found.cluster.direct_addresses)
        if admin.topic_id(TOPIC) is None:
            admin.create_topic(TOPIC, partitions=1, replication_factor=3, config={})
        wait_until(lambda: len(found.isr()) == 3, "all replicas are in sync")
        yield found
    finally:
        found.close()
    assert operator.strangers.are_well()


def test_a_follower_that_a_fault_host_cuts_off_leaves_the_isr(run: Run) -> None:
    names = set(run.cluster.link_proxies().names())
    assert names == {f"client-{i}" for i in (1, 2, 3)} | {
        f"{kind}-{i}-{j}" for kind in ("internal", "controller") for i in (1, 2, 3) for j in (1, 2, 3) if i != j
    }
    assert "proxies for client-1 internal-1-2 controller-1-2 internal-1-3 controller-1-3: cut stall" in run.said[-1]
    cut = run.fault("link_cut", "follower:0->leader")
    cut.inject()
    proof = cut.prove()
    assert proof.is_effective, proof
    follower = min(broker for broker in (1, 2, 3) if broker != run.leader())
    assert proof.detail == {f"internal-{follower}-{run.leader()}": "refused"}
    with Producer({"bootstrap.servers": run.cluster.direct_bootstrap_servers, "acks": "1"}) as producer:
        producer.send(TOPIC, b"what the follower does not get")
        assert producer.flush(60) == 0
    wait_until(lambda: len(run.isr()) == 2, "a follower leaves the ISR")
    assert follower not in run.isr()
    cut.heal()
    wait_until(lambda: len(run.isr()) == 3, "it is back")
    times: list[dict[str, Any]] = run.cluster.take_times()
    assert [(each["host"], each["action"]) for each in times] == [
        (f"host-{follower}", "proxy_cut"), (f"host-{follower}", "proxy_join"),
    ]  # fmt: skip
    for each in times:
        assert each["proxy"] == f"internal-{follower}-{run.leader()}"
        assert each["asked_us"] - each["clock_error_us"] <= each["from_us"]
        assert each["to_us"] <= each["answered_us"] + each["clock_error_us"]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("link_stall", {}), ("bandwidth", {"rate_kb_per_s": 64}), ("link_cut", {}), ("one_way_cut", {}),
        ("black_hole", {}), ("reset", {}), ("byte_limit", {"bytes": 20_000}), ("slicing", {}),
    ],
)  # fmt: skip
def test_each_fault_of_a_link_is_proved_where_its_proxy_is(run: Run, name: str, parameters: dict[str, Any]) -> None:
    fault = run.fault(name, "follower:1->leader", **parameters)
    wait_until(lambda: is_proved(fault), "its effect is proved")
    wait_until(lambda: not fault.prove().is_effective, "and is gone with it")
    fault.heal()  # twice does no harm


def is_proved(fault: FaultRun) -> bool:
    """While it was injected. A busy host may have been slower before than it is under the fault."""
    if isinstance(fault, Compares):
        fault.observe()
    fault.inject()
    proof = fault.prove()
    fault.heal()
    return proof.is_effective


def test_clients_elsewhere_use_the_addresses_that_the_brokers_advertise(tmp_path: Path, operator: Operator) -> None:
    run = Run(tmp_path, operator, clients_elsewhere=True)
    try:
        cluster = run.cluster
        assert cluster.clients_use_hosts
        assert cluster.bootstrap_servers == operator.strangers.bootstrap_servers
        assert not (tmp_path / "own").exists(), "no proxy of ours runs"
        assert re.fullmatch(r"network, (embedded )?toxiproxy( [\d.]+)? of fault hosts", cluster.path_description)
        assert cluster.wire_log_path() is None
        cut = run.fault("link_cut", "client->broker:2")
        cut.inject()
        assert cut.prove().is_effective
        cut.heal()
        with pytest.raises(ToxiproxyError, match="may not read Kafka's requests"):
            run.fault("kafka_drop_response", "client->broker:2").inject()
    finally:
        run.close()


@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_leaders_cut_off_by_fault_hosts_have_the_exact_verdicts(tmp_path: Path, operator: Operator) -> None:
    run_dir = tmp_path / "run"
    done = harness(
        tmp_path,
        [
            "chaos", "leader-loss", "isolated-leader", "--yes", "--cluster", "external", "--bootstrap-server",
            operator.strangers.bootstrap_servers, "--run-dir", str(run_dir), *operator.workers.options,
        ],
    )  # fmt: skip
    assert done.returncode == 0, said(done)
    check_verdicts(run_dir, lost={"leader-loss", "isolated-leader"})
    for path in (run_dir / "cells").glob("*/faults.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        cuts = [line for line in lines if line["kind"] == "link_cut"]
        assert [line["phase"] for line in cuts] == ["applied", "proved", "healed"]
        for line in (cuts[0], cuts[2]):
            assert {each["proxy"] for each in line["detail"]["at_hosts"]} == set(line["resolved"])


@pytest.mark.spark
@pytest.mark.timeout(1_800)
def test_load_hosts_reach_the_proxies_of_fault_hosts(tmp_path: Path, operator: Operator) -> None:
    text = (Path(chaos.__file__).parent / "scenarios" / "leader-loss.yaml").read_text()
    scenario = tmp_path / "leader-loss.yaml"
    scenario.write_text(text.replace("producers: 1,", "producers: 2,"))
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        json.dumps({"name": "links", "workload": {"rate_per_s": 2000}, "chaos": [{"scenario": str(scenario)}]})
    )
    workers = Workers(tmp_path, "a", "b", keys=operator.workers.keys)
    run_dir = tmp_path / "run"
    try:
        done = harness(
            tmp_path,
            [
                "run", str(suite), "--no-certify", "--yes", "--cluster", "external", "--bootstrap-server",
                operator.strangers.bootstrap_servers, "--run-dir", str(run_dir), *operator.workers.options,
                *workers.options[:4],
            ],
        )  # fmt: skip
        assert done.returncode in PASS_OR_INCONCLUSIVE, said(done)
    finally:
        workers.close()
    check_verdicts(run_dir, lost={"leader-loss"})


def check_verdicts(run_dir: Path, *, lost: set[str]) -> None:
    cells = json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]
    assert_passed(cells)
    found = {(cell["scenario"], cell["case"]): cell for cell in cells}
    for scenario in lost:
        predicted = found[scenario, "acks-1"]["predicted"]["lost"]
        assert predicted["both"] == found[scenario, "acks-1"]["lost"] > 0
        assert found[scenario, "acks-all"]["lost"] == 0

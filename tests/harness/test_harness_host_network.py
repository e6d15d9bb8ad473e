"""Three load hosts and three brokers' hosts in network namespaces with clocks that are off, behind links of 20 ms with
jitter. Brokers, workers, proxies and clients are real processes; the harness is outside of the namespaces.

A network namespace has its own loopback too: nothing here works because all of it is one machine, but for process ids.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import chaos
from chaos.faults import FAULTS
from chaos.faults.base import FaultRun
from chaos.targets import PartitionOfInterest
from chaos.toxiproxy.calls import ToxiproxyError
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.hosts.host_answers import HostFaultError
from harness.clusters.ports import PortAllocator
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.admin import Admin
from harness.run.hosts.fault_hosts import FaultHosts
from harness.run.hosts.load_hosts import load_hosts_request
from runlog.records.lines import WIRE, read_lines
from tests.harness.load_workers import PASS_OR_INCONCLUSIVE, RUN_QUIET_S, SLOW, Workers, harness, said, started_harness
from tests.harness.no_load import port_of
from tests.harness.strangers import FaultWorkers, Strangers
from tests.harness.test_harness_host_records import check_predictions
from tests.json_lines import read_jsonl
from tests.patience import communicate, files_seen, wait_until
from tests.workloads.network import HERE, Network, why_no_network

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(2_400)]

AHEAD_NS = {
    "broker-1": 5_000_000, "broker-2": -5_000_000, "broker-3": 3_600_000_000_000,
    "a": 5_000_000, "b": -5_000_000, "c": 3_600_000_000_000,
}  # fmt: skip
SETTINGS = {
    "replica.lag.time.max.ms": "10000", "broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300",
}  # fmt: skip
CUT_S = 10.0
LOST_AFTER_S = 6
TOPIC = "harness-network"


class Site:
    """The brokers' hosts are `broker-1` and so on, the load hosts `a`, `b` and `c`."""

    def __init__(self, directory: Path) -> None:
        self.network = Network(list(AHEAD_NS), delay_ms=10, jitter_ms=5)
        prefixes = {
            broker: self.network.prefix(f"broker-{broker}", AHEAD_NS[f"broker-{broker}"]) for broker in (1, 2, 3)
        }
        here = self.network.addresses[HERE]
        self.closing: list[Callable[[], object]] = [self.network.close]
        try:
            self.strangers = Strangers(
                directory / "cluster", proxied=True, settings=SETTINGS, prefixes=prefixes,
                addresses={broker: self.network.addresses[f"broker-{broker}"] for broker in (1, 2, 3)},
            )  # fmt: skip
            self.closing.append(self.strangers.stop)
            self.fault_workers = FaultWorkers(
                directory, self.strangers, lost_after=f"{LOST_AFTER_S}s", prefixes=prefixes, master=here, requests=True
            )
            self.closing.append(self.fault_workers.close)
            self.load_workers = Workers(
                directory, "a", "b", "c", keys=self.fault_workers.keys, master=here,
                prefixes={name: self.network.prefix(name, AHEAD_NS[name]) for name in "abc"},
            )  # fmt: skip
            self.closing.append(self.load_workers.close)
            self.strangers.start()
        except BaseException:
            self.close()
            raise

    @property
    def options(self) -> list[str]:
        """Of `harness run`, with all six hosts."""
        return [
            "--no-certify", "--yes", "--cluster", "external", "--bootstrap-server", self.strangers.bootstrap_servers,
            "--direct-bootstrap-server", self.strangers.direct_bootstrap_servers,
            *self.fault_workers.options, *self.load_workers.options[:4],
        ]  # fmt: skip

    def close(self) -> None:
        while self.closing:
            self.closing.pop()()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if why := why_no_network():
        pytest.skip(why)
    found = Site(tmp_path_factory.mktemp("site"))
    try:
        yield found
    finally:
        found.close()


class Linked:
    """The harness's side, without a run."""

    def __init__(self, directory: Path, site: Site) -> None:
        workers = site.fault_workers
        address = f"{site.network.addresses[HERE]}:{workers.port}"
        request = load_hosts_request(3, address, workers.master_key, option="--fault")
        self.hosts = FaultHosts(request, "linked", directory / "hub.stderr", time.monotonic_ns())
        proxies = LinkProxies("embedded", directory=directory / "own", lease=None, seed=1, ports=PortAllocator())
        self.cluster = HostFaultCluster(
            site.strangers.bootstrap_servers, self.hosts, security=None, proxies=proxies, clients_elsewhere=True
        )
        try:
            self.hosts.start(lambda: False, lambda _line: None)
            self.cluster.start()
        except BaseException:
            self.close()
            raise

    def fault(self, name: str, target: str) -> FaultRun:
        spec = FAULTS[name]
        return spec.make(
            spec.context(target, port_of(self.cluster), PartitionOfInterest(topic=TOPIC), None, name), spec.parameters
        )

    def close(self) -> None:
        self.cluster.stop()
        self.hosts.stop()


def test_what_is_broken_heals_by_itself_while_the_link_of_its_host_is_cut(tmp_path: Path, site: Site) -> None:
    linked = Linked(tmp_path, site)
    try:
        cluster = linked.cluster
        admin = Admin(cluster.direct_addresses)
        topic_id = admin.create_topic(TOPIC, partitions=1, replication_factor=3, config={})
        assert cluster.wait_healthy(TOPIC, timeout_s=60)
        leader = cluster.leader(TOPIC, 0)
        killed, paused = (broker for broker in (1, 2, 3) if broker != leader)
        before = site.strangers.identity(killed)
        cut = linked.fault("link_cut", "leader->followers")
        cut.inject()
        assert cut.prove().is_effective
        cluster.pause(paused)
        cluster.kill(killed)
        for each in (times := cluster.take_times()):
            host = str(each["host"]).removeprefix("host-")
            error_us: Any = each["clock_error_us"]
            assert 10_000 < error_us < 1_000_000, "half a round trip and more"
            assert each["asked_us"] - error_us <= each["from_us"], (host, each)  # type: ignore[operator]
            assert each["to_us"] <= each["answered_us"] + error_us, (host, each)  # type: ignore[operator]
        assert {each["action"] for each in times} == {"proxy_cut", "pause", "kill"}
        began_s = time.monotonic()
        for broker in (1, 2, 3):
            site.network.cut(HERE, f"broker-{broker}")
        wait_until(
            lambda: site.strangers.state(paused) != "T" and site.strangers.identity(killed) not in (None, before),
            "their hosts heal them", CUT_S + 50,
        )  # fmt: skip
        time.sleep(max(0.0, began_s + CUT_S - time.monotonic()))
        for broker in (1, 2, 3):
            site.network.join(HERE, f"broker-{broker}")
        wait_until(lambda: all(host.silent_s < 1 for host in linked.hosts.look().hosts), "the links are back")
        silent = f"the harness was silent for {LOST_AFTER_S} s"
        with pytest.raises(HostFaultError, match=f"host-{paused}: broker {paused} is not paused .*{silent}"):
            cluster.resume(paused)
        with pytest.raises(HostFaultError, match=f"host-{killed}: broker {killed} is not down .*{silent}"):
            cluster.is_running(killed)
        with pytest.raises(ToxiproxyError, match=f"it was mended before, because {silent}"):
            cut.heal()
        assert cluster.wait_healthy(TOPIC, timeout_s=120), cluster.describe()
        assert topic_id is not None
        assert admin.delete_topic(topic_id)
    finally:
        for broker in (1, 2, 3):
            site.network.join(HERE, f"broker-{broker}")
        linked.close()
    assert site.strangers.are_well()


@pytest.mark.spark
def test_the_verdicts_of_three_load_hosts_and_three_broker_hosts_are_exact(tmp_path: Path, site: Site) -> None:
    """The followers are cut off by proxies on their own hosts, and the leader is killed on its own. Clients go through
    proxies there, which record their requests and drop answers."""
    run_dir = tmp_path / "run"
    suite = suite_of(
        tmp_path,
        {
            "leader-loss": ["acks-1", "acks-all"],
            "response-lost": ["idempotence-off", "idempotence-on"],
            "isolated-leader": ["acks-1"],
        },
    )
    done = harness(tmp_path, ["run", str(suite), "--run-dir", str(run_dir), *site.options])
    assert done.returncode in PASS_OR_INCONCLUSIVE, said(done)
    check_predictions(run_dir, "lost", "duplicated")
    for cell in verdicts(run_dir):
        check_clocks(run_dir, cell["cell_id"])
        lines = read_lines(run_dir / "cells" / cell["cell_id"] / "wire.jsonl", WIRE).records
        assert {line.clock_error_us for line in lines} - {None}
        assert all((line.clock_error_us or 0) > 10_000 for line in lines), "half a round trip and more"


@pytest.mark.spark
def test_links_that_are_cut_in_the_middle_make_their_cell_inconclusive_and_lose_no_record(
    tmp_path: Path, site: Site
) -> None:
    """For 10 s the harness reaches neither load host b nor the host of the leader that it has just killed."""
    run_dir = tmp_path / "run"
    suite = suite_of(tmp_path, {"leader-kill": ["acks-all-idempotent"], "leader-loss": ["acks-all"]})
    process = started_harness(tmp_path, ["run", str(suite), "--run-dir", str(run_dir), *site.options])
    try:
        line = wait_for_kill(run_dir, process)
        (killed,) = line["resolved"]
        ends = ["b", f"broker-{killed}"]
        try:
            for end in ends:
                site.network.cut(HERE, end)
            time.sleep(CUT_S)
        finally:
            for end in ends:
                site.network.join(HERE, end)
        communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
    finally:
        process.kill()
        process.communicate()
    told = (tmp_path / "run.stderr").read_text()
    assert process.returncode == 4, told[-3000:]
    found = {cell["scenario"]: cell for cell in verdicts(run_dir)}
    cut, after = found["leader-kill"], found["leader-loss"]
    assert cut["verdict"] == "inconclusive", cut["reasons"]
    reasons = " ".join(cut["reasons"])
    assert f"host-{killed}" in reasons, reasons
    assert "load host b: its link was lost" in reasons, reasons
    assert cut["lost"] == cut["duplicated"] == cut["reordered"] == 0, "and every record has its fate"
    assert f"the harness was silent for {LOST_AFTER_S} s" in site.fault_workers.log(int(killed)).read_text()
    was_slow = any(word in reason for reason in after["reasons"] for word in SLOW)
    assert after["verdict"] == "pass" or was_slow, after["reasons"]
    for cell in found.values():
        document = json.loads((run_dir / "cells" / cell["cell_id"] / "cell.json").read_text())
        assert document["outcome"]["final_read"]["complete"]
        assert all(host["is_gathered"] for host in document["outcome"]["load_hosts"])
    assert site.strangers.are_well()


def wait_for_kill(run_dir: Path, process: Any) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def is_killed() -> bool:
        assert process.poll() is None, "the run has ended before"
        for path in run_dir.glob("cells/*/faults.jsonl"):
            found.extend(line for line in read_jsonl(path) if line["kind"] == "kill" and line["phase"] == "applied")
        return bool(found)

    wait_until(is_killed, "the leader is killed", seen=files_seen(run_dir), poll_s=0.2)
    return found[0]


def suite_of(directory: Path, scenarios: dict[str, Sequence[str]]) -> Path:
    """The package's scenarios with a producer and a reader for each load host."""
    entries = []
    for name, cases in scenarios.items():
        text = (Path(chaos.__file__).parent / "scenarios" / f"{name}.yaml").read_text()
        assert text.count("producers: 1,") == 1
        path = directory / f"{name}.yaml"
        path.write_text(text.replace("consumers: 1,", "").replace("producers: 1,", "producers: 3, consumers: 3,"))
        entries.append({"scenario": str(path), "cases": list(cases)})
    suite = directory / "suite.yaml"
    suite.write_text(json.dumps({"name": "network", "workload": {"rate_per_s": 600}, "chaos": entries}))
    return suite


def verdicts(run_dir: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]
    return found


def check_clocks(run_dir: Path, cell_id: str) -> None:
    """What was planted comes back within its bound."""
    outcome = json.loads((run_dir / "cells" / cell_id / "cell.json").read_text())["outcome"]
    assert [(host["name"], host["producers"]) for host in outcome["load_hosts"]] == [("a", [0]), ("b", [1]), ("c", [2])]
    for host in outcome["load_hosts"]:
        clock = host["clock"]
        assert abs(clock["offset_us"] - AHEAD_NS[host["name"]] / 1000) <= clock["error_us"], host
        assert clock["round_trip_us_min"] >= 20_000

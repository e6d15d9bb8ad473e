"""Each fault against real processes and real proxies: it takes effect, its proof says so, and healing ends it.

The other half matters as much: the proof of a fault that was never injected must fail.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from chaos.faults import FAULTS
from chaos.faults.clients import NeverBetween
from chaos.lease import Lease, read_state
from chaos.ports.security import ProbeAccess
from chaos.targets import PartitionOfInterest
from chaos.toxiproxy.calls import NotFound
from chaos.toxiproxy.states import ProxySpec

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

pytestmark = pytest.mark.slow  # real processes

OF = PartitionOfInterest(topic=kf.TOPIC)
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


class SmallLinks:
    """Proxies of one server, each under the name of its link."""

    def __init__(self, client) -> None:
        self._client = client

    def names(self):
        return tuple(self._client.proxies())

    def plain(self, link):
        return self._client, link

    kafka = plain

    def probe_access(self, link):
        return ProbeAccess()

    def prober(self, link):
        return None

    def joint_links(self):
        return ()


class SmallCluster:
    """Three sleeping processes as brokers, leader 2, and proxies whose upstream answers like a broker."""

    broker_ids = (1, 2, 3)

    def __init__(self, client, upstream: str) -> None:
        self._client = client
        self.processes = {broker: subprocess.Popen(SLEEPER) for broker in self.broker_ids}
        names = ["client-2", "internal-1-2", "internal-3-2", "internal-1-3"]
        client.populate([ProxySpec(name=name, upstream=upstream) for name in names])
        self.port = SimpleNamespace(brokers=self, processes=self, links=SmallLinks(client))

    def leader(self, topic, partition):
        return 2

    def replicas(self, topic, partition):
        return (1, 2, 3)

    def is_running(self, broker):
        return self.processes[broker].poll() is None

    def pids(self):
        return {broker: process.pid for broker, process in self.processes.items() if self.is_running(broker)}

    def kill(self, broker):
        self.processes[broker].kill()
        self.processes[broker].wait()

    def terminate(self, broker):
        self.processes[broker].terminate()
        self.processes[broker].wait()

    def pause(self, broker):
        self.processes[broker].send_signal(19)

    def resume(self, broker):
        self.processes[broker].send_signal(18)

    def restart(self, broker):
        self.processes[broker] = subprocess.Popen(SLEEPER)

    def close(self):
        for broker in self.broker_ids:
            self.kill(broker)
        for name in self._client.proxies():
            self._client.delete(name)


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.toxiproxy)])
def cluster(request, upstream_factory):
    client = request.getfixturevalue(f"{request.param}_server").client()
    cluster = SmallCluster(client, upstream_factory(kf.serve_api_versions).address)
    yield cluster
    cluster.close()
    client.close()


def make(name, of, lease=None, target=None, toxic="test", **parameters):
    """`of`: what it acts on, with its port."""
    spec = FAULTS[name]
    context = spec.context(target or spec.default_target, of.port, OF, lease, f"{toxic}-{name}")
    return spec.make(context, {**spec.parameters, **parameters})


def becomes(condition):
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def shows_no_effect(fault):
    """A busy host delays some probes for so long that they look like the fault, but not all."""
    return becomes(lambda: not fault.prove().is_effective)


def states(cluster):
    return {name: (state.is_enabled, state.toxics) for name, state in cluster._client.proxies().items()}


def test_connections_hang_while_they_are_not_accepted(embedded_server, upstream_factory, tmp_path):
    cluster = SmallCluster(embedded_server.client(), upstream_factory(kf.serve_api_versions).address)
    lease = Lease(tmp_path)
    fault = make("slow_connect", cluster, lease, target="client->all")
    assert shows_no_effect(fault)
    fault.inject()
    assert "test-slow_connect" in next(tmp_path.glob("*.json")).read_text()
    proof = fault.prove()
    assert proof.is_effective
    assert set(proof.detail["links"].values()) == {"silent"}
    fault.heal()
    assert shows_no_effect(fault)
    lease.close()
    cluster.close()


def test_connections_between_brokers_hang_at_any_server_until_the_proxy_has_its_address_again(cluster, tmp_path):
    lease = Lease(tmp_path)
    fault = make("slow_connect", cluster, lease, target="follower:0->leader")
    assert shows_no_effect(fault)
    fault.inject()
    assert "proxy_disabled" in next(tmp_path.glob("*.json")).read_text()
    proof = fault.prove()
    assert proof.is_effective
    assert proof.detail["links"] == {"internal-1-2": "silent"}
    other = make("slow_connect", cluster, target="follower:1->leader")
    assert becomes(lambda: other.prove().detail["links"] == {"internal-3-2": "answered"})
    fault.heal()
    assert states(cluster)["internal-1-2"] == (True, ())
    assert becomes(lambda: fault.prove().detail["links"] == {"internal-1-2": "answered"})
    fault.heal()  # may be called twice
    lease.close()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("link_cut", {}),
        ("link_stall", {"stream": "upstream"}),
        ("link_stall", {"stream": "downstream"}),
        ("link_stall", {"stream": "both"}),
        ("byte_limit", {"bytes": 20_000, "target": "followers->leader"}),
        ("byte_limit", {"bytes": 1_000, "stream": "downstream", "target": "followers->leader"}),
        ("latency", {"latency_ms": 80}),
        ("latency", {"latency_ms": 60, "stream": "both"}),
        ("slicing", {"target": "followers->leader"}),
    ],
)
def test_link_faults_take_effect_on_their_links_alone_and_heal(cluster, name, parameters, tmp_path):
    lease = Lease(tmp_path)
    before = states(cluster)
    fault = make(name, cluster, lease, **parameters)
    assert shows_no_effect(fault), "nothing has been injected yet"
    fault.inject()
    proof = fault.prove()
    assert proof.is_effective, proof
    changed = {link for link, state in states(cluster).items() if state != before[link]}
    assert changed == {"internal-1-2", "internal-3-2"}
    assert "internal-1-2" in next(tmp_path.glob("*.json")).read_text()
    fault.heal()
    fault.heal()
    assert states(cluster) == before
    assert shows_no_effect(fault)
    assert "internal-1-2" not in next(tmp_path.glob("*.json")).read_text()
    lease.close()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        pytest.param("latency", {"latency_ms": 200, "stream": "downstream"}, marks=pytest.mark.long),
        ("slicing", {"delay_us": 2_000}),
    ],
)
def test_a_link_that_was_slow_before_does_not_prove_a_fault(cluster, name, parameters, tmp_path):
    """As on a host that is busy with other things: the proof is what the fault has added."""
    lease = Lease(tmp_path)
    slow = make("latency", cluster, lease, target="followers->leader", toxic="slow", latency_ms=200, stream="both")
    slow.inject()
    fault = make(name, cluster, lease, target="followers->leader", **parameters)
    assert fault.prove().is_effective, "without what was before, it would be taken for the effect"

    def is_told_from_before():
        fault.observe()
        if fault.prove().is_effective:
            return False
        fault.inject()
        proof = fault.prove()
        fault.heal()
        return proof.is_effective

    # A busy host may have been slower before than it is under the fault. What was quickest before counts.
    assert becomes(is_told_from_before)
    assert shows_no_effect(fault)
    slow.heal()
    lease.close()


@pytest.mark.parametrize("name", ["kill", "terminate"])
def test_ending_a_broker_is_proved_by_its_process_and_healed_by_a_new_one(cluster, name):
    pid = cluster.pids()[2]
    fault = make(name, cluster)
    assert not fault.prove().is_effective
    fault.inject()
    assert fault.prove().is_effective
    assert fault.prove().detail == {"broker 2": {"pid": pid, "state": "gone"}}
    assert set(cluster.pids()) == {1, 3}
    fault.heal()
    assert set(cluster.pids()) == {1, 2, 3}


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_restart_changes_the_process(cluster, how):
    before = cluster.pids()
    fault = make("restart", cluster, target="followers", how=how)
    fault.inject()
    assert fault.prove().is_effective
    after = cluster.pids()
    assert after[2] == before[2]
    assert after[1] != before[1]
    assert after[3] != before[3]


def test_pause_stops_the_process_until_healed(cluster, tmp_path):
    lease = Lease(tmp_path)
    fault = make("pause", cluster, lease)
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)  # the kernel stops it a moment after the signal
    assert read_state(cluster.pids()[2]) == "T"
    fault.heal()
    assert becomes(lambda: not fault.prove().is_effective)
    assert read_state(cluster.pids()[2]) in ("S", "R")
    lease.close()


def test_half_injected_fault_is_healed(cluster):
    """The second link has no proxy any more: the first must come back all the same."""
    faults = [make(name, cluster) for name in ("link_cut", "link_stall")]
    cluster._client.delete("internal-3-2")
    for fault in faults:
        with pytest.raises(NotFound):
            fault.inject()
        fault.heal()
        assert states(cluster)["internal-1-2"] == (True, ())


def test_every_fault_has_a_label_and_a_colour_of_its_own():
    specs = FAULTS.values()
    assert all(spec.label and len(spec.colour) == 7 for spec in specs)
    assert len({spec.colour for spec in specs}) == len(FAULTS)
    for spec in specs:
        spec.check_target(spec.default_target)


class SmallClients:
    """Two sleeping processes as members of the reader app."""

    def __init__(self):
        self.processes = {name: subprocess.Popen(SLEEPER) for name in ("app-0", "app-1")}
        self.twins = []
        self.looks, self.looked = [], []
        self.port = SimpleNamespace(clients=self)

    def names(self):
        return tuple(self.processes)

    def pids(self):
        return {name: process.pid for name, process in self.processes.items() if process.poll() is None}

    def committed_ahead(self, name):
        """Told by `looks` one after the other; before each but the first the process stands still."""
        self.looked.append(read_state(self.processes[name].pid))
        return self.looks.pop(0)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def leave(self, name):
        self.processes[name].terminate()
        self.processes[name].wait()

    def pause(self, name):
        self.processes[name].send_signal(19)

    def resume(self, name):
        self.processes[name].send_signal(18)

    def start_again(self, name):
        if self.processes[name].poll() is not None:
            self.processes[name] = subprocess.Popen(SLEEPER)

    def twin(self, name):
        self.twins.append(subprocess.Popen(SLEEPER))
        return self.twins[-1].pid

    def end_twins(self):
        for process in self.twins:
            process.kill()
            process.wait()

    def close(self):
        self.end_twins()
        for name in self.processes:
            self.kill(name)


@pytest.fixture
def clients():
    found = SmallClients()
    yield found
    found.close()


@pytest.mark.parametrize("name", ["client_kill", "client_leave"])
def test_a_client_that_is_ended_is_another_process_after_healing(clients, name):
    fault = make(name, clients, target="app:1")
    before = clients.pids()
    assert not fault.prove().is_effective
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)
    assert clients.pids() == {"app-0": before["app-0"]}
    fault.heal()
    assert set(clients.pids()) == {"app-0", "app-1"}
    assert clients.pids()["app-1"] != before["app-1"]


def test_a_client_that_does_not_come_back_is_not_started_by_healing(clients):
    fault = make("client_kill", clients, target="app:1", comes_back=0)
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)
    fault.heal()
    assert set(clients.pids()) == {"app-0"}
    assert FAULTS["client_kill"].problem({"comes_back": 2})


def test_a_kill_between_commit_and_work_waits_for_records_there(clients):
    clients.looks = [0, 0, 0, 7]
    fault = make("client_kill", clients, target="app:1", between=1)
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)
    assert clients.looked[1:] == ["T", "T", "T"]
    assert set(clients.pids()) == {"app-0"}
    assert FAULTS["client_kill"].problem({"between": 2})


def test_a_member_that_does_not_commit_ahead_is_killed_at_once(clients):
    clients.looks = [None]
    fault = make("client_kill", clients, target="app:1", between=1)
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)
    assert len(clients.looked) == 1


def test_a_member_that_is_never_met_between_goes_on(clients, monkeypatch):
    monkeypatch.setattr("chaos.faults.clients.BETWEEN_WITHIN_S", 0.2)
    clients.looks = [0] * 1000
    with pytest.raises(NeverBetween, match="app-1 had processed all"):
        make("client_kill", clients, target="app:1", between=1).inject()
    assert becomes(lambda: read_state(clients.pids()["app-1"]) in ("S", "R"))


def test_a_paused_client_is_in_the_lease_until_it_goes_on(clients, tmp_path):
    lease = Lease(tmp_path)
    fault = make("client_pause", clients, lease, target="app:all")
    fault.inject()
    assert becomes(lambda: fault.prove().is_effective)
    assert [read_state(pid) for pid in clients.pids().values()] == ["T", "T"]
    assert "stopped" in next(tmp_path.glob("*.json")).read_text()
    fault.heal()
    assert becomes(lambda: all(read_state(pid) in "SR" for pid in clients.pids().values()))
    assert not fault.prove().is_effective
    lease.close()


def test_a_twin_runs_beside_the_first_and_ends_with_the_fault(clients):
    fault = make("client_twin", clients, target="app:0")
    assert not fault.prove().is_effective
    fault.inject()
    assert fault.prove().is_effective
    fault.heal()
    assert not fault.prove().is_effective
    assert set(clients.pids()) == {"app-0", "app-1"}

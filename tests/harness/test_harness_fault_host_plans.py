"""Which scenarios fault hosts can carry out, what they need there, and what a cluster knows that it has broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.model import load_builtin
from chaos.process_identity import ProcessIdentity
from harness.clusters.broker_hosts import HostAnswer, HostFaultCluster, HostFaultError
from harness.run.fault_host_needs import not_allowed

HERE = ProcessIdentity(pid=5, start_ticks=7)


@pytest.mark.parametrize(
    ("scenario", "actions"),
    [
        ("leader-kill", {"kill": frozenset()}),
        ("leader-moved", {"terminate": frozenset()}),
        ("zombie-leader", {"pause": frozenset()}),
        ("leader-loss-paused", {"pause": frozenset(), "kill": frozenset()}),
        ("response-lost", {}),
    ],
)
def test_a_scenario_says_what_it_needs_of_the_brokers_hosts(scenario: str, actions: dict[str, frozenset[int]]) -> None:
    found = load_builtin(scenario)
    assert found.is_for_fault_hosts
    assert found.host_actions() == actions


def test_a_broker_that_is_named_is_needed_alone() -> None:
    assert load_builtin("rolling-restart").host_actions() == {"terminate": frozenset({1, 2, 3})}


@pytest.mark.parametrize(
    "scenario", ["leader-loss", "rolling-restart", "disk-full", "clock-jump", "acl-revoked", "lagging-heir"]
)
def test_what_acts_on_more_than_processes_is_not_for_fault_hosts(scenario: str) -> None:
    assert not load_builtin(scenario).is_for_fault_hosts


def test_what_is_missing_is_named_by_host_and_broker() -> None:
    allowed = {1: frozenset({"kill", "logs"}), 2: frozenset({"pause"})}
    told = not_allowed({"kill": [1, 2, 3], "logs": [1, 2]}, allowed, {1: "a", 2: "b"}.__getitem__)
    assert told == (
        "fault host b does not list kill for broker 2; no fault host has broker 3; "
        "fault host b does not list log_dirs for broker 2"
    )
    assert not not_allowed({"kill": [1], "pause": [2]}, allowed, str)


class Hosts:
    """Answers as a test wants. Keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fails: dict[str, HostFaultError] = {}
        self.is_running: Callable[[], bool] = lambda: True

    def act(self, action: str, broker_id: int, *, topic: str = "", partitions: int = 0) -> HostAnswer:
        self.asked.append((action, broker_id))
        if action in self.fails:
            raise self.fails[action]
        return HostAnswer(
            host="a", asked_us=1, answered_us=9, from_us=3, to_us=4, clock_error_us=2.5,
            running=HERE if self.is_running() else None,
        )  # fmt: skip

    def host_of(self, broker_id: int) -> str:
        return "a"


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


@pytest.fixture
def cluster(hosts: Hosts) -> HostFaultCluster:
    found = HostFaultCluster("127.0.0.1:1", hosts, security=None, proxies=None)
    found._brokers = dict.fromkeys((1, 2, 3), found._bootstrap[0])
    return found


def unknown(text: str = "nobody knows") -> HostFaultError:
    return HostFaultError(text, is_certain=False)


@pytest.mark.parametrize(("breaks", "mends"), [("kill", "start"), ("terminate", "start"), ("pause", "resume")])
def test_what_may_have_been_done_is_mended(cluster: HostFaultCluster, hosts: Hosts, breaks: str, mends: str) -> None:
    hosts.fails[breaks] = unknown()
    with pytest.raises(HostFaultError, match="nobody knows"):
        getattr(cluster, breaks)(2)
    cluster.ensure_all_running()
    assert hosts.asked == [(breaks, 2), (mends, 2)]
    cluster.ensure_all_running()
    assert len(hosts.asked) == 2, "once"


@pytest.mark.parametrize("breaks", ["kill", "terminate", "pause"])
def test_what_was_certainly_not_done_is_left_alone(cluster: HostFaultCluster, hosts: Hosts, breaks: str) -> None:
    hosts.fails[breaks] = HostFaultError("not on the list", is_certain=True)
    with pytest.raises(HostFaultError, match="not on the list"):
        getattr(cluster, breaks)(2)
    cluster.ensure_all_running()
    cluster.resume(2)
    cluster.restart(2)
    assert hosts.asked == [(breaks, 2)]


def test_a_broker_that_its_host_started_by_itself_is_no_broker_that_was_down(
    cluster: HostFaultCluster, hosts: Hosts
) -> None:
    """Else a fault that was cut short would count as one that lasted."""
    cluster.kill(2)
    hosts.fails["start"] = HostFaultError("broker 2 is not down: the harness was silent", is_certain=True)
    with pytest.raises(HostFaultError, match="the harness was silent"):
        cluster.is_running(2)
    hosts.is_running = lambda: False
    assert not cluster.is_running(1)


def test_a_host_that_cannot_be_reached_does_not_keep_the_others_broken(cluster: HostFaultCluster, hosts: Hosts) -> None:
    cluster.pause(1)
    cluster.kill(2)
    hosts.fails["resume"] = unknown()
    cluster.ensure_all_running()
    assert hosts.asked[-2:] == [("resume", 1), ("start", 2)]


def test_brokers_that_are_broken_are_not_asked(cluster: HostFaultCluster) -> None:
    cluster.pause(1)
    cluster.kill(3)
    assert cluster._askable() == [2]


def test_times_are_told_once(cluster: HostFaultCluster) -> None:
    cluster.pause(1)
    assert cluster.take_times() == [
        {
            "host": "a", "broker": 1, "action": "pause", "asked_us": 1, "answered_us": 9, "from_us": 3, "to_us": 4,
            "clock_error_us": 2.5,
        }
    ]  # fmt: skip
    assert cluster.take_times() == []

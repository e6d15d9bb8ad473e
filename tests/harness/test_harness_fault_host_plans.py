"""Which scenarios fault hosts can carry out, what they need there, and what a cluster knows that it has broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from chaos.model import load_builtin
from chaos.process_identity import ProcessIdentity
from chaos.toxiproxy.calls import NotApplied, ToxiproxyError
from chaos.toxiproxy.states import ProxyState, ToxicState
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.hosts.host_answers import HostAnswer, HostClock, HostFaultError
from harness.clusters.hosts.host_links import HostProxy, LinkDoors
from harness.clusters.proxies import LinkProxies
from harness.plan import build_plan
from harness.planned_cell import PlannedCell
from harness.run.hosts.fault_host_needs import links_not_allowed, not_allowed, settings_wanted
from harness.scenarios import cases_of
from harness.suite import Suite

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
    "scenario",
    ["slow-connect-brokers", "disk-full", "clock-jump", "acl-revoked", "starved-leader", "log-directory-failure"],
)
def test_what_acts_on_more_than_processes_and_links_is_not_for_fault_hosts(scenario: str) -> None:
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
        self.offered: tuple[HostProxy, ...] = ()
        self.state: ProxyState | None = None
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

    def proxies(self) -> Sequence[HostProxy]:
        return self.offered

    def act_on_proxy(
        self,
        action: str,
        proxy: HostProxy,
        toxic: Mapping[str, object] | None = None,
        probe: Mapping[str, object] | None = None,
    ) -> HostAnswer:
        if action in self.fails:
            raise self.fails[action]
        return HostAnswer(
            host=proxy.host, asked_us=1, answered_us=9, from_us=3, to_us=4, clock_error_us=2.5, proxy=self.state
        )

    def act_on_requests(self, action: str, host: str, *, topics: Sequence[str] = (), offset: int = 0) -> HostAnswer:
        raise HostFaultError("no record is asked for here", is_certain=True)

    def clock_over(self, host: str, first_us: int, last_us: int, *, offset_ns: int | None = None) -> HostClock:
        return HostClock(offset_ns=0, error_us=1.0)


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


# --- links ------------------------------------------------------------------------------------------------------------

ALL = frozenset({"cut", "stall", "latency", "bandwidth", "black_hole", "reset", "byte_limit", "slicing"})
PAIRS = [(i, j) for i in (1, 2, 3) for j in (1, 2, 3) if i != j]


def proxy(name: str, *links: str, allow: frozenset[str] = ALL) -> HostProxy:
    return HostProxy(host="h", name=name, links=frozenset(links), allow=allow, listen="l:1", upstream="u:1", server="s")


def one_for_each_link(allow: frozenset[str] = ALL) -> tuple[HostProxy, ...]:
    kinds = ("internal", "controller")
    return tuple(proxy(f"{kind}-{i}-{j}", f"{kind}-{i}-{j}", allow=allow) for kind in kinds for i, j in PAIRS)


def one_for_each_broker() -> tuple[HostProxy, ...]:
    """As in front of each broker's listener: whoever comes to it comes through one proxy."""
    return tuple(proxy(f"to-{j}", *(f"internal-{i}-{k}" for i, k in PAIRS if k == j)) for j in (1, 2, 3))


def problem_of(
    scenario: str, offered: tuple[HostProxy, ...], *, clients_elsewhere: bool = False, case: str = ""
) -> str:
    hosts = Hosts()
    hosts.offered = offered
    own = cast(LinkProxies, object())  # never asked: clients' links are ours there
    cluster = HostFaultCluster("127.0.0.1:1", hosts, security=None, proxies=own, clients_elsewhere=clients_elsewhere)
    cluster._brokers = dict.fromkeys((1, 2, 3), cluster._bootstrap[0])
    cluster._choose_proxies()
    return links_not_allowed(cells_of(scenario, case), cluster)


def cells_of(scenario: str, case: str = "") -> list[PlannedCell]:
    suite = Suite.model_validate({"name": "x", "workload": {"rate_per_s": 100}, "chaos": [{"scenario": scenario}]})
    return [cell for cell in build_plan(suite, cases_of, seed=1, client="reference") if case in cell.cell_id]


def test_each_case_wants_settings_of_its_own() -> None:
    wanted = settings_wanted(cells_of("password-changed"))
    own = "connections.max.reauth.ms"
    assert {name for name, settings in wanted.items() if own in settings} == {"password-changed, case sessions-end,"}
    assert len(wanted) > 1


def test_a_plan_says_which_links_it_breaks_and_who_has_no_proxy_for_them() -> None:
    assert not problem_of("leader-loss", one_for_each_link())
    assert not problem_of("isolated-leader", one_for_each_link())
    some = tuple(each for each in one_for_each_link() if each.name != "internal-3-1")
    assert problem_of("leader-loss", some) == "no fault host has a proxy for internal-3-1 (leader-loss)"
    told = problem_of("leader-loss", ())
    assert all(f"no fault host has a proxy for internal-{i}-{j} (leader-loss)" in told for i, j in PAIRS)
    assert not problem_of("response-lost", ()), "that is on clients' links, which have proxies of ours"


def test_what_an_operator_does_not_list_for_a_proxy_is_named() -> None:
    only = one_for_each_link(frozenset({"latency"}))
    assert "fault host h does not list cut for proxy internal-2-1, internal-2-1 (leader-loss)" in problem_of(
        "leader-loss", only
    )
    assert "does not list stall for proxy internal-1-2" in problem_of("one-way", only)


def test_a_proxy_before_a_broker_cuts_off_all_its_peers_and_nothing_less() -> None:
    assert not problem_of("leader-loss", one_for_each_broker()), "all followers are cut off from the leader"
    told = problem_of("follower-cut", one_for_each_broker())
    assert "cannot be told apart: the proxy that carries internal-1-2 carries internal-3-2 too (follower-cut)" in told


def test_a_proxy_that_clients_come_through_too_is_no_link_between_brokers() -> None:
    shared = tuple(
        proxy(each.name, *each.links, f"client-{each.name.removeprefix('to-')}") for each in one_for_each_broker()
    )
    assert "carries client-1 at h too" in problem_of("leader-loss", shared)


def reading(broker: int, allow: frozenset[str]) -> HostProxy:
    return replace(proxy(f"client-{broker}", f"client-{broker}"), allow=allow, has_requests=True)


def test_clients_elsewhere_need_what_the_proxies_of_fault_hosts_can_do() -> None:
    clients = tuple(proxy(f"client-{i}", f"client-{i}") for i in (1, 2, 3))
    here = (*one_for_each_link(), *clients)
    assert not problem_of("leader-loss", here, clients_elsewhere=True)
    told = problem_of("response-lost", here, clients_elsewhere=True)
    assert "fault host h does not list kafka_drop_response for proxy client-1, client-1 (response-lost)" in told
    assert "duplicates cannot be predicted, because not all proxies of fault hosts record requests" in told
    recorded = (*one_for_each_link(), *(reading(i, frozenset({"kafka_drop_response"})) for i in (1, 2, 3)))
    assert not problem_of("response-lost", recorded, clients_elsewhere=True)
    told = problem_of("response-lost", (*recorded[:-1], clients[-1]), clients_elsewhere=True)
    assert "does not list kafka_drop_response for proxy client-3, client-3" in told
    assert "duplicates cannot be predicted" in told, "a record with a hole foretells nothing"
    assert not problem_of("response-lost", here), "clients here go through proxies of ours"
    some = here[:-1]
    assert not problem_of("response-lost", some, clients_elsewhere=True), "not all brokers are behind one"


def test_a_fault_on_a_link_fails_with_the_words_of_its_host(hosts: Hosts) -> None:
    hosts.offered = one_for_each_link()
    doors = LinkDoors(
        lambda action, of, toxic, probe: hosts.act_on_proxy(action, of, toxic, probe), hosts.offered, None
    )
    server, name = doors.plain("internal-2-1")
    assert (server.url, name) == ("", "h/internal-2-1")
    with pytest.raises(NotApplied, match="does not say how h/internal-2-1 is after proxy_cut"):
        server.disable(name)
    hosts.state = ProxyState(name="", listen="", upstream="", is_enabled=True)
    with pytest.raises(NotApplied, match="should be disabled"):
        server.disable(name)
    with pytest.raises(ToxiproxyError, match="has no toxic t"):
        server.add_toxic(name, "latency", {"latency": 1}, stream="upstream", name="t")
    bare = ToxicState(name="t", type="latency", stream="upstream", toxicity=1.0, attributes={})
    hosts.state = replace(hosts.state, toxics=(bare,))
    with pytest.raises(NotApplied, match=r"has \{'latency': None\}, asked for"):
        server.add_toxic(name, "latency", {"latency": 1}, stream="upstream", name="t")
    hosts.fails["proxy_join"] = HostFaultError("it was mended before", is_certain=True)
    with pytest.raises(ToxiproxyError, match="it was mended before"):
        server.enable(name)
    prober = doors.prober("internal-2-1")
    assert prober is not None
    with pytest.raises(NotApplied, match="gave no result of a probe"):
        prober.probe_link(timeout_ms=5)
    with pytest.raises(ToxiproxyError, match="may not read Kafka's requests"):
        doors.kafka("client-1")

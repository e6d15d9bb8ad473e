"""What the cells of a plan need of the brokers' hosts and of the brokers, and what of it is not there or not permitted.

All of it is told before the first cell begins. Shown by tests/harness/test_harness_fault_host_plans.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from chaos.faults import FAULTS
from chaos.targets import PartitionOfInterest, TargetError, check_joint, other_way, wanted_links
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.cluster import Cluster
from harness.clusters.hosts.host_links import CLIENT
from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.run.hosts.broker_settings import differing_settings, settings_wanted
from harness.run.hosts.fault_hosts import FaultHosts
from harness.scenarios import load_scenario
from runlog.records.cell import Expectation

_FORETOLD: Final = (Expectation.PREDICTED, Expectation.EXACT)
_ANY: Final = PartitionOfInterest(topic="any", group="any", transactional_id="any")


def check_fault_hosts(cells: Sequence[PlannedCell], cluster: Cluster, hosts: FaultHosts) -> None:
    """UsageError names what these cells need of the brokers and their hosts, and is not there."""
    wanted: dict[str, set[int]] = {}
    for cell in cells:
        scenario = load_scenario(cell.scenario_reference)
        actions = scenario.host_actions()
        if "kill" in actions and cell.record.expect.lost in (Expectation.PREDICTED, Expectation.EXACT):
            actions["logs"] = actions["kill"]  # what a dead leader had is part of the prediction
        for action, brokers in actions.items():
            wanted.setdefault(action, set()).update(brokers or cluster.broker_ids)
    problems = [
        not_allowed({action: sorted(brokers) for action, brokers in wanted.items()}, hosts.allowed(), hosts.host_of),
        links_not_allowed(cells, cluster) if isinstance(cluster, HostFaultCluster) else "",
        "; ".join(differing_settings(settings_wanted(cells), cluster)),
    ]
    if any(problems):
        raise UsageError("; ".join(filter(None, problems)))


def not_allowed(
    wanted: Mapping[str, Sequence[int]], allowed: Mapping[int, frozenset[str]], host_of: Callable[[int], str]
) -> str:
    """What a plan needs and no fault host permits; empty if nothing is missing. `wanted`: brokers by action."""
    missing = []
    for action, brokers in wanted.items():
        for broker in brokers:
            if broker not in allowed:
                missing.append(f"no fault host has broker {broker}")
            elif action not in allowed[broker]:
                what = "log_dirs" if action == "logs" else action
                missing.append(f"fault host {host_of(broker)} does not list {what} for broker {broker}")
    return "; ".join(dict.fromkeys(missing))


def links_not_allowed(cells: Sequence[PlannedCell], cluster: HostFaultCluster) -> str:
    """Links that may be broken, whoever leads, and that no proxy of a fault host carries as the faults need it. Empty
    if nothing is missing."""
    scenarios: dict[str, dict[str, None]] = {}  # The key is the problem, the value who needs it.
    for cell in cells:
        scenario = load_scenario(cell.scenario_reference)
        for fault, target in scenario.link_faults():
            for problem in _problems_of_fault(fault, target, cluster):
                scenarios.setdefault(problem, {})[scenario.name] = None
        is_unrecorded = cluster.clients_use_hosts and not cluster.requests_are_recorded
        if is_unrecorded and (words := _not_recorded(cell)):
            scenarios.setdefault(words, {})[scenario.name] = None
    return "; ".join(f"{problem} ({', '.join(names)})" for problem, names in scenarios.items())


def _problems_of_fault(fault: str, target: str, cluster: HostFaultCluster) -> list[str]:
    found: dict[str, None] = {}
    permit = FAULTS[fault].host_permit
    for links in _links_meant(fault, target, cluster.broker_ids):
        there = [link for link in links if cluster.clients_use_hosts or not link.startswith(CLIENT)]
        for link in there:
            proxy = cluster.link_proxies().proxy_of(link)
            if proxy is None:
                found[f"no fault host has a proxy for {link}"] = None
            elif permit is None:
                found[f"proxies of fault hosts cannot do {fault}, on {link}"] = None
            elif permit.word not in proxy.allow:
                found[f"fault host {proxy.host} does not list {permit.word} for proxy {proxy.name}, {link}"] = None
        try:
            check_joint(there, cluster.link_proxies().joint_links())
        except TargetError as error:
            found[f"{fault} of {target} cannot be told apart: {error}"] = None
    return list(found)


def _links_meant(fault: str, target: str, brokers: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """The links that are meant, once for each broker that may have a role. All brokers are taken to be replicas."""
    others = brokers if "controller" in target or "coordinator" in target else brokers[:1]
    for leader, other in product(brokers, others):
        links = wanted_links(target, _Imagined(broker_ids=tuple(brokers), leads=leader, controls=other), _ANY)
        yield links
        if (permit := FAULTS[fault].host_permit) is not None and permit.acts_on_way_back:
            yield tuple(back for back in map(other_way, links) if back is not None)


def _not_recorded(cell: PlannedCell) -> str:
    """What is predicted from the requests and answers that proxies saw."""
    expect = cell.record.expect
    kinds = {"duplicates": expect.duplicated, "the order": expect.reordered}
    if foretold := [kind for kind, value in kinds.items() if value in _FORETOLD]:
        return f"{' and '.join(foretold)} cannot be predicted, because not all proxies of fault hosts record requests"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Imagined:
    """chaos.ports.brokers.Roles, as they may be when a fault begins."""

    broker_ids: tuple[int, ...]
    leads: int
    controls: int

    def leader(self, topic: str, partition: int) -> int | None:
        return self.leads

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        return (self.leads, *(broker for broker in self.broker_ids if broker != self.leads))

    def controller(self) -> int | None:
        return self.controls

    def group_coordinator(self, group: str) -> int | None:
        return self.controls

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        return self.controls

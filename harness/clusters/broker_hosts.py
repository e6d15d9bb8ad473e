"""Somebody else's cluster whose operator lets us break its brokers: an ExternalCluster that can kill, pause and start.

What is done is done on the brokers' own hosts, by `harness worker … --allow-faults` there. This class knows what
this run has paused or ended, and mends nothing else. Shown by tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from chaos.process_identity import ProcessIdentity
from harness.clusters.base import Address, ClusterState
from harness.clusters.capabilities import ignore_process_event
from harness.clusters.external import PROBE_TIMEOUT_S, ExternalCluster, parse_bootstrap
from harness.clusters.hosts.host_answers import BrokerHosts, HostAnswer, HostFaultError
from harness.clusters.hosts.host_exits import HostExits
from harness.clusters.hosts.host_links import CLIENT, HostProxy, LinkDoors, recorders
from harness.clusters.hosts.host_requests import RequestGathering
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.observer import Observer
from harness.clusters.requests.probe import first_answer, newest_controller
from harness.clusters.security import Security
from harness.errors import EnvironmentFault, HarnessError
from runlog.files.clock import RunClock

TIMES_MAX: Final = 1_000  # They are times of actions that no line of the run has told yet.


class HostFaultCluster(ExternalCluster):
    """Thread-safe as far as the timeline, which breaks and mends, is one thread.

    With `clients_elsewhere` clients on other machines do not reach proxies of ours on loopback. Then clients use the
    addresses that the brokers advertise, if proxies of fault hosts stand before all of them. The harness's own requests
    then use them too, and a cut of clients' links cuts them off as well, unless there are
    `direct_bootstrap_servers`: of a listener that leads through no proxy."""

    def __init__(
        self,
        bootstrap_servers: str,
        hosts: BrokerHosts,
        *,
        security: Security | None,
        proxies: LinkProxies | None,
        clients_elsewhere: bool = False,
        direct_bootstrap_servers: str | None = None,
    ) -> None:
        super().__init__(bootstrap_servers, security=security, proxies=proxies)
        self._direct = self._bootstrap
        if direct_bootstrap_servers is not None:
            parsed = parse_bootstrap(direct_bootstrap_servers, option="--direct-bootstrap-server")
            self._direct = tuple(replace(address, security=security) for address in parsed)
        self._hosts = hosts
        self._has_links, self._clients_elsewhere = proxies is not None, clients_elsewhere
        self._doors: LinkDoors | None = None
        self._down: frozenset[int] = frozenset()
        self._paused: frozenset[int] = frozenset()
        self._times: list[dict[str, object]] = []
        self._exits = HostExits(self.identity)
        self.on_process_event: Callable[[str, int], None] = ignore_process_event

    def start(self) -> None:
        """Also ask the direct way, if there is one. EnvironmentFault if it leads to other brokers."""
        super().start()
        if self._direct is self._bootstrap:
            return
        found = first_answer(self._direct, lambda probe: probe.broker_addresses() or None, timeout_s=PROBE_TIMEOUT_S)
        if found is None or found.keys() != self._brokers.keys():
            there = "nobody answers" if found is None else f"brokers are {sorted(found)}"
            raise EnvironmentFault(
                f"--direct-bootstrap-server {self.direct_bootstrap_servers}: {there}, and at {self.bootstrap_servers} "
                f"they are {sorted(self._brokers)}"
            )
        self._brokers = found  # that of clients and of proxies is known by now

    @property
    def direct_bootstrap_servers(self) -> str:
        return ",".join(str(address) for address in self._direct)

    # --- its links ---------------------------------------------------------------------------------------------------

    @property
    def proxied(self) -> bool:
        return self._has_links

    @property
    def path_description(self) -> str:
        there = sorted({proxy.server for proxy in self._hosts.proxies()}) if self._has_links else []
        return super().path_description + "".join(f", {server} of fault hosts" for server in there)

    def _choose_proxies(self) -> None:
        links = {link for proxy in self._hosts.proxies() for link in proxy.links}
        if self._clients_elsewhere and all(f"{CLIENT}{broker}" in links for broker in self._brokers):
            self.proxies = None
        if self._has_links:
            self._doors = LinkDoors(self._act_on_proxy, self._hosts.proxies(), self.proxies)

    @property
    def clients_use_hosts(self) -> bool:
        """Nothing of ours stands before the brokers."""
        return self._has_links and self.proxies is None

    @property
    def requests_are_recorded(self) -> bool:
        """Where clients use proxies of fault hosts: all of these record what the brokers answered."""
        return self.clients_use_hosts and bool(self._recorders())

    def request_gathering(self, clock: RunClock) -> RequestGathering | None:
        """None: nobody there records requests."""
        recorders = self._recorders() if self.clients_use_hosts else {}
        return RequestGathering(self._hosts, recorders, clock) if recorders else None

    def _recorders(self) -> Mapping[str, Mapping[str, str]]:
        return recorders(self._hosts.proxies(), self.broker_ids)

    def link_proxies(self) -> LinkDoors:
        assert self._doors is not None, "an unproxied cluster has no links"
        return self._doors

    def _act_on_proxy(
        self,
        action: str,
        proxy: HostProxy,
        toxic: Mapping[str, object] | None,
        probe: Mapping[str, object] | None,
    ) -> HostAnswer:
        answer = self._hosts.act_on_proxy(action, proxy, toxic, probe)
        if action not in ("proxy_state", "probe"):
            self._note_times(answer.times(action, {"proxy": proxy.name}))
        return answer

    # --- breaking and mending ---------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        self._end("kill", "killed", broker_id)

    def terminate(self, broker_id: int) -> None:
        self._end("terminate", "stopped", broker_id)

    def _end(self, action: str, event: str, broker_id: int) -> None:
        self._down |= {broker_id}  # also if nobody knows: then it is mended too
        self._exits.ends_by_us(broker_id)
        try:
            self._act(action, broker_id)
        except HostFaultError as error:
            if error.is_certain:
                self._down -= {broker_id}
            raise
        self._paused -= {broker_id}
        self.on_process_event(event, broker_id)

    def pause(self, broker_id: int) -> None:
        self._paused |= {broker_id}
        try:
            self._act("pause", broker_id)
        except HostFaultError as error:
            if error.is_certain:
                self._paused -= {broker_id}
            raise
        self.on_process_event("paused", broker_id)

    def resume(self, broker_id: int) -> None:
        """HostFaultError also if the host has resumed it by itself before: then the fault was not what it should be. If
        nobody knows whether it was done, it is asked for again the next time."""
        if broker_id not in self._paused:
            return
        try:
            self._act("resume", broker_id)
        except HostFaultError as error:
            if error.is_certain:
                self._paused -= {broker_id}
            raise
        self._paused -= {broker_id}
        self.on_process_event("resumed", broker_id)

    def restart(self, broker_id: int) -> None:
        """Start a broker that we have ended. Does not wait for it to answer. If nobody knows whether it was done, it is
        asked for again the next time: until then it is down by us, and its end is none of its own."""
        if broker_id not in self._down:
            return
        try:
            self._act("start", broker_id)
        except HostFaultError as error:
            if error.is_certain:
                self._down -= {broker_id}
            raise
        self._down -= {broker_id}
        self.on_process_event("started", broker_id)

    def _act(self, action: str, broker_id: int) -> HostAnswer:
        answer = self._hosts.act(action, broker_id)
        self._note_times(answer.times(action, {"broker": broker_id}))
        return answer

    def _note_times(self, times: dict[str, object]) -> None:
        if len(self._times) < TIMES_MAX:
            self._times.append(times)

    def take_times(self) -> list[dict[str, object]]:
        """When what was done since the last call took effect."""
        taken, self._times = self._times, []
        return taken

    def ensure_all_running(self) -> None:
        """Mends what we have broken. What somebody else has broken stays. If a host cannot be reached, it heals by
        itself; whether the cluster is well, whoever calls this asks next."""
        for broker in sorted(self._paused):
            with suppress(HarnessError):
                self.resume(broker)
        for broker in sorted(self._down):
            with suppress(HarnessError):
                self.restart(broker)

    def stop(self) -> None:
        try:
            self.ensure_all_running()
        finally:
            super().stop()

    # --- looking ----------------------------------------------------------------------------------------------------

    def is_running(self, broker_id: int) -> bool:
        """HostFaultError if a broker that we have ended runs again, or if its host does not answer."""
        if broker_id not in self._brokers:
            return False
        is_there = self._hosts.act("look", broker_id).running is not None
        if is_there and broker_id in self._down:
            # Its host has started it by itself. It says why when it is asked to start it: the fault was cut short.
            self.restart(broker_id)
        return is_there

    def identity(self, broker_id: int) -> ProcessIdentity | None:
        return self._hosts.act("look", broker_id).running

    def state_of(self, broker_id: int, identity: ProcessIdentity) -> str | None:
        """The letter of /proc there; None if it is gone, or if that host has not told us of such a process."""
        return self._hosts.act("look", broker_id).states.get(identity) or None

    def dead_epochs(self, broker_id: int, topic: str, partitions: int) -> Mapping[int, Sequence[tuple[int, int, int]]]:
        """What the log of a broker that is down holds: (leader epoch, start offset, end offset), by partition."""
        return self._hosts.act("logs", broker_id, topic=topic, partitions=partitions).epochs

    def _askable(self) -> list[int]:
        return [broker for broker in self._brokers if broker not in self._paused | self._down]

    def direct_addresses(self) -> Sequence[Address]:
        return tuple(self._brokers[broker] for broker in self._askable()) or self._direct

    def observer(self, topic: str) -> Observer:
        return Observer(topic, self.broker_addresses(), self._askable)

    def state(self, topic: str | None) -> ClusterState | None:
        """Preferably of a broker that knows the newest leader epochs."""
        best: ClusterState | None = None
        for broker in self._askable():
            answer = self._state_seen_by(broker, topic)
            if answer is not None and (best is None or _newest_epoch(answer) > _newest_epoch(best)):
                best = answer
        return best

    def _state_seen_by(self, broker_id: int, topic: str | None) -> ClusterState | None:
        with self.probe(broker_id) as probe:
            return probe.metadata(topic)

    def wait_healthy(self, topic: str | None, *, timeout_s: float, replication_factor: int = 3) -> bool:
        """True once every broker agrees: all brokers there, each partition led and fully in sync."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            states = [self._state_seen_by(broker, topic) for broker in self._brokers]
            if all(state is not None and state.is_healthy(len(self._brokers), replication_factor) for state in states):
                return True
            time.sleep(0.2)
        return False

    def controller(self) -> int | None:
        return newest_controller(self._askable(), self.probe)

    # --- capabilities.Processes -------------------------------------------------------------------------------------

    def exits(self) -> Mapping[int, tuple[int, int | None]]:
        """Without codes: no worker is the parent of a broker."""
        return self._exits.look(self._askable())

    def end_offset(self, topic: str, partition: int) -> tuple[int, int] | None:
        leader = self.leader(topic, partition)
        if leader is None or leader not in self._brokers:
            return None
        with self.probe(leader) as probe:
            offset = probe.end_offset(topic, partition)
        return None if offset is None else (leader, offset)

    def describe(self) -> str:
        lines = []
        for broker in self._brokers:
            state = self._state_seen_by(broker, None)
            seen = "does not answer Metadata" if state is None else f"sees brokers {list(state.brokers)}"
            lines.append(f"broker {broker} on fault host {self._hosts.host_of(broker)} {seen}")
        return "\n".join(lines)


def _newest_epoch(state: ClusterState) -> int:
    return max((partition.leader_epoch for partition in state.partitions.values()), default=-1)

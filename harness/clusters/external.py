"""An external cluster, reached only by bootstrap addresses. The harness starts and stops nothing of it.

It can still be tried under faults. With `proxied` every broker gets one of our proxies on loopback. The brokers'
addresses in responses are replaced by those of the proxies, so that clients stay behind the proxies. SASL passes
through; TLS ends at the proxies. The harness's own requests (topics, the final read) do not use the proxies. Shown by
tests/harness/test_harness_external.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.door.addresses import AddressError, parse_address
from chaos.ports.links import Links
from harness.clusters.base import UNKNOWN_STATE, Address, BrokerId, ClusterState, Engine, Link
from harness.clusters.layout_reference import HOST
from harness.clusters.ports import PortAllocator
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.observer import Observer
from harness.clusters.requests.probe import BrokerProbe, Found, first_answer
from harness.clusters.security import Security
from harness.errors import EnvironmentFault, UsageError

PROBE_TIMEOUT_S: Final = 3.0
READ_TIMEOUT_S: Final = 5.0


def parse_bootstrap(text: str, *, option: str = "--bootstrap-server") -> tuple[Address, ...]:
    """`host:port,host:port`. UsageError names the part that is wrong."""
    addresses = []
    for part in text.split(","):
        try:
            host, port = parse_address(part)
        except AddressError as error:
            raise UsageError(f"{option}: {error}") from error
        if not host:
            raise UsageError(f"{option}: expected host:port, got {part.strip()!r}")
        addresses.append(Address(host=host, port=port))
    return tuple(addresses)


class ExternalCluster:
    """The plan refuses faults on its processes, and on the links between its brokers, before this class is asked."""

    def __init__(
        self, bootstrap_servers: str, *, security: Security | None = None, proxies: LinkProxies | None = None
    ) -> None:
        self._bootstrap = tuple(replace(address, security=security) for address in parse_bootstrap(bootstrap_servers))
        self._security, self.proxies = security, proxies
        self._brokers: dict[int, Address] = {}
        self._links: tuple[Link, ...] = ()

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        return "external"

    @property
    def version(self) -> str:
        return "external"

    @property
    def proxied(self) -> bool:
        return self.proxies is not None

    @property
    def path_description(self) -> str:
        return "network" if self.proxies is None else f"network, {self.proxies.description}"

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(self._brokers))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients. They are those of the proxies, if there are proxies."""
        addresses = [link.listen for link in self._links] or self._bootstrap
        return ",".join(str(address) for address in addresses)

    @property
    def direct_bootstrap_servers(self) -> str:
        return ",".join(str(address) for address in self._bootstrap)

    @property
    def outlives_run(self) -> bool:
        return True

    @property
    def client_properties(self) -> Mapping[str, str]:
        """The security settings that a client needs. TLS is left out if the proxies terminate it."""
        if self._security is None:
            return {}
        return self._security.properties if self.proxies is None else self._security.behind_proxies()

    # --- as a whole -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Ask for its brokers, and put a proxy in front of each. EnvironmentFault if nobody answers."""
        found = first_answer(self._bootstrap, lambda probe: probe.broker_addresses() or None, timeout_s=PROBE_TIMEOUT_S)
        self._brokers = found or {}
        if not self._brokers:
            where = ",".join(map(str, self._bootstrap))
            raise EnvironmentFault(
                f"no broker answers at {where}: check the addresses and, if the cluster asks for TLS or SASL, give "
                "--client-config FILE"
            )
        self._choose_proxies()
        if self.proxies is not None:
            self._links = self._made_links()
            self.proxies.open(self._links)

    def _choose_proxies(self) -> None:
        """Now that the brokers are known."""

    def _made_links(self) -> tuple[Link, ...]:
        ports = PortAllocator()
        listens = {broker: Address(host=HOST, port=ports.take()) for broker in self._brokers}
        shown = {str(address): str(listens[broker]) for broker, address in self._brokers.items()}
        tls = None if self._security is None else self._security.proxy_tls()
        # Probes check no certificate, so they do not get a password that is not ours.
        probes = None if self._security is None else replace(self._security, credentials=None)
        return tuple(
            Link(
                kind="client", source=None, target=BrokerId(broker), listen=listens[broker], upstream=address,
                shown_addresses=shown, upstream_tls=tls, probes=probes,
            )
            for broker, address in sorted(self._brokers.items())
        )  # fmt: skip

    def stop(self) -> None:
        """Stops only the proxies, because the cluster is not ours."""
        if self.proxies is not None:
            self.proxies.close()

    def broken_proxies(self) -> str:
        return "" if self.proxies is None else self.proxies.problem()

    def ensure_all_running(self) -> None:
        """Does nothing, because the cluster is not ours."""

    # --- asking -----------------------------------------------------------------------------------------------------

    def state(self, topic: str | None) -> ClusterState | None:
        return self._first_answer(lambda probe: probe.metadata(topic))

    def wait_healthy(self, topic: str | None, *, timeout_s: float, replication_factor: int = 3) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = self.state(topic)
            if state is not None and state.is_healthy(len(self._brokers), replication_factor):
                return True
            time.sleep(0.2)
        return False

    def observer(self, topic: str) -> Observer:
        return Observer(topic, self.broker_addresses(), lambda: self.broker_ids)

    def broker_addresses(self) -> Mapping[int, Address]:
        return dict(self._brokers)

    def direct_addresses(self) -> Sequence[Address]:
        return tuple(self._brokers.values()) or self._bootstrap

    def wire_log_path(self) -> Path | None:
        return None if self.proxies is None else self.proxies.wire_log_path

    def wire_log_problem(self) -> str:
        return "" if self.proxies is None else self.proxies.wire_log_problem()

    def probe(self, broker_id: int) -> BrokerProbe:
        return BrokerProbe(self._brokers[broker_id], timeout_s=READ_TIMEOUT_S)

    def probe_of_leader(self, topic: str, partition: int) -> BrokerProbe | None:
        leader = self.leader(topic, partition)
        return None if leader not in self._brokers else self.probe(leader)

    def leader(self, topic: str, partition: int) -> int | None:
        return (self.state(topic) or UNKNOWN_STATE).leader_of(partition)

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return (self.state(topic) or UNKNOWN_STATE).isr_of(partition)

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        return (self.state(topic) or UNKNOWN_STATE).replicas_of(partition)

    def controller(self) -> int | None:
        """The controller that Metadata names. In KRaft this is just some broker."""
        state = self.state(None)
        return None if state is None or state.controller < 0 else state.controller

    def group_coordinator(self, group: str) -> int | None:
        return self._first_answer(lambda probe: probe.group_coordinator(group))

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        return self._first_answer(lambda probe: probe.transaction_coordinator(transactional_id))

    def _first_answer(self, ask: Callable[[BrokerProbe], Found | None]) -> Found | None:
        return first_answer(self.direct_addresses(), ask, timeout_s=PROBE_TIMEOUT_S)

    # --- what faults ask: its links are ours, its processes are not -------------------------------------------------

    def link_proxies(self) -> Links:
        assert self.proxies is not None, "an unproxied cluster has no links"
        return self.proxies

    def is_running(self, broker_id: int) -> bool:
        return broker_id in self._brokers

    def pids(self) -> Mapping[int, int]:
        return {}

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        return None

    def journal_paths(self) -> Mapping[int, Path]:
        return {}

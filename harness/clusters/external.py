"""Somebody else's cluster: reached by bootstrap addresses alone. Nothing of it is started, stopped or broken here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.clusters.base import Address, ClusterState, Engine
from harness.clusters.metadata import BrokerProbe
from harness.clusters.observer import Observer
from harness.errors import EnvironmentFault, UsageError


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port,host:port`. UsageError names the part that is wrong."""
    addresses = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"--bootstrap-server: expected host:port, got {part.strip()!r}")
        addresses.append(Address(host=host, port=int(port)))
    return tuple(addresses)


class ExternalCluster:
    """Bootstrap only. Faults on its processes or links are refused by the plan, before it is asked."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._addresses = parse_bootstrap(bootstrap_servers)
        self._broker_ids: tuple[int, ...] = ()

    @property
    def engine(self) -> Engine:
        return "external"

    @property
    def version(self) -> str:
        return "external"

    @property
    def proxied(self) -> bool:
        return False

    @property
    def path_description(self) -> str:
        return "network"

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return self._broker_ids

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(address) for address in self._addresses)

    @property
    def direct_bootstrap_servers(self) -> str:
        return self.bootstrap_servers

    def start(self) -> None:
        state = self.state(None)
        if state is None:
            raise EnvironmentFault(f"no broker answers at {self.bootstrap_servers}")
        self._broker_ids = state.brokers

    def stop(self) -> None:
        """Not ours to stop."""

    def state(self, topic: str | None) -> ClusterState | None:
        for address in self._addresses:
            probe = BrokerProbe(address, timeout_s=3.0)
            try:
                state = probe.metadata(topic)
            finally:
                probe.close()
            if state is not None:
                return state
        return None

    def wait_healthy(self, topic: str | None, *, timeout_s: float, replication_factor: int = 3) -> bool:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            state = self.state(topic)
            if state is not None and state.is_healthy(len(self._broker_ids), replication_factor):
                return True
            time.sleep(0.2)
        return False

    def observer(self, topic: str) -> Observer:
        return Observer(topic, self.broker_addresses(), lambda: range(len(self._addresses)))

    def broker_addresses(self) -> Mapping[int, Address]:
        """By position: which id a bootstrap address has is not known beforehand."""
        return dict(enumerate(self._addresses))

    def direct_addresses(self) -> Sequence[Address]:
        return self._addresses

    def wire_log_path(self) -> Path | None:
        return None

    def probe_of_leader(self, topic: str, partition: int) -> BrokerProbe | None:
        for address in self._addresses:
            probe = BrokerProbe(address, timeout_s=3.0)
            found = probe.leader_address(topic, partition)
            probe.close()
            if found is not None:
                return BrokerProbe(found, timeout_s=5.0)
        return None

    def pids(self) -> Mapping[int, int]:
        return {}

    def ensure_all_running(self) -> None:
        """Not ours to start."""

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        return None

    def journal_paths(self) -> Mapping[int, Path]:
        return {}

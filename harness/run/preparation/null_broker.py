"""A reference broker that stores nothing (`harness.discard=true`): what a load generator is measured against.

It checks and acknowledges Produce, so a client does all of its work. Without disk, replica and reader nothing slows it.
Owns that broker and its CPU time. Shown by tests/harness/test_harness_certify.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from chaos.lease import Lease
from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.process_cluster import ProcessCluster, never_stop
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import CellError, EnvironmentFault

TOPIC_TIMEOUT_S: Final = 30.0


class NullBroker:
    """A context manager; the broker is gone when the block ends."""

    def __init__(
        self, directory: Path, *, lease: Lease | None = None, should_stop: Callable[[], bool] = never_stop
    ) -> None:
        key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=(("harness.discard", "true"),))
        self._cluster: ProcessCluster = build_cluster(
            key, directory, proxy_choice="none", lease=lease, seed=0, should_stop=should_stop
        )
        self._topics = OwnTopics(Admin(self._cluster.direct_addresses, should_stop=should_stop))

    def __enter__(self) -> NullBroker:
        try:
            self._cluster.start()
        except BaseException:
            self._cluster.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.stop()
        self._cluster.remove_data()

    @property
    def bootstrap_servers(self) -> str:
        return self._cluster.bootstrap_servers

    def create_topic(self, name: str, partitions: int) -> None:
        self._topics.create(name, partitions=partitions, replication_factor=1, config={})
        if not self._cluster.wait_healthy(name, timeout_s=TOPIC_TIMEOUT_S, replication_factor=1):
            raise EnvironmentFault(f"topic {name} has no leader after {TOPIC_TIMEOUT_S:.0f} s")

    def delete_topic(self, name: str) -> None:
        with contextlib.suppress(CellError):  # it goes with the broker
            self._topics.delete(name)

    def cpu_s(self) -> float:
        """User and system time of the broker so far, in ticks of the kernel."""
        ticks = 0
        for pid in self._cluster.pids().values():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

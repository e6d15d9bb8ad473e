"""The cluster that a run's cells share. At most one runs at a time; it is kept while the cells ask for the same."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from chaos.ports.brokers import Versions
from harness.clusters.base import ClusterKey
from harness.clusters.capabilities import LogFiles
from harness.clusters.cluster import Cluster
from harness.clusters.factory import build_cluster, external_cluster
from harness.clusters.hosts.host_answers import BrokerHosts
from harness.errors import EnvironmentFault
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.generator.standby_processes import StandbyLoads
from harness.run.preparation.warm_up import plan_of as warm_up_plan
from harness.run.preparation.warm_up import rounds_before, warm_up
from harness.run.request import RunRequest
from harness.run.time_left import WARMED_ENGINES, TimeLeft, key_of
from runlog.files.redaction import secrets_in

PORT_ATTEMPTS: Final = 3


class CurrentCluster:
    """`on_warmed` gets a line about each warm-up, for the manifest."""

    def __init__(
        self,
        request: RunRequest,
        context: RunContext,
        *,
        loads: StandbyLoads,
        time_left: TimeLeft,
        on_warmed: Callable[[str], None],
    ) -> None:
        self._request, self._context = request, context
        self._loads, self._time_left, self._on_warmed = loads, time_left, on_warmed
        self._cluster: Cluster | None = None
        self.key: ClusterKey | None = None  # It is that of the cluster that runs.
        self._number = 0
        self.fault_hosts: BrokerHosts | None = None  # may break an external cluster's brokers

    def of(self, planned: PlannedCell) -> Cluster:
        """The running cluster if it fits the cell, else a new one, warmed up where it is on a JVM."""
        key = self._key_of(planned)
        if self._cluster is not None and key == self.key and not _is_changed(self._cluster):
            return self._cluster
        self.drop()
        sweep = self._request.suite.sweep
        of_forks = f" (fork {key.fork} of {sweep.forks})" if sweep is not None and planned.is_of_sweep else ""
        self._context.progress.phase(f"cluster{of_forks}")
        began_s = time.monotonic()
        cluster = self._start(key)
        up_s = time.monotonic()
        is_warmed = cluster.engine in WARMED_ENGINES
        if is_warmed:
            self._warm_up(cluster, planned, of_forks)
        warm_up_s = time.monotonic() - up_s if is_warmed else None
        self._time_left.took(planned, start_s=up_s - began_s, warm_up_s=warm_up_s)
        return cluster

    def drop(self) -> None:
        """Stop it, and remove its data if they are ours. The next cell begins on a new one."""
        cluster, self._cluster, self.key = self._cluster, None, None
        if cluster is not None:
            cluster.stop()
            if isinstance(cluster, LogFiles):
                cluster.remove_data()

    def _start(self, key: ClusterKey) -> Cluster:
        """Start it. If somebody took a port between its choice and its use, ports are chosen again."""
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._number += 1
            directory = self._context.run_dir / "clusters" / str(self._number)
            if key.engine == "external":
                cluster: Cluster = external_cluster(
                    self._request.bootstrap_servers,
                    self._request.client_config,
                    directory,
                    proxied=key.proxied,
                    proxy_choice=self._request.proxy_choice,
                    lease=self._context.lease,
                    seed=self._request.seed,
                    hosts=self.fault_hosts,
                    clients_elsewhere=self._request.load_hosts is not None,
                    direct_bootstrap_servers=self._request.direct_bootstrap_servers,
                )
            else:
                cluster = build_cluster(
                    key,
                    directory,
                    proxy_choice=self._request.proxy_choice,
                    lease=self._context.lease,
                    seed=self._request.seed,
                    should_stop=self._context.stop.is_set,
                )
            self._cluster, self.key = cluster, key
            self._context.redactor.learn(secrets_in([dict(cluster.client_properties)]))
            try:
                cluster.start()
                return cluster
            except EnvironmentFault as error:
                if attempt == PORT_ATTEMPTS or "address already in use" not in str(error).lower():
                    raise
                self.drop()
        raise AssertionError("the last attempt returns or raises")

    def _warm_up(self, cluster: Cluster, planned: PlannedCell, of_forks: str) -> None:
        self._context.progress.phase(f"cluster warm-up{of_forks}")
        warmed = warm_up(
            cluster,
            warm_up_plan(planned, self._context, cluster),
            self._loads.take_and_refill,
            rounds=rounds_before(planned),
            longest_s=self._request.suite.cluster.warm_up_ms_max / 1000,
            replication_factor=planned.replication_factor,
            should_stop=self._context.stop.is_set,
        )
        self._on_warmed(f"{of_forks.strip(' ()')}: {warmed.line}" if of_forks else warmed.line)
        if warmed.problem:
            problem = f"warm-up{of_forks} ended early, the first cells may look slow: {warmed.problem}"
            self._context.progress.say(problem)

    def _key_of(self, planned: PlannedCell) -> ClusterKey:
        return key_of(
            planned,
            engine=self._request.engine,
            brokers=self._request.suite.cluster.brokers,
            host=self._request.suite.cluster.host,
        )


def _is_changed(cluster: Cluster) -> bool:
    return isinstance(cluster, Versions) and cluster.is_changed

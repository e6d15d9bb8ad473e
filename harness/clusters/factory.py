"""Makes a cluster that can be started from a key. This is the only place that knows all engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.interposer import build
from chaos.lease import Lease
from harness.clusters.base import ClusterKey, ClusterLayout, NodeLayout
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.external import ExternalCluster
from harness.clusters.hosts.host_answers import BrokerHosts
from harness.clusters.kafka.jars import cache_directory, ensure_jars, java_command
from harness.clusters.kafka.layout import as_release, kafka_layout
from harness.clusters.layout_reference import reference_layout
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster, never_stop
from harness.clusters.proxies import LinkProxies
from harness.clusters.secured.access import MadeUpAccess, check_security
from harness.clusters.security import read_security
from harness.errors import EnvironmentFault, UsageError
from harness.kafka_releases import Release, parse_releases


def build_cluster(
    key: ClusterKey,
    directory: Path,
    *,
    proxy_choice: str,
    lease: Lease | None,
    seed: int,
    outlive_parent: bool = False,
    should_stop: Callable[[], bool] = never_stop,
) -> ProcessCluster:
    """A cluster that is not started yet. Raises EnvironmentFault if Java, jars or ports are missing."""
    ports = PortAllocator(key.host)
    proxies = (
        LinkProxies(
            proxy_choice,
            directory=directory / "proxies",
            lease=lease,
            seed=seed,
            ports=ports,
            # There is no journal, so the wire log tells which broker answered for which records.
            logs_all_produce=key.engine == "kafka",
        )
        if key.proxied
        else None
    )
    if key.engine == "docker":
        if outlive_parent:
            raise UsageError("a Docker cluster that stays up is `docker compose up` (docker-compose.yml)")
        # Takes a quarter second, which other engines need not spend.
        from harness.clusters.docker.cluster import build_docker_cluster

        return build_docker_cluster(key, directory, proxies, ports, should_stop)
    check_security(key.security, key.engine)
    layout = build_layout(key, directory, ports)
    access = MadeUpAccess(directory, key.security) if key.security.is_secured else None
    return ProcessCluster(
        layout if access is None else access.applied(layout),
        proxies=proxies,
        outlive_parent=outlive_parent,
        lease=lease,
        should_stop=should_stop,
        access=access,
        as_release=_as_release,
    )


def _as_release(node: NodeLayout, release: Release) -> NodeLayout:
    return as_release(node, release, ensure_jars(release))


def build_layout(key: ClusterKey, directory: Path, ports: PortAllocator) -> ClusterLayout:
    settings = dict(key.settings)
    if key.engine == "reference":
        return reference_layout(
            directory,
            brokers=key.brokers,
            log_directories=key.log_directories,
            racks=key.racks,
            settings=settings,
            proxied=key.proxied,
            journal_appends=key.journal_appends,
            ports=ports,
            cluster_id=new_cluster_id(),
            host_of=lambda _broker: key.host,
            link_host_of=lambda _kind, _target: key.host,
        )
    if key.engine == "kafka":
        releases = parse_releases(key.releases)
        return kafka_layout(
            directory,
            brokers=key.brokers,
            log_directories=key.log_directories,
            racks=key.racks,
            settings=settings,
            proxied=key.proxied,
            java=java_command(),
            jars={release: ensure_jars(release) for release in dict.fromkeys(releases)},
            releases=releases,
            ports=ports,
            cluster_id=new_cluster_id(),
            interposer=_interposer() if key.interposed else None,
        )
    raise UsageError("an external cluster is not built here")


def _interposer() -> Path:
    try:
        return build.library(cache_directory() / "interposer")
    except build.CannotBuild as error:
        raise EnvironmentFault(str(error)) from error


def external_cluster(
    bootstrap_servers: str | None,
    client_config: Path | None,
    directory: Path,
    *,
    proxied: bool,
    proxy_choice: str,
    lease: Lease | None,
    seed: int,
    hosts: BrokerHosts | None = None,
    clients_elsewhere: bool = False,
    direct_bootstrap_servers: str | None = None,
) -> ExternalCluster:
    """An external cluster, not connected yet. UsageError if the client configuration cannot be read.

    With `hosts` its brokers can be paused and ended, and links cut whose proxies are there. Then the harness's own
    requests may have `direct_bootstrap_servers`. `directory` gets converted certificates and the proxies' logs.
    """
    if not bootstrap_servers:
        raise UsageError("--cluster external needs --bootstrap-server host:port")
    proxies = (
        LinkProxies(
            proxy_choice,
            directory=directory / "proxies",
            lease=lease,
            seed=seed,
            ports=PortAllocator(),
            logs_all_produce=True,  # no journal here either
        )
        if proxied
        else None
    )
    security = None if client_config is None else read_security(client_config, directory)
    if hosts is not None:
        return HostFaultCluster(
            bootstrap_servers,
            hosts,
            security=security,
            proxies=proxies,
            clients_elsewhere=clients_elsewhere,
            direct_bootstrap_servers=direct_bootstrap_servers,
        )
    return ExternalCluster(bootstrap_servers, security=security, proxies=proxies)

"""Clusters are ports of chaos themselves: which cluster can do what, and what is said where nobody can."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.door.clients import Producer
from chaos.ports.brokers import BrokerFiles, BrokerProcesses, Containers, HostProcesses
from chaos.ports.cluster import NotOurs
from chaos.ports.security import Secured
from harness.clusters.base import ClusterKey
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.factory import build_cluster
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.admin import Admin
from tests.harness.no_load import port_of
from tests.patience import wait_until


@pytest.mark.parametrize(
    ("cluster", "ports"),
    [
        (ProcessCluster, {BrokerProcesses, BrokerFiles, Secured}),
        (DockerCluster, {BrokerProcesses, BrokerFiles, Secured, Containers}),
        (ExternalCluster, set()),
        (HostFaultCluster, {BrokerProcesses, HostProcesses}),
    ],
)
def test_a_cluster_has_the_ports_that_it_can_serve(cluster: type, ports: set[type]) -> None:
    known = (BrokerProcesses, BrokerFiles, Secured, Containers, HostProcesses)
    assert {port for port in known if issubclass(cluster, port)} == ports


def test_what_nobody_can_do_to_a_cluster_of_others_is_said(tmp_path: Path) -> None:
    proxies = LinkProxies("embedded", directory=tmp_path, lease=None, seed=1, ports=PortAllocator())
    port = port_of(ExternalCluster("127.0.0.1:1", proxies=proxies))
    assert port.links is proxies
    for name in ("processes", "files", "versions"):
        with pytest.raises(NotOurs, match=r"nobody here can .*: the harness did not start this cluster"):
            getattr(port, name)


@pytest.mark.slow
def test_the_high_watermark_lags_by_what_a_paused_follower_has_not_read(tmp_path: Path) -> None:
    """One of two voters stands still, so that no controller can take the follower out of the ISR."""
    key = ClusterKey(engine="reference", proxied=True, brokers=2, settings=())
    cluster = build_cluster(key, tmp_path, proxy_choice="embedded", lease=None, seed=0)
    try:
        cluster.start()
        Admin(cluster.direct_addresses).create_topic("t", partitions=1, replication_factor=2, config={})
        port = port_of(cluster)
        wait_until(lambda: set(port.brokers.isr("t", 0)) == {1, 2}, "both replicas are in sync")
        leader = port.brokers.leader("t", 0)
        assert leader is not None
        assert port.files.high_watermark_lag("t", 0) == 0
        port.processes.pause(3 - leader)
        running = str(cluster.broker_addresses()[leader])  # a client that asks the other first waits for ten seconds
        with Producer({"bootstrap.servers": running, "acks": "1"}) as producer:
            for _ in range(3):
                producer.send("t", b"v").get(60)
        assert port.files.high_watermark_lag("t", 0) == 3
        port.processes.resume(3 - leader)
        wait_until(lambda: port.files.high_watermark_lag("t", 0) == 0, "the follower has read them")
        assert port.log_directories.failed(leader) == frozenset()
    finally:
        cluster.stop()

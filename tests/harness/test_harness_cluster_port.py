"""Clusters are ports of chaos themselves: which cluster can do what, and what is said where nobody can."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.ports.brokers import BrokerFiles, BrokerProcesses, Containers, HostProcesses
from chaos.ports.cluster import NotOurs
from chaos.ports.security import Secured
from harness.clusters.broker_hosts import HostFaultCluster
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.external import ExternalCluster
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.proxies import LinkProxies
from tests.harness.no_load import port_of


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

"""Every connection between Apache Kafka nodes goes through the proxy of its link, also after an election."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from harness.clusters.base import ClusterKey
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import ensure_jars
from harness.clusters.process_cluster import ProcessCluster
from harness.errors import EnvironmentFault

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def past_the_proxies(pids: Mapping[int, int]) -> list[str]:
    """Connections from one node's process to another node's own listener."""
    listening = {
        (socket.laddr.ip, socket.laddr.port): broker
        for broker, pid in pids.items()
        for socket in psutil.Process(pid).net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    }
    return [
        f"{broker} -> {listening[socket.raddr.ip, socket.raddr.port]} at {socket.raddr.ip}:{socket.raddr.port}"
        for broker, pid in pids.items()
        for socket in psutil.Process(pid).net_connections("tcp")
        if socket.status == psutil.CONN_ESTABLISHED
        and listening.get((socket.raddr.ip, socket.raddr.port), broker) != broker
    ]


def wait_for_controller(cluster: ProcessCluster, other_than: int | None = None) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        controller = cluster.controller()
        if controller is not None and controller != other_than and controller in cluster.pids():
            return controller
        time.sleep(0.1)
    raise AssertionError(f"no controller other than {other_than} within 60 s")


@pytest.mark.long
def test_no_node_reaches_another_past_its_proxy(tmp_path: Path) -> None:
    """An elected controller tells the others its endpoint (KIP-853): that must lead through the proxies as well."""
    try:
        ensure_jars()
    except EnvironmentFault as error:
        pytest.skip(str(error))
    key = ClusterKey(engine="kafka", proxied=True, brokers=3, settings=())
    cluster = build_cluster(key, tmp_path / "cluster", proxy_choice="embedded", lease=None, seed=1)
    try:
        cluster.start()
        controller = wait_for_controller(cluster)
        for _ in range(2):  # the first election's endpoints are used from the second on
            links = [name for name in cluster.link_proxies().names() if is_between_brokers(name, controller)]
            for name in links:
                client, proxy = cluster.link_proxies().plain(name)
                client.disable(proxy)
            successor = wait_for_controller(cluster, other_than=controller)
            assert past_the_proxies(cluster.pids()) == []
            for name in links:
                client, proxy = cluster.link_proxies().plain(name)
                client.enable(proxy)
            assert cluster.wait_healthy(None, timeout_s=240)
            assert past_the_proxies(cluster.pids()) == []
            controller = successor
    finally:
        cluster.stop()


def is_between_brokers(link: str, broker: int) -> bool:
    """internal-1-2 or controller-1-2, from or to this broker."""
    kind, *ends = link.split("-")
    return kind != "client" and str(broker) in ends

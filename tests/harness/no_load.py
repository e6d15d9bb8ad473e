"""The ports of a cluster that has no load."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.ports.cluster import ClusterPort
from harness.clusters.cluster import Cluster
from harness.clusters.cluster_port import cluster_port
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics


class NoLoad:
    acked = 0

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        raise AssertionError("no power is lost here")


def port_of(cluster: Cluster) -> ClusterPort:
    return cluster_port(cluster, NoLoad(), own_topics=OwnTopics(Admin(cluster.direct_addresses)), clients=None)

"""The ports of a running cluster: which class of the harness is which port of chaos.

Shown by tests/harness/test_harness_cluster_port.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.ports.clients import Clients
from chaos.ports.cluster import ClusterPort, Load
from harness.clusters.base import Address
from harness.clusters.cluster import Cluster
from harness.clusters.requests.features import ClusterFeatures
from harness.clusters.requests.log_directories import BrokerDirectories
from harness.clusters.requests.own_topics import OwnTopics
from harness.clusters.requests.topic_changes import TopicChanges


def cluster_port(cluster: Cluster, load: Load, *, own_topics: OwnTopics, clients: Clients | None) -> ClusterPort:
    """The cluster has started and is `proxied`. `own_topics`: those that the load uses."""

    def addresses() -> Mapping[int, Address]:
        can_be_asked = set(cluster.direct_addresses())
        return {broker: found for broker, found in cluster.broker_addresses().items() if found in can_be_asked}

    topics = TopicChanges(addresses, cluster.probe_of_leader, own_topics)
    return ClusterPort(
        brokers=cluster,
        links=cluster.link_proxies(),
        clients=clients,
        topics=topics,
        log_directories=BrokerDirectories(lambda broker: addresses().get(broker), topics.require_own),
        features=ClusterFeatures(addresses),
        load=load,
        access=next((address.security for address in cluster.broker_addresses().values()), None),
    )

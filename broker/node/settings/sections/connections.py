"""Settings of listeners, of sockets and of requests.

The limits of connections and bytes keep a broker within its memory and its descriptors. More of them serves more
clients at once and needs more of both. Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.node.settings.sections.section import Problem, setting
from broker.node.settings.values import Address, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerSettings:
    listeners: Mapping[str, Address]  # The addresses to bind. The key is the listener's name.
    # The addresses in Metadata. The key is the listener's name. The controllers' listener is not there.
    advertised_listeners: Mapping[str, Address]
    inter_broker_listener_name: str = "INTERNAL"
    controller_listener_names: str = "CONTROLLER"
    listener_security_protocol_map: str = ""  # empty: a listener has the protocol of its name, else PLAINTEXT
    # If it is given, the inter-broker listener is the one with this name.
    security_inter_broker_protocol: str = "PLAINTEXT"

    @property
    def internal_listener(self) -> str:
        return self.inter_broker_listener_name

    @property
    def controller_listener(self) -> str:
        return self.controller_listener_names

    def problem(self) -> Problem | None:
        for name, key in (
            (self.internal_listener, "inter.broker.listener.name"),
            (self.controller_listener, "controller.listener.names"),
        ):
            if name not in self.listeners:
                text = f"{key}: there is no listener {name} in {sorted(self.listeners)}"
                return Problem(keys=(key,), text=text, implied_by="listeners")
        if unknown := set(self.advertised_listeners) - set(self.listeners):
            key = "advertised.listeners"
            return Problem(keys=(key,), text=f"{key}: {sorted(unknown)} not among listeners")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    socket_request_max_bytes: int = 100 << 20  # A larger request closes its connection.
    # Kafka: no limit; many connections could each announce 100 MiB. Below 0: no limit. Requests beyond it wait.
    queued_max_request_bytes: int = setting(1 << 30, whole_number)
    fetch_max_bytes: int = 55 << 20  # in one answer to Fetch or ShareFetch, whatever it asks for
    max_request_partition_size_limit: int = 2_000  # partitions in one answer to DescribeTopicPartitions
    max_incremental_fetch_session_cache_slots: int = 1_000  # Clients beyond it name all partitions in each request.
    socket_listen_backlog_size: int = 512  # Kafka: 50. It counts connections that wait to be accepted.
    max_connections: int = 2_000  # Clients beyond it are refused. Brokers may exceed it.
    max_connections_per_ip: int = 2**31 - 1
    max_connection_creation_rate: int = 2**31 - 1  # per second; the requests of those beyond it wait
    # That rate is measured over `num` windows of `size` seconds. Longer ones allow longer bursts.
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    connections_max_idle_ms: int = 600_000  # Less frees descriptors sooner, but quiet clients connect again.

"""What every cluster engine offers the rest of the harness: names, addresses, links and states.

Pure values, but for the claims of ports that a layout holds; knows no process. Built by layout_reference and by
kafka/layout, carried out by process_cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NewType

from broker.door.addresses import format_address
from harness.cluster_security import PLAINTEXT, ClusterSecurity
from harness.clusters.ports import PortAllocator
from harness.clusters.security import Security
from harness.clusters.storage import BrokerStorage
from harness.kafka_releases import Release

BrokerId = NewType("BrokerId", int)
IPV4_LOOPBACK: Final = "127.0.0.1"
Engine = Literal["reference", "kafka", "docker", "external"]
LinkKind = Literal["client", "internal", "controller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int
    # How the harness' own connections are secured. None: plain text.
    security: Security | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return format_address(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One ordered link: connections that `source` opens to `target` (source None: clients) go through a proxy of
    their own."""

    kind: LinkKind
    source: BrokerId | None
    target: BrokerId
    listen: Address
    upstream: Address
    # Only for client links: of somebody else's cluster, the brokers' addresses that clients shall see; TLS behind the
    # proxy, and before it.
    shown_addresses: Mapping[str, str] = field(default_factory=dict)
    upstream_tls: Mapping[str, object] | None = None
    listen_tls: Mapping[str, object] | None = None
    # Between brokers: TLS passes through the proxy as it is, which ends it nowhere.
    carries_tls: bool = False
    # The identity of a fault's probes on this link. None: plain text, or there are no probes.
    probes: Security | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        if self.source is None:
            return f"client-{self.target}"
        return f"{self.kind}-{self.source}-{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """Everything needed to start one broker again and again. `files` are written once, before the first start."""

    broker_id: BrokerId
    release: Release | None = None  # None: it is a broker of this project, and not Apache Kafka.
    directory: Path
    command: tuple[str, ...]
    prepare_commands: tuple[tuple[str, ...], ...] = ()  # run once before the first start (StorageTool format)
    properties: Mapping[str, str]
    files: Mapping[Path, str]
    storage: BrokerStorage
    stderr_path: Path
    direct: Address  # never behind a proxy
    advertised: Address  # what clients of the cell use; the proxy when the cluster is proxied
    journal_path: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    fault_page: Path | None = None  # chaos.interposer.fault_page: made before the first start


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    engine: Engine
    version: str
    proxied: bool
    nodes: tuple[NodeLayout, ...]
    links: tuple[Link, ...]
    start_timeout_s: float
    client_properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # security settings of clients
    ports: PortAllocator | None = field(default=None, repr=False, compare=False)  # holds the claims of its ports

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        return tuple(node.broker_id for node in self.nodes)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(node.advertised) for node in self.nodes)

    @property
    def direct_bootstrap_servers(self) -> str:
        return ",".join(str(node.direct) for node in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterKey:
    """Cells with equal keys may share one running cluster."""

    engine: Engine
    proxied: bool
    brokers: int
    settings: tuple[tuple[str, str], ...]
    host: str = IPV4_LOOPBACK  # where brokers and proxies listen; only the reference cluster can use another one
    log_directories: int = 1  # Each broker has so many.
    racks: tuple[str, ...] = ()  # The brokers get them in turn.
    releases: tuple[str, ...] = ()  # The brokers get these releases of Apache Kafka in turn; empty: the default.
    journal_appends: bool = False
    security: ClusterSecurity = PLAINTEXT
    interposed: bool = False  # Apache Kafka's processes can be given a wrong clock and a failing disk
    fork: int = 1  # number of the cluster; rounds of a sweep with different numbers must not share a cluster


def rack_of(broker: BrokerId, racks: Sequence[str]) -> dict[str, str]:
    """The setting that puts a broker into its rack: the first broker into the first one, and so on, in turn."""
    return {"broker.rack": racks[(broker - 1) % len(racks)]} if racks else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """One broker's answer to Metadata."""

    brokers: tuple[int, ...]
    controller: int
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)

    def is_healthy(self, broker_count: int, replication_factor: int) -> bool:
        """Every broker is there, every partition has a leader and a full ISR."""
        if len(self.brokers) < broker_count:
            return False
        return all(
            state.leader >= 0 and len(state.isr) == min(replication_factor, len(state.replicas))
            for state in self.partitions.values()
        )

    def newest_leader_epoch(self) -> int:
        return max((partition.leader_epoch for partition in self.partitions.values()), default=-1)

    def leader_of(self, partition: int) -> int | None:
        found = self.partitions.get(partition)
        return None if found is None or found.leader < 0 else found.leader

    def isr_of(self, partition: int) -> tuple[int, ...]:
        found = self.partitions.get(partition)
        return () if found is None else found.isr

    def replicas_of(self, partition: int) -> tuple[int, ...]:
        found = self.partitions.get(partition)
        return () if found is None else found.replicas


UNKNOWN_STATE: Final = ClusterState(brokers=(), controller=-1)  # the state if nobody answered

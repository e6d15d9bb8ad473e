"""Layout of three (or more) combined Apache Kafka nodes without Docker, each ordered link behind an address of its own.

Linux answers on all of 127.0.0.0/8, and a JVM takes a hosts file of its own. So broker j listens on 127.0.0.j, and
broker i sees it at 127.0.i.j, where the proxy of the link i -> j listens. Each broker has a release of its own, and may
get another one on its old data (`as_release`). Pure except for the choice of the ports. Shown by
tests/harness/test_harness_layouts.py and, with real nodes, test_harness_kafka.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from chaos.interposer import fault_page
from harness.clusters.base import Address, BrokerId, ClusterLayout, Link, NodeLayout, rack_of
from harness.clusters.layout_reference import DATA_DIRECTORY, FAULT_PAGE_FILE, render_properties
from harness.clusters.ports import PortAllocator
from harness.clusters.storage import BrokerStorage
from harness.kafka_releases import ADVERTISES_CONTROLLERS, DEFAULT, Release, version_words

START_TIMEOUT_S: Final = 90.0
HEAP: Final = "512m"
_ADVERTISED: Final = "advertised.listeners"
_CLASS_PATH: Final = "-cp"
_LISTENERS: Final = ("EXTERNAL", "CONTROLLER", "INTERNAL", "DIRECT")  # at offset 0, 1, 2, 3 from the base port

DEFAULT_SETTINGS: Final[Mapping[str, str]] = {
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "4000",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "3",
    "log.cleaner.enable": "false",
    "controlled.shutdown.enable": "true",
}


def _choose_base_port(brokers: int, ports: PortAllocator) -> int:
    """A port such that the four ports from it on are free on every node's address."""
    hosts = [f"127.0.{i}.{j}" for i in (0, 100, *range(1, brokers + 1)) for j in range(1, brokers + 1)]
    return ports.take_row(len(_LISTENERS), hosts)


def kafka_layout(
    directory: Path,
    *,
    brokers: int,
    log_directories: int = 1,
    racks: Sequence[str] = (),
    settings: Mapping[str, str],
    proxied: bool,
    java: str,
    jars: Mapping[Release, Path],
    ports: PortAllocator,
    cluster_id: str,
    interposer: Path | None = None,
    releases: Sequence[Release] = (DEFAULT,),
) -> ClusterLayout:
    """`releases` of the brokers, in turn; `jars` has the directory of each."""
    ids = [BrokerId(number) for number in range(1, brokers + 1)]
    base_port = _choose_base_port(brokers, ports)
    links = _links(ids, base_port) if proxied else ()
    of_broker = {broker: releases[(broker - 1) % len(releases)] for broker in ids}
    # Its StorageTool writes a metadata.version that all of them know.
    oldest = min(of_broker.values())
    nodes = tuple(
        _node(
            directory / f"broker-{broker}",
            broker,
            ids,
            BrokerStorage(data=directory / f"broker-{broker}" / DATA_DIRECTORY, count=log_directories),
            {**settings, **rack_of(broker, racks)},
            proxied,
            java,
            of_broker[broker],
            jars[of_broker[broker]],
            jars[oldest],
            base_port,
            cluster_id,
            interposer,
        )
        for broker in ids
    )
    return ClusterLayout(
        engine="kafka",
        version=version_words(list(of_broker.values())),
        proxied=proxied,
        nodes=nodes,
        links=links,
        start_timeout_s=START_TIMEOUT_S,
        ports=ports,
    )


def _address(host: str, base_port: int, listener: str) -> Address:
    return Address(host=host, port=base_port + _LISTENERS.index(listener))


def _links(ids: list[BrokerId], base_port: int) -> tuple[Link, ...]:
    links = []
    for j in ids:
        upstream = _address(f"127.0.0.{j}", base_port, "EXTERNAL")
        listen = _address(f"127.0.100.{j}", base_port, "EXTERNAL")
        links.append(Link(kind="client", source=None, target=j, listen=listen, upstream=upstream))
    for i in ids:
        for j in ids:
            if i == j:
                continue
            own, far = f"127.0.{i}.{j}", f"127.0.0.{j}"
            listen, upstream = _address(own, base_port, "INTERNAL"), _address(far, base_port, "INTERNAL")
            links.append(Link(kind="internal", source=i, target=j, listen=listen, upstream=upstream))
            listen, upstream = _address(own, base_port, "CONTROLLER"), _address(far, base_port, "CONTROLLER")
            links.append(Link(kind="controller", source=i, target=j, listen=listen, upstream=upstream))
    return tuple(links)


def _node(
    directory: Path,
    broker: BrokerId,
    ids: list[BrokerId],
    storage: BrokerStorage,
    settings: Mapping[str, str],
    proxied: bool,
    java: str,
    release: Release,
    jars: Path,
    jars_of_oldest: Path,
    base_port: int,
    cluster_id: str,
    interposer: Path | None,
) -> NodeLayout:
    own = f"127.0.0.{broker}"
    advertised = _address(f"127.0.100.{broker}" if proxied else own, base_port, "EXTERNAL")
    properties = _properties(broker, ids, storage, settings, advertised, base_port, release)
    hosts_path, properties_path = directory / "hosts", directory / "server.properties"
    hosts = _hosts(broker, ids, proxied=proxied)
    control = directory / FAULT_PAGE_FILE
    environment = {} if interposer is None else {"LD_PRELOAD": str(interposer), fault_page.ENVIRONMENT: str(control)}
    logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
    tool = (
        java,
        "-Xshare:auto",
        "-XX:TieredStopAtLevel=1",
        *logging,
        *_class_path(jars_of_oldest),
        "kafka.tools.StorageTool",
    )
    return NodeLayout(
        broker_id=broker,
        release=release,
        directory=directory,
        command=(
            java,
            f"-Xmx{HEAP}",
            f"-Xms{HEAP}",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            f"-Djdk.net.hosts.file={hosts_path}",
            *logging,
            *_class_path(jars),
            "kafka.Kafka",
            str(properties_path),
        ),
        prepare_commands=((*tool, "format", "-t", cluster_id, "-c", str(properties_path)),),
        properties=properties,
        files={properties_path: render_properties(properties), hosts_path: "\n".join(hosts) + "\n"},
        storage=storage,
        stderr_path=directory / "stderr.log",
        direct=_address(own, base_port, "DIRECT"),
        advertised=advertised,
        environment=environment,
        fault_page=None if interposer is None else control,
    )


def _properties(
    broker: BrokerId,
    ids: list[BrokerId],
    storage: BrokerStorage,
    settings: Mapping[str, str],
    advertised: Address,
    base_port: int,
    release: Release,
) -> dict[str, str]:
    own = f"127.0.0.{broker}"
    internal_port, controller_port = base_port + 2, base_port + 1
    replicas = str(min(3, len(ids)))
    return {
        **DEFAULT_SETTINGS,
        **{name: replicas for name in DEFAULT_SETTINGS if name.endswith("replication.factor")},
        **dict.fromkeys((name for name in DEFAULT_SETTINGS if name.endswith(".min.isr")), "1" if len(ids) < 3 else "2"),
        **settings,
        "node.id": str(broker),
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{peer}@broker-{peer}:{controller_port}" for peer in ids),
        "listeners": ",".join(f"{name}://{_address(own, base_port, name)}" for name in _LISTENERS),
        _ADVERTISED: _advertised_by(
            release,
            f"EXTERNAL://{advertised},INTERNAL://broker-{broker}:{internal_port},"
            f"DIRECT://{_address(own, base_port, 'DIRECT')},CONTROLLER://broker-{broker}:{controller_port}",
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in _LISTENERS),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        **storage.settings,
    }


def as_release(node: NodeLayout, release: Release, jars: Path) -> NodeLayout:
    """The node as another release runs it, on its old data. `properties` tells what its file should say now."""
    place = node.command.index(_CLASS_PATH) + 1
    listeners = ",".join(
        [node.properties[_ADVERTISED].partition(",CONTROLLER://")[0], f"CONTROLLER://{_controller_of(node)}"]
    )
    return replace(
        node,
        release=release,
        command=(*node.command[:place], *_class_path(jars)[1:], *node.command[place + 1 :]),
        properties={**node.properties, _ADVERTISED: _advertised_by(release, listeners)},
    )


def _controller_of(node: NodeLayout) -> str:
    voters = dict(each.split("@") for each in node.properties["controller.quorum.voters"].split(","))
    return voters[str(node.broker_id)]


def _advertised_by(release: Release, listeners: str) -> str:
    """CONTROLLER too: an elected leader tells the others its endpoint (KIP-853). Otherwise that would be the address
    without a proxy, and the quorum would bypass the proxies from then on. Older brokers tell none."""
    if release >= ADVERTISES_CONTROLLERS:
        return listeners
    return ",".join(each for each in listeners.split(",") if not each.startswith("CONTROLLER://"))


def _class_path(jars: Path) -> tuple[str, str]:
    return _CLASS_PATH, f"{jars}/*"


def _hosts(broker: BrokerId, ids: list[BrokerId], *, proxied: bool) -> list[str]:
    """The lines of the broker's own hosts file. With proxies the name of a peer is the proxy on the way to it."""
    on_the_way = {peer: f"127.0.{broker}.{peer}" if proxied and peer != broker else f"127.0.0.{peer}" for peer in ids}
    return ["127.0.0.1 localhost", *(f"{address} broker-{peer}" for peer, address in on_the_way.items())]

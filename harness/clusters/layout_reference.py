"""Layout of a reference cluster: N processes of `python -m broker.node` on a loopback address, or of `broker.mutants`.

Pure but for the choice of free ports, which is passed in. Shown by tests/harness/test_harness_layouts.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from harness import VERSION
from harness.clusters.base import (
    IPV4_LOOPBACK,
    Address,
    BrokerId,
    ClusterLayout,
    Engine,
    Link,
    LinkKind,
    NodeLayout,
    rack_of,
)
from harness.clusters.ports import PortAllocator
from harness.clusters.storage import BrokerStorage

HOST: Final = IPV4_LOOPBACK
START_TIMEOUT_S: Final = 60.0  # under 3 s on an idle machine; if a broker ends, this is noticed at once
DISK_CONTROL_FILE: Final = "disk-faults.json"
FAULT_PAGE_FILE: Final = "fault-page"
DATA_DIRECTORY: Final = "data"

# With these timeouts a failover takes some 2-3 s. With lower ones, a busy host with two cores has failovers without any
# fault.
DEFAULT_SETTINGS: Final[Mapping[str, str]] = {
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "4000",
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "400",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
}


def reference_layout(
    directory: Path,
    *,
    brokers: int,
    log_directories: int = 1,
    racks: Sequence[str] = (),
    settings: Mapping[str, str],
    proxied: bool,
    journal_appends: bool,
    ports: PortAllocator,
    cluster_id: str,
    engine: Engine = "reference",
    version: str = VERSION,
    python: str = sys.executable,
    host_of: Callable[[BrokerId], str] = lambda _broker: HOST,
    link_host_of: Callable[[LinkKind, BrokerId], str] = lambda _kind, _target: HOST,
) -> ClusterLayout:
    """`host_of` gives the address where a broker listens, `link_host_of` the address of the proxies of a kind
    of link that lead to a broker."""
    ids = [BrokerId(number) for number in range(1, brokers + 1)]
    listeners = {
        (name, broker): Address(host=host_of(broker), port=ports.take()) for broker in ids for name in _LISTENERS
    }
    links = _links(ids, listeners, ports, link_host_of) if proxied else ()
    settings = {"harness.cluster.id": cluster_id, **settings}
    nodes = tuple(
        _node(
            directory / f"broker-{broker}",
            broker,
            ids,
            BrokerStorage(data=directory / f"broker-{broker}" / DATA_DIRECTORY, count=log_directories),
            {**settings, **rack_of(broker, racks)},
            listeners,
            links,
            journal_appends,
            python,
        )
        for broker in ids
    )
    return ClusterLayout(
        engine=engine,
        version=version,
        proxied=proxied,
        nodes=nodes,
        links=links,
        start_timeout_s=START_TIMEOUT_S,
        ports=ports,
    )


_LISTENERS: Final = ("EXTERNAL", "DIRECT", "INTERNAL", "CONTROLLER")
_BETWEEN_BROKERS: Final[tuple[tuple[LinkKind, str], ...]] = (("internal", "INTERNAL"), ("controller", "CONTROLLER"))
_Listeners = Mapping[tuple[str, BrokerId], Address]


def _links(
    ids: list[BrokerId], listeners: _Listeners, ports: PortAllocator, host_of: Callable[[LinkKind, BrokerId], str]
) -> tuple[Link, ...]:
    def listen(kind: LinkKind, target: BrokerId) -> Address:
        return Address(host=host_of(kind, target), port=ports.take())

    links = [
        Link(kind="client", source=None, target=j, listen=listen("client", j), upstream=listeners["EXTERNAL", j])
        for j in ids
    ]
    for i in ids:
        for j in ids:
            if i == j:
                continue
            for kind, listener in _BETWEEN_BROKERS:
                links.append(
                    Link(kind=kind, source=i, target=j, listen=listen(kind, j), upstream=listeners[listener, j])
                )
    return tuple(links)


def _node(
    directory: Path,
    broker: BrokerId,
    ids: list[BrokerId],
    storage: BrokerStorage,
    settings: Mapping[str, str],
    listeners: _Listeners,
    links: tuple[Link, ...],
    journal_appends: bool,
    python: str,
) -> NodeLayout:
    advertised = next((link.listen for link in links if link.name == f"client-{broker}"), listeners["EXTERNAL", broker])
    journal_path = directory / "journal.jsonl"
    properties = {
        **DEFAULT_SETTINGS,
        "default.replication.factor": str(min(3, len(ids))),
        **settings,
        "node.id": str(broker),
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{peer}@{listeners['CONTROLLER', peer]}" for peer in ids),
        "listeners": ",".join(f"{name}://{listeners[name, broker]}" for name in _LISTENERS),
        "advertised.listeners": ",".join(
            f"{name}://{advertised if name == 'EXTERNAL' else listeners[name, broker]}" for name in _LISTENERS[:3]
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in _LISTENERS),
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        **storage.settings,
        "harness.journal.path": str(journal_path),
        "harness.journal.appends": "true" if journal_appends else "false",
    }
    if journal_appends:  # cells with faults: the disk may be told to fail
        properties["harness.disk.faults"] = str(directory / DISK_CONTROL_FILE)
        properties["harness.clock.control"] = str(directory / FAULT_PAGE_FILE)
    for kind in ("internal", "controller"):
        routes = [f"{link.target}@{link.listen}" for link in links if link.kind == kind and link.source == broker]
        if routes:
            properties[f"harness.routes.{kind}"] = ",".join(routes)
    properties_path = directory / "server.properties"
    module = "broker.mutants" if properties.get("harness.mutant") else "broker.node"
    return NodeLayout(
        broker_id=broker,
        directory=directory,
        command=(python, "-m", module, str(properties_path)),
        properties=properties,
        files={properties_path: render_properties(properties)},
        storage=storage,
        stderr_path=directory / "stderr.log",
        direct=listeners["DIRECT", broker],
        advertised=advertised,
        journal_path=journal_path,
        fault_page=directory / FAULT_PAGE_FILE if journal_appends else None,
    )


def render_properties(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))

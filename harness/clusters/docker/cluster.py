"""A reference cluster whose brokers are containers, with the same layout, links and proxies as one of processes.

Containers see their directory of the run at the same path as this host, so journals and logs are read in the usual way.
A container can be given things that a process cannot: a network from which it can be cut off, a share of the cores, a
limit on memory. Shown by tests/harness/test_harness_docker.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from docker.errors import APIError, DockerException

from harness import VERSION
from harness.clusters.base import ClusterKey, ClusterLayout, NodeLayout
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.docker import engine
from harness.clusters.docker.container import ContainerProcess
from harness.clusters.docker.network import ClusterNetwork
from harness.clusters.layout_reference import HOST, reference_layout
from harness.clusters.ports import PortAllocator
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.proxies import LinkProxies
from harness.errors import EnvironmentFault

NANO_CPUS: Final = 1_000_000_000
MEMORY_STEP_BYTES: Final = 256 << 10
MEMORY_STEPS_MAX: Final = 64


class DockerCluster(ProcessCluster):
    """A cluster of containers, not started yet. `stop` removes containers and network."""

    def __init__(
        self,
        layout: ClusterLayout,
        *,
        client: Any,
        network: ClusterNetwork,
        proxies: LinkProxies | None,
        should_stop: Callable[[], bool],
    ) -> None:
        super().__init__(layout, proxies=proxies, should_stop=should_stop)
        self._client, self._network = client, network
        self._image = engine.image(client)
        self._by_broker: dict[int, Any] = {}  # docker-py's, by broker id
        self._out_of_memory: set[int] = set()  # pids that were reported already

    @property
    def path_description(self) -> str:
        return f"Docker bridge, {super().path_description}"

    def stop(self) -> None:
        super().stop()
        for container in self._by_broker.values():
            with contextlib.suppress(DockerException):
                container.remove(force=True, v=True)
        self._by_broker.clear()
        self._network.remove()
        self._client.close()

    def exits(self) -> Mapping[int, tuple[int, int]]:
        """As for processes. If the kernel killed a broker because memory was short, that is reported first."""
        with self._lock:  # otherwise the container could be started again in between, and its end would be forgotten
            ended = super().exits()
            for broker, (pid, _) in ended.items():
                process = self._processes[broker]
                assert isinstance(process, ContainerProcess)
                if pid not in self._out_of_memory and process.is_out_of_memory():
                    self._out_of_memory.add(pid)
                    self.on_process_event("out_of_memory", broker)
        return ended

    def disconnect(self, broker_id: int) -> None:
        """Off the network. Peers and clients get no answer at all, not even a refused connection."""
        self._network.disconnect(self._by_broker[broker_id])
        self.on_process_event("disconnected", broker_id)

    def reconnect(self, broker_id: int) -> None:
        """Connects the broker again, at its old address."""
        self._network.connect(self._by_broker[broker_id], broker_id)
        self.on_process_event("reconnected", broker_id)

    def limit_cpu(self, broker_id: int, cores: float | None) -> None:
        """`cores` may be a fraction; None gives it all of them back."""
        # For the engine 0 means "as before", so a limit that was set can only be widened.
        self._update(broker_id, {"NanoCpus": int((cores or os.cpu_count() or 1) * NANO_CPUS)})

    def limit_memory(self, broker_id: int, limit_bytes: int | None) -> None:
        """Limits the memory, without swap. None removes the limit. If a broker then needs more, the kernel kills it.

        Control groups of version 1 refuse a limit below the memory that cannot be released. Then the next higher limit
        that they accept is taken.
        """
        limit = limit_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        for step in range(MEMORY_STEPS_MAX + 1):
            tried = limit + step * MEMORY_STEP_BYTES
            try:
                self._update(broker_id, {"Memory": tried, "MemorySwap": tried})
                return
            except APIError as error:
                if "unable to set memory limit" not in str(error) or step == MEMORY_STEPS_MAX:
                    raise

    def _update(self, broker_id: int, limits: Mapping[str, int]) -> None:
        # docker-py's own update() has no NanoCpus.
        api = self._client.api
        url = api._url("/containers/{0}/update", self._by_broker[broker_id].id)
        api._raise_for_status(api._post_json(url, data=dict(limits)))

    def _start_process(self, node: NodeLayout, environment: Mapping[str, str] | None) -> ContainerProcess:
        broker = int(node.broker_id)
        container = self._by_broker.get(broker)
        name = f"{self.engine} broker {broker}"
        try:
            if container is None:
                container = self._create(node)
                self._by_broker[broker] = container
            container.start()
        except DockerException as error:
            raise EnvironmentFault(f"{name} could not be started: {error}") from error
        return ContainerProcess(name, container)

    def _create(self, node: NodeLayout) -> Any:
        broker = int(node.broker_id)
        directory = str(node.directory)
        endpoint = self._client.api.create_endpoint_config(ipv4_address=self._network.address_of(broker))
        return self._client.containers.create(
            self._image,
            entrypoint=list(node.command),
            name=f"{self._network.name}-broker-{broker}",
            labels=engine.owner_labels(),
            network=self._network.name,
            networking_config={self._network.name: endpoint},
            volumes={directory: {"bind": directory, "mode": "rw"}},
            user=f"{os.getuid()}:{os.getgid()}",
            init=False,  # the broker is process 1 and takes its own SIGTERM
            working_dir="/",
        )


def build_docker_cluster(
    key: ClusterKey, directory: Path, proxies: LinkProxies | None, ports: PortAllocator, should_stop: Callable[[], bool]
) -> DockerCluster:
    """The network is there when it returns; EnvironmentFault when engine or image are missing."""
    client = engine.connect()
    try:
        engine.image(client)
        network = ClusterNetwork.create(client)
    except EnvironmentFault:
        client.close()
        raise
    layout = reference_layout(
        directory,
        brokers=key.brokers,
        log_directories=key.log_directories,
        racks=key.racks,
        # A network of the run's own. Only this host and the containers in it can reach its addresses.
        settings={"harness.allow.remote": "true", **dict(key.settings)},
        proxied=key.proxied,
        journal_appends=key.journal_appends,
        ports=ports,
        cluster_id=new_cluster_id(),
        engine="docker",
        version=f"{VERSION} in Docker {client.version()['Version']}",
        python="python",
        host_of=network.address_of,
        # Brokers reach the proxies at the gateway, which is this host. Clients on this host reach them by loopback.
        link_host_of=lambda kind, _target: HOST if kind == "client" else network.gateway,
    )
    return DockerCluster(layout, client=client, network=network, proxies=proxies, should_stop=should_stop)

"""Our own network for the containers of one cluster: a private subnet that is not in use on this host.

Brokers get fixed addresses in it, so a broker that was disconnected comes back where its peers look for it. The address
of the gateway is that of this host. The proxies of the links between brokers listen there.
"""

from __future__ import annotations

import contextlib
import random
import secrets
from typing import Any, Final

from docker.errors import APIError, DockerException
from docker.types import IPAMConfig, IPAMPool

from harness.clusters.docker.engine import owner_labels
from harness.errors import EnvironmentFault

_TRIES: Final = 20
_FIRST_BROKER_HOST: Final = 10


class ClusterNetwork:
    """Made by `create`; `remove` may be called twice."""

    def __init__(self, network: Any, prefix: str) -> None:
        self._network, self._prefix = network, prefix

    @classmethod
    def create(cls, client: Any) -> ClusterNetwork:
        """EnvironmentFault when no subnet of 20 is free, or the engine makes no networks."""
        source = random.SystemRandom()
        problem = ""
        for _ in range(_TRIES):
            prefix = f"10.{source.randrange(64, 224)}.{source.randrange(256)}"
            pool = IPAMPool(subnet=f"{prefix}.0/24", gateway=f"{prefix}.1")
            try:
                network = client.networks.create(
                    f"kafka-harness-{secrets.token_hex(4)}",
                    driver="bridge",
                    ipam=IPAMConfig(pool_configs=[pool]),
                    labels=owner_labels(),
                )
            except APIError as error:  # the subnet overlaps with one that is in use
                problem = str(error)
                continue
            return cls(network, prefix)
        raise EnvironmentFault(f"no Docker network could be made in {_TRIES} tries: {problem}")

    @property
    def name(self) -> str:
        return str(self._network.name)

    @property
    def gateway(self) -> str:
        return f"{self._prefix}.1"

    def address_of(self, broker: int) -> str:
        return f"{self._prefix}.{_FIRST_BROKER_HOST + broker}"

    def connect(self, container: Any, broker: int) -> None:
        self._network.connect(container, ipv4_address=self.address_of(broker))

    def disconnect(self, container: Any) -> None:
        self._network.disconnect(container)

    def remove(self) -> None:
        with contextlib.suppress(DockerException):
            self._network.remove()

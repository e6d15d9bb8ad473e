"""What this node asks other nodes. Each kind of request has a connection of its own to each of them.

The answers on one connection come in the order of its requests, and an answer that is late ends the connection for all
of them. So on a shared one a slow request of a client would delay heartbeats, a transaction marker that waits for
replicas would delay verifications, and a late heartbeat would leave open what became of a client's request. Apache
Kafka's brokers have the same kinds (NodeToControllerChannelManager, TransactionMarkerChannelManager,
AddPartitionsToTxnManager, PersisterStateManager). Shown by tests/broker_node/test_node_channels_apart.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.links import HandleLocally, Links, internal_address
from broker.node.cluster.metadata import MetadataHost
from broker.node.net.dialling import Dialler, controller_dialler, internal_dialler
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.values import Address

# Requests of clients, AllocateProducerIds and topics of the broker's own; AlterPartition; AssignReplicasToDirs;
# registration and heartbeats.
ToController = Literal["forwarding", "alter-partition", "directory-assignments", "heartbeat"]


class Outgoing:
    def __init__(
        self, *, config: NodeConfig, metadata: MetadataHost, logger: Logger, handle_locally: HandleLocally
    ) -> None:
        self._config, self._metadata, self._logger = config, metadata, logger
        self._handle_locally = handle_locally
        self._links: dict[str, Links] = {}

    def reconfigure(self, config: NodeConfig) -> None:
        """Takes new certificates. They hold for new connections."""
        for links in self._links.values():
            links.dialler.reconfigure(config)

    def controller(self, kind: ToController) -> ControllerClient:
        config = self._config
        links = self._of(
            kind, config.listening.controller_listener, self._metadata.controller_address, controller_dialler
        )
        return ControllerClient(settings=config.quorum, metadata=self._metadata, links=links)

    def brokers(self, kind: str) -> Links:
        """`kind` names a kind of request: the kernel's are WriteTxnMarkers and AddPartitionsToTxn, and features have
        their own."""
        config = self._config

        def address(broker_id: int) -> Address | None:
            return internal_address(config, self._metadata.image, broker_id)

        return self._of(kind, config.listening.internal_listener, address, internal_dialler)

    def _of(
        self,
        kind: str,
        listener_name: str,
        address: Callable[[int], Address | None],
        make_dialler: Callable[[NodeConfig, Logger], Dialler],
    ) -> Links:
        if kind not in self._links:
            self._links[kind] = Links(
                name=kind,
                node_id=self._config.node_id,
                listener_name=listener_name,
                address=address,
                handle_locally=self._handle_locally,
                logger=self._logger,
                dialler=make_dialler(self._config, self._logger),
            )
        return self._links[kind]

    def close(self) -> None:
        for links in self._links.values():
            links.close()

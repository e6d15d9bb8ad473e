"""The parts of a broker that coordinate, connected: groups, transactions, share groups, and what these need."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.controller.image import MetadataImage
from broker.node.cluster.controller_client import ControllerClient
from broker.node.cluster.outgoing import Outgoing
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.groups import KEY_TYPE as GROUPS
from broker.node.coordination.groups import Groups
from broker.node.coordination.producer_ids import ProducerIds
from broker.node.coordination.share_states import KEY_TYPE as SHARES
from broker.node.coordination.share_states import ShareStates
from broker.node.coordination.transactions import KEY_TYPE as TRANSACTIONS
from broker.node.coordination.transactions import Transactions
from broker.node.coordination.verification import TransactionVerifier
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import Replicas
from broker.node.settings.config import NodeConfig
from broker.node.sharing.shares import Shares, share_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    producer_ids: ProducerIds
    groups: Groups
    transactions: Transactions
    verifier: TransactionVerifier
    share_states: ShareStates
    shares: Shares

    @property
    def hosts(self) -> Mapping[int, CoordinatorHost[Any]]:
        """By the key type of FindCoordinator. The type is Any: each host has its own kind of shard."""
        return {
            GROUPS: self.groups.host,
            TRANSACTIONS: self.transactions.host,
            SHARES: self.share_states.host,
        }

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """`is_current` says that this image contains every decision from before this process started."""
        self.groups.image_changed(image, is_current=is_current)
        self.transactions.image_changed(image)
        self.share_states.image_changed(image, is_current=is_current)
        self.leaders_changed()

    def leaders_changed(self) -> None:
        """Of the partitions that keep their records, or that a share group reads."""
        for host in self.hosts.values():
            host.image_changed()
        self.shares.image_changed()

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.transactions.close()


def open_coordination(
    *,
    config: NodeConfig,
    replicas: Replicas,
    control: ControllerClient,
    outgoing: Outgoing,
    image: Callable[[], MetadataImage],
    broker_epoch: Callable[[], int],
    journal: Journal,
    logger: Logger,
    spawn: Callable[..., object],
    rng: random.Random,
) -> Coordination:
    producer_ids = ProducerIds(config=config, control=control, broker_epoch=broker_epoch)
    groups = Groups(config=config, replicas=replicas, control=control, image=image, logger=logger, spawn=spawn, rng=rng)
    transactions = Transactions(
        config=config,
        replicas=replicas,
        control=control,
        producer_ids=producer_ids,
        peers=outgoing.brokers("transaction-markers"),
        image=image,
        journal=journal,
        logger=logger,
        spawn=spawn,
    )
    share_states, shares = share_parts(config, replicas, control, outgoing.brokers("share-state"), image, logger, spawn)
    verifier = TransactionVerifier(
        config=config,
        coordinator_of=transactions.coordinator_of,
        peers=outgoing.brokers("transaction-verification"),
        logger=logger,
        spawn=spawn,
    )
    return Coordination(
        producer_ids=producer_ids,
        groups=groups,
        transactions=transactions,
        verifier=verifier,
        share_states=share_states,
        shares=shares,
    )

"""The parts of a broker that coordinate, connected: groups, transactions, those of features, and what these need."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.controller.delta import PartitionChange
from broker.controller.image import MetadataImage
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.groups import KEY_TYPE as GROUPS
from broker.node.coordination.groups import Groups
from broker.node.coordination.producer_ids import ProducerIds
from broker.node.coordination.transactions import KEY_TYPE as TRANSACTIONS
from broker.node.coordination.transactions import Transactions
from broker.node.coordination.verification import TransactionVerifier
from broker.node.feature import Feature, Kernel, Part
from broker.node.process.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    producer_ids: ProducerIds
    groups: Groups
    transactions: Transactions
    verifier: TransactionVerifier
    features: Sequence[Part]  # what each feature has opened

    @property
    def hosts(self) -> Mapping[int, CoordinatorHost[Any]]:
        """By the key type of FindCoordinator. The type is Any: each host has its own kind of shard."""
        hosts: dict[int, CoordinatorHost[Any]] = {GROUPS: self.groups.host, TRANSACTIONS: self.transactions.host}
        for part in self.features:
            hosts |= part.coordinators
        return hosts

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """`is_current` says that this image contains every decision from before this process started."""
        self.groups.image_changed(image, is_current=is_current)
        self.transactions.image_changed(image)
        for part in self.features:
            part.image_changed(image, is_current=is_current)
        self.leaders_changed()

    def replica_changed(self, change: PartitionChange) -> None:
        for part in self.features:
            part.replica_changed(change)

    def leaders_changed(self) -> None:
        """Of the partitions that keep their records, or that a feature uses."""
        for host in self.hosts.values():
            host.image_changed()
        for part in self.features:
            part.leaders_changed()

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()
        self.transactions.close()
        for part in self.features:
            part.close()


def open_coordination(
    kernel: Kernel,
    *,
    broker_epoch: Callable[[], int],
    journal: Journal,
    rng: random.Random,
    features: Sequence[Feature],
) -> Coordination:
    config, replicas, control, outgoing = kernel.config, kernel.replicas, kernel.control, kernel.outgoing
    image, logger, spawn = kernel.image, kernel.logger, kernel.spawn
    producer_ids = ProducerIds(settings=config.quorum, control=control, broker_epoch=broker_epoch)
    parts = tuple(feature.open(kernel) for feature in features)
    groups = Groups(
        config=config,
        replicas=replicas,
        control=control,
        image=image,
        logger=logger,
        spawn=spawn,
        rng=rng,
        kinds=[kind for part in parts for kind in part.group_kinds],
    )
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
    verifier = TransactionVerifier(
        settings=config.transactions,
        request_timeout_ms=config.replication.replica_socket_timeout_ms,
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
        features=parts,
    )

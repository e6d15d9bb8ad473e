"""Partitions of one broker over a real directory, without a process: an image goes in, logs come out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.log.filesystem import LOCAL, FileSystem
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replicas import Replicas, open_replicas
from broker.node.settings.config import NodeConfig, config_of
from broker.node.settings.values import Address

ME, PEER = 1, 2
BOOT = "boot-1"


def node_config(path: Path) -> NodeConfig:
    def address(port: int) -> Address:
        return Address(host="127.0.0.1", port=port)

    return config_of(
        node_id=ME,
        controller_quorum_voters={ME: address(1)},
        listeners={"EXTERNAL": address(2), "INTERNAL": address(3), "CONTROLLER": address(1)},
        advertised_listeners={"EXTERNAL": address(2), "INTERNAL": address(3)},
        log_dirs=(path,),
    )


def topic(name: str, number: int, *, leader: int = ME, leader_epoch: int = 0, partitions: int = 1) -> TopicState:
    """`number` makes its id."""
    state = PartitionState(
        replicas=(ME, PEER), isr=(ME, PEER), leader=leader, leader_epoch=leader_epoch, partition_epoch=leader_epoch
    )
    return TopicState(name=name, topic_id=UUID(int=number), partitions=(state,) * partitions)


def image(*topics: TopicState, configs: Mapping[str, Mapping[str, str]] | None = None) -> MetadataImage:
    return MetadataImage(
        offset=1,
        topics={each.name: each for each in topics},
        topic_names={each.topic_id: each.name for each in topics},
        topic_configs=configs or {},
    )


class Kept(Journal):
    """A journal in memory."""

    def __init__(self) -> None:
        super().__init__(None, broker_id=ME, with_appends=False)
        self.events: list[tuple[str, dict[str, object]]] = []

    def write(self, kind: str, **facts: object) -> None:
        self.events.append((kind, facts))

    def of(self, kind: str) -> list[dict[str, object]]:
        return [facts for each, facts in self.events if each == kind]


def replicas_at(
    path: Path, *, filesystem: FileSystem = LOCAL, journal: Journal | None = None, boot_id: str = BOOT
) -> Replicas:
    return open_replicas(
        config=node_config(path),
        logger=Logger(ME),
        journal=journal or Kept(),
        propose_isr=lambda hosted, proposal: None,
        filesystem=filesystem,
        boot_id=boot_id,
    )


def the(replicas: Replicas, name: str, index: int = 0) -> HostedPartition:
    hosted = replicas.partitions.get(name, index)
    assert hosted is not None
    return hosted

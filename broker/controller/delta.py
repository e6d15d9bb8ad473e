"""What changed between two images, from the viewpoint of one broker."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from broker.controller.image import BrokerRegistration, MetadataImage, PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    topic: str
    topic_id: UUID
    partition: int
    state: PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRemoval:
    topic: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """`leads` and `follows` hold partitions whose state is new or changed in any field (compare leader_epoch yourself).

    A partition without a leader (-1) is in `follows`. `removed` first, then the others.
    """

    leads: tuple[PartitionChange, ...]
    follows: tuple[PartitionChange, ...]
    removed: tuple[PartitionRemoval, ...]  # topic deleted, or this broker no longer a replica
    changed: tuple[PartitionChange, ...]  # every changed partition of the cluster, for the journal
    brokers: tuple[BrokerRegistration, ...]  # new or changed registrations
    fenced: tuple[int, ...]
    unfenced: tuple[int, ...]
    topic_configs: tuple[str, ...]  # names of topics whose overrides changed


def diff(old: MetadataImage, new: MetadataImage, *, broker_id: int) -> MetadataDelta:
    raise NotImplementedError

"""The metadata image: what the cluster looks like after replaying the log up to an offset. Immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.controller.records import Endpoint, MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    endpoints: Mapping[str, Endpoint]  # by listener name
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]  # never empty
    leader: int  # -1: offline
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]  # by partition index


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    offset: int = -1  # of the last entry applied; the broker heartbeats it as current_metadata_offset
    epoch: int = 0  # quorum epoch of that entry
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)  # by name
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # overrides, by topic name
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by broker id as string, "" default
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0

    def live_broker_ids(self) -> tuple[int, ...]:
        """Unfenced brokers, ascending: those that Metadata shows to clients."""
        raise NotImplementedError

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        raise NotImplementedError


def replay(image: MetadataImage, records: tuple[MetadataRecord, ...], *, offset: int, epoch: int) -> MetadataImage:
    """The image after one entry. Raises ValueError for records that cannot follow this image."""
    raise NotImplementedError

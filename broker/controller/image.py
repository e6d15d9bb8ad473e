"""The metadata image: what the cluster looks like after replaying the log up to an offset (replay.py). Immutable.

Two brokers that replayed the same entries hold equal images. Shown by
tests/broker_controller/test_controller_image.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.controller.records import Endpoint, replica_directory
from broker.security.acls import AclBinding
from broker.security.scram import ScramCredential

NO_LEADER = -1
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
LOGGER_RESOURCE = 8  # has no settings here
GROUP_RESOURCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    broker_id: int
    incarnation_id: UUID | None  # None: the zero id
    broker_epoch: int
    endpoints: Mapping[str, Endpoint]  # The key is the listener's name.
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_directories: frozenset[UUID] = frozenset()  # those that work; empty: not known, so each counts as one of them
    cordoned_directories: frozenset[UUID] = frozenset()  # those that get no new replicas (KIP-1066)
    # Replicas that failed since this broker process began, although their log directory works (replica_directory).
    offline_directories: frozenset[UUID] = frozenset()

    @property
    def may_lead(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def takes_replicas(self) -> bool:
        """Whether it has a log directory that is not cordoned."""
        return not self.log_directories or bool(self.log_directories - self.cordoned_directories)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]  # empty only if there is no leader, and only with eligible leader replicas (KIP-966)
    leader: int  # -1: offline
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()  # those of the replicas that a reassignment adds (KIP-455)
    removing: tuple[int, ...] = ()  # those of the replicas that go when it is complete
    elr: tuple[int, ...] = ()  # eligible leader replicas: not in the ISR, but with all committed records (KIP-966)
    last_known_elr: tuple[int, ...] = ()  # the last leader, while there is no leader
    # One for each replica, in their order. None: not told yet. (): no replica has told one.
    directories: tuple[UUID | None, ...] = ()

    def directory_of(self, broker_id: int) -> UUID | None:
        """The log directory of the replica on this broker. None if it is not known, or if there is no such replica."""
        if not self.directories or broker_id not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker_id)]

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    topic_id: UUID
    partitions: tuple[PartitionState, ...]  # A partition's index is its place.


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    offset: int = -1  # offset of the last entry applied; the heartbeat sends it as current_metadata_offset
    epoch: int = 0  # quorum epoch of that entry
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)  # The key is the topic's name.
    topic_names: Mapping[UUID | None, str] = field(default_factory=dict)  # None, the id of no topic, is never in it
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # overrides, by topic name
    # The key is the broker id as a string. "" is the default.
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # overrides, by group id
    features: Mapping[str, int] = field(default_factory=dict)  # level by name; level 0 has no entry
    next_producer_id: int = 0
    acls: Mapping[UUID, AclBinding] = field(default_factory=dict)  # no binding twice
    # By user, then by mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    scram_credentials: Mapping[str, Mapping[int, ScramCredential]] = field(default_factory=dict)

    def live_broker_ids(self) -> tuple[int, ...]:
        """Unfenced brokers, ascending: those that Metadata shows to clients."""
        return tuple(sorted(broker_id for broker_id, broker in self.brokers.items() if not broker.fenced))

    def has_offline(self, broker_id: int, topic_id: UUID, partition: int) -> bool:
        """Whether this broker has reported that the storage of its replica failed: of the replica, or of the log
        directory that holds it."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return False
        if broker.offline_directories and replica_directory(topic_id, partition) in broker.offline_directories:
            return True
        topic = self.topic_by_id(topic_id)
        if topic is None or partition >= len(topic.partitions) or not broker.log_directories:
            return False
        directory = topic.partitions[partition].directory_of(broker_id)
        return directory is not None and directory not in broker.log_directories

    def only_directory(self, broker_id: int) -> UUID | None:
        """The log directory of a broker that has just one. None if it has several, or if it told none."""
        broker = self.brokers.get(broker_id)
        return next(iter(broker.log_directories)) if broker is not None and len(broker.log_directories) == 1 else None

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        state = self.topics.get(topic)
        if state is None or not 0 <= partition < len(state.partitions):
            return None
        return state.partitions[partition]

    def configs_of(self, resource_type: int) -> Mapping[str, Mapping[str, str]]:
        """The overrides of the resources of this type, by their name."""
        return {
            TOPIC_RESOURCE: self.topic_configs,
            BROKER_RESOURCE: self.broker_configs,
            GROUP_RESOURCE: self.group_configs,
        }.get(resource_type, {})

    def topic_by_id(self, topic_id: UUID | None) -> TopicState | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def check_invariants(self) -> None:
        assert {topic.topic_id: name for name, topic in self.topics.items()} == self.topic_names
        assert set(self.topic_configs) <= set(self.topics)
        assert len(set(self.acls.values())) == len(self.acls), "the same binding under two ids"
        assert all(self.scram_credentials.values()), "a user without a credential is none"
        for topic in self.topics.values():
            assert topic.partitions
            for partition in topic.partitions:
                assert partition.isr or partition.leader == NO_LEADER, "a leader is in its ISR"
                assert set(partition.elr) <= set(partition.replicas) - set(partition.isr)
                assert partition.leader == NO_LEADER or not partition.last_known_elr
                assert set(partition.isr) <= set(partition.replicas)
                assert len(set(partition.replicas)) == len(partition.replicas)
                assert len(partition.directories) in (0, len(partition.replicas))
                assert partition.leader == NO_LEADER or partition.leader in partition.isr
                assert not set(partition.adding) & set(partition.removing)
                assert {*partition.adding, *partition.removing} <= set(partition.replicas)
                assert set(partition.replicas) - set(partition.removing), "a reassignment keeps somebody"

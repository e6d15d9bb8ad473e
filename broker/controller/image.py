"""The metadata image: what the cluster looks like after replaying the log up to an offset. Immutable.

Two brokers that replayed the same entries hold equal images. tests/broker_controller/test_controller_image.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from uuid import UUID

from broker.controller.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    Endpoint,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    replica_directory,
)
from broker.security.acls import AclBinding
from broker.security.delegation import DelegationToken
from broker.security.scram import ScramCredential

NO_LEADER = -1
# ((entity type, name or None for the default), ..), sorted by type
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
LOGGER_RESOURCE = 8  # has no settings here
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    broker_id: int
    incarnation_id: UUID | None  # None: the zero id
    broker_epoch: int
    endpoints: Mapping[str, Endpoint]  # by listener name
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    offline_directories: frozenset[UUID] = frozenset()  # whose storage failed in this life of the broker

    @property
    def may_lead(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]  # empty only without a leader, and only with eligible leader replicas (KIP-966)
    leader: int  # -1: offline
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()  # of the replicas, those that a reassignment adds (KIP-455)
    removing: tuple[int, ...] = ()  # of the replicas, those that go when it is complete
    elr: tuple[int, ...] = ()  # eligible leader replicas: out of the ISR, and hold all that is committed (KIP-966)
    last_known_elr: tuple[int, ...] = ()  # the last leader, while there is none

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)


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
    topic_names: Mapping[UUID | None, str] = field(default_factory=dict)  # None, the id of no topic, is never in it
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # overrides, by topic name
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by broker id as string, "" default
    client_metrics_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by subscription (KIP-714)
    group_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # overrides, by group id
    features: Mapping[str, int] = field(default_factory=dict)  # level by name; level 0 has no entry
    next_producer_id: int = 0
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    acls: Mapping[UUID, AclBinding] = field(default_factory=dict)  # no binding twice
    # By user, then by mechanism: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512.
    scram_credentials: Mapping[str, Mapping[int, ScramCredential]] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)  # by id

    def live_broker_ids(self) -> tuple[int, ...]:
        """Unfenced brokers, ascending: those that Metadata shows to clients."""
        return tuple(sorted(broker_id for broker_id, broker in self.brokers.items() if not broker.fenced))

    def has_offline(self, broker_id: int, topic_id: UUID, partition: int) -> bool:
        """Whether this broker told that the storage of its replica failed."""
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.offline_directories:
            return False
        return replica_directory(topic_id, partition) in broker.offline_directories

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        state = self.topics.get(topic)
        if state is None or not 0 <= partition < len(state.partitions):
            return None
        return state.partitions[partition]

    def configs_of(self, resource_type: int) -> Mapping[str, Mapping[str, str]]:
        """What was set at run time on resources of this type, by their name."""
        return {
            TOPIC_RESOURCE: self.topic_configs,
            BROKER_RESOURCE: self.broker_configs,
            CLIENT_METRICS_RESOURCE: self.client_metrics_configs,
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
        for token_id, token in self.delegation_tokens.items():
            assert token.token_id == token_id
            assert token.expires_ms <= token.ends_ms
        for topic in self.topics.values():
            assert topic.partitions
            for partition in topic.partitions:
                assert partition.isr or partition.leader == NO_LEADER, "a leader is in its ISR"
                assert set(partition.elr) <= set(partition.replicas) - set(partition.isr)
                assert partition.leader == NO_LEADER or not partition.last_known_elr
                assert set(partition.isr) <= set(partition.replicas)
                assert len(set(partition.replicas)) == len(partition.replicas)
                assert partition.leader == NO_LEADER or partition.leader in partition.isr
                assert not set(partition.adding) & set(partition.removing)
                assert {*partition.adding, *partition.removing} <= set(partition.replicas)
                assert set(partition.replicas) - set(partition.removing), "a reassignment keeps somebody"


def replay(image: MetadataImage, records: tuple[MetadataRecord, ...], *, offset: int, epoch: int) -> MetadataImage:
    """The image after one entry. Raises ValueError for records that cannot follow this image."""
    if offset <= image.offset:
        raise ValueError(f"entry {offset} replayed on an image of offset {image.offset}")
    draft = _Draft(image)
    for record in records:
        draft.apply(record)
    return draft.finish(offset=offset, epoch=epoch)


class _Draft:
    """One image under construction. Copies the maps once per entry, a topic's partitions only when touched."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = dict(image.brokers)
        self._topics = dict(image.topics)
        self._topic_names = dict(image.topic_names)
        self._partitions: dict[str, list[PartitionState]] = {}  # of touched topics
        self._topic_configs = dict(image.topic_configs)
        self._broker_configs = dict(image.broker_configs)
        self._client_metrics_configs = dict(image.client_metrics_configs)
        self._group_configs = dict(image.group_configs)
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        self._client_quotas = dict(image.client_quotas)
        # Shared with the image until they change: there may be very many, and few entries touch them.
        self._acls: dict[UUID, AclBinding] | None = None
        self._scram_credentials: dict[str, Mapping[int, ScramCredential]] | None = None
        self._delegation_tokens: dict[str, DelegationToken] | None = None

    def finish(self, *, offset: int, epoch: int) -> MetadataImage:
        for name, partitions in self._partitions.items():
            self._topics[name] = replace(self._topics[name], partitions=tuple(partitions))
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            brokers=self._brokers,
            topics=self._topics,
            topic_names=self._topic_names,
            topic_configs=self._topic_configs,
            broker_configs=self._broker_configs,
            client_metrics_configs=self._client_metrics_configs,
            group_configs=self._group_configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            client_quotas=self._client_quotas,
            acls=self._image.acls if self._acls is None else self._acls,
            scram_credentials=(
                self._image.scram_credentials if self._scram_credentials is None else self._scram_credentials
            ),
            delegation_tokens=(
                self._image.delegation_tokens if self._delegation_tokens is None else self._delegation_tokens
            ),
        )

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case FeatureLevelRecord():
                self._set_feature(record)
            case RegisterBrokerRecord():
                self._register(record)
            case BrokerRegistrationChangeRecord():
                self._change_registration(record)
            case UnregisterBrokerRecord():
                self._unregister(record)
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record)
            case PartitionRecord():
                self._add_partition(record)
            case PartitionChangeRecord():
                self._change_partition(record)
            case ClearElrRecord():
                self._clear_elr(record)
            case ConfigRecord():
                self._set_config(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case ClientQuotaRecord():
                self._set_quota(record)
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self._change_acls(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self._change_credential(record)
            case DelegationTokenRecord() | RemoveDelegationTokenRecord():
                self._change_token(record)

    def _register(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            endpoints={endpoint.listener: endpoint for endpoint in record.endpoints},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            offline_directories=frozenset(record.offline_directories),
        )

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._brokers.get(record.broker_id)
        if broker is None or broker.broker_epoch != record.broker_epoch:
            raise ValueError(f"no broker {record.broker_id} with epoch {record.broker_epoch}: has {broker}")
        self._brokers[record.broker_id] = replace(
            broker,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            offline_directories=frozenset(record.offline_directories),
        )

    def _unregister(self, record: UnregisterBrokerRecord) -> None:
        broker = self._brokers.pop(record.broker_id, None)
        if broker is None or broker.broker_epoch != record.broker_epoch:
            raise ValueError(f"no broker {record.broker_id} with epoch {record.broker_epoch}: has {broker}")

    def _add_topic(self, record: TopicRecord) -> None:
        if record.name in self._topics or record.topic_id in self._topic_names:
            raise ValueError(f"topic {record.name} ({record.topic_id}) exists")
        self._topics[record.name] = TopicState(name=record.name, topic_id=record.topic_id, partitions=())
        self._topic_names[record.topic_id] = record.name

    def _name(self, topic_id: UUID) -> str:
        name = self._topic_names.get(topic_id)
        if name is None:
            raise ValueError(f"no topic with id {topic_id}")
        return name

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self._name(record.topic_id)
        del self._topics[name], self._topic_names[record.topic_id]
        self._partitions.pop(name, None)
        self._topic_configs.pop(name, None)

    def _touched(self, topic_id: UUID) -> list[PartitionState]:
        name = self._name(topic_id)
        if name not in self._partitions:
            self._partitions[name] = list(self._topics[name].partitions)
        return self._partitions[name]

    def _add_partition(self, record: PartitionRecord) -> None:
        partitions = self._touched(record.topic_id)
        if record.partition != len(partitions):
            raise ValueError(f"partition {record.partition} of {record.topic_id} follows {len(partitions)} others")
        state = PartitionState(
            replicas=record.replicas,
            isr=record.isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            adding=record.adding,
            removing=record.removing,
            elr=record.elr,
            last_known_elr=record.last_known_elr,
        )
        partitions.append(state)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        partitions = self._touched(record.topic_id)
        if not 0 <= record.partition < len(partitions):
            raise ValueError(f"partition {record.partition} of {record.topic_id}: there are {len(partitions)}")
        partitions[record.partition] = apply_change(partitions[record.partition], record)

    def _set_feature(self, record: FeatureLevelRecord) -> None:
        if record.level:
            self._features[record.name] = record.level
        else:
            self._features.pop(record.name, None)

    def _clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic is not None and record.topic not in self._topics:
            raise ValueError(f"no topic {record.topic}")
        names = tuple(self._topics) if record.topic is None else (record.topic,)
        for name in names:
            for index, state in enumerate(self._partitions.get(name) or self._topics[name].partitions):
                if state.elr or state.last_known_elr:
                    cleared = replace(state, elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1)
                    self._touched(self._topics[name].topic_id)[index] = cleared

    def _set_config(self, record: ConfigRecord) -> None:
        configs = {
            TOPIC_RESOURCE: self._topic_configs,
            BROKER_RESOURCE: self._broker_configs,
            CLIENT_METRICS_RESOURCE: self._client_metrics_configs,
            GROUP_RESOURCE: self._group_configs,
        }[record.resource_type]
        values = dict(configs.get(record.resource_name, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[record.resource_name] = values
        else:
            configs.pop(record.resource_name, None)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        values = dict(self._client_quotas.get(record.entity, {}))
        if record.value is None:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            self._client_quotas[record.entity] = values
        else:
            self._client_quotas.pop(record.entity, None)

    def _change_acls(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        if self._acls is None:
            self._acls = dict(self._image.acls)
        if isinstance(record, AccessControlEntryRecord):
            self._acls[record.acl_id] = AclBinding(
                resource_type=record.resource_type,
                resource_name=record.resource_name,
                pattern_type=record.pattern_type,
                principal=record.principal,
                host=record.host,
                operation=record.operation,
                permission=record.permission_type,
            )
        elif self._acls.pop(record.acl_id, None) is None:
            raise ValueError(f"no access control entry with id {record.acl_id}")

    def _change_credential(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        if self._scram_credentials is None:
            self._scram_credentials = dict(self._image.scram_credentials)
        users = self._scram_credentials
        found = dict(users.get(record.name, {}))
        if isinstance(record, UserScramCredentialRecord):
            found[record.mechanism] = ScramCredential(
                salt=record.salt,
                stored_key=record.stored_key,
                server_key=record.server_key,
                iterations=record.iterations,
            )
        elif found.pop(record.mechanism, None) is None:
            raise ValueError(f"no SCRAM credential of {record.name} for mechanism {record.mechanism}")
        if found:
            users[record.name] = found
        else:
            del users[record.name]

    def _change_token(self, record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> None:
        if self._delegation_tokens is None:
            self._delegation_tokens = dict(self._image.delegation_tokens)
        if isinstance(record, DelegationTokenRecord):
            self._delegation_tokens[record.token_id] = DelegationToken(
                token_id=record.token_id,
                owner=record.owner,
                requester=record.requester,
                renewers=record.renewers,
                issued_ms=record.issued_ms,
                expires_ms=record.expires_ms,
                ends_ms=record.ends_ms,
            )
        elif self._delegation_tokens.pop(record.token_id, None) is None:
            raise ValueError(f"no delegation token with id {record.token_id}")


def apply_change(state: PartitionState, change: PartitionChangeRecord) -> PartitionState:
    return PartitionState(
        replicas=state.replicas if change.replicas is None else change.replicas,
        isr=change.isr,
        leader=change.leader,
        leader_epoch=state.leader_epoch + change.new_leader_epoch,
        partition_epoch=state.partition_epoch + 1,
        adding=state.adding if change.adding is None else change.adding,
        removing=state.removing if change.removing is None else change.removing,
        elr=state.elr if change.elr is None else change.elr,
        last_known_elr=state.last_known_elr if change.last_known_elr is None else change.last_known_elr,
    )

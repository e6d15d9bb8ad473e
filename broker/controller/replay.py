"""Applies the records of one more log entry to a metadata image. Pure.

image.py says what an image holds. snapshot.py turns an image into records. Records that cannot follow an image raise
ValueError. Shown by tests/broker_controller/test_controller_image.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    MetadataImage,
    PartitionState,
    TopicState,
)
from broker.controller.records import (
    FENCE,
    LEADER_STAYS,
    UNFENCE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from broker.security.acls import AclBinding
from broker.security.scram import ScramCredential


def replay(image: MetadataImage, records: tuple[MetadataRecord, ...], *, offset: int, epoch: int) -> MetadataImage:
    """The image after one entry. Raises ValueError for records that cannot follow this image."""
    if offset <= image.offset:
        raise ValueError(f"entry {offset} replayed on an image of offset {image.offset}")
    draft = _Draft(image)
    for record in records:
        draft.apply(record)
    return draft.finish(offset=offset, epoch=epoch)


CLIENT_METRICS_RESOURCE = 16


class _Draft:
    """One image under construction. It copies the maps once per entry, and a topic's partitions only if they change."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._brokers = dict(image.brokers)
        self._topics = dict(image.topics)
        self._topic_names = dict(image.topic_names)
        self._partitions: dict[str, list[PartitionState]] = {}  # only of topics that change
        self._topic_configs = dict(image.topic_configs)
        self._broker_configs = dict(image.broker_configs)
        self._group_configs = dict(image.group_configs)
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        # These maps are shared with the image until they change. They may be very large, and few entries change them.
        self._acls: dict[UUID, AclBinding] | None = None
        self._scram_credentials: dict[str, Mapping[int, ScramCredential]] | None = None

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
            group_configs=self._group_configs,
            features=self._features,
            next_producer_id=self._next_producer_id,
            acls=self._image.acls if self._acls is None else self._acls,
            scram_credentials=(
                self._image.scram_credentials if self._scram_credentials is None else self._scram_credentials
            ),
        )

    def apply(self, record: MetadataRecord) -> None:
        if _is_read_past(record):
            return
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
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self._change_acls(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self._change_credential(record)

    def _register(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = BrokerRegistration(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            broker_epoch=record.broker_epoch,
            endpoints={endpoint.listener: endpoint for endpoint in record.endpoints},
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            log_directories=frozenset(record.log_directories),
            cordoned_directories=frozenset(record.cordoned_directories or ()),
            offline_directories=frozenset(record.offline_directories),
        )

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._brokers.get(record.broker_id)
        if broker is None or broker.broker_epoch != record.broker_epoch:
            raise ValueError(f"no broker {record.broker_id} with epoch {record.broker_epoch}: has {broker}")
        if record.fenced not in (FENCE, UNFENCE) or record.in_controlled_shutdown not in (0, 1):
            raise ValueError(f"not a change of a registration: {record}")
        self._brokers[record.broker_id] = replace(
            broker,
            fenced=record.fenced == FENCE,
            in_controlled_shutdown=record.in_controlled_shutdown == 1,
            log_directories=frozenset(record.log_directories) or broker.log_directories,
            cordoned_directories=broker.cordoned_directories
            if record.cordoned_directories is None
            else frozenset(record.cordoned_directories),
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
            directories=record.directories,
        )
        _check_directories(record, state)
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
        if record.topic and record.topic not in self._topics:
            raise ValueError(f"no topic {record.topic}")
        names = (record.topic,) if record.topic else tuple(self._topics)
        for name in names:
            for index, state in enumerate(self._partitions.get(name) or self._topics[name].partitions):
                if state.elr or state.last_known_elr:
                    cleared = replace(state, elr=(), last_known_elr=(), partition_epoch=state.partition_epoch + 1)
                    self._touched(self._topics[name].topic_id)[index] = cleared

    def _set_config(self, record: ConfigRecord) -> None:
        configs = {
            TOPIC_RESOURCE: self._topic_configs,
            BROKER_RESOURCE: self._broker_configs,
            GROUP_RESOURCE: self._group_configs,
        }.get(record.resource_type)
        if configs is None:
            raise ValueError(f"a setting of a resource of type {record.resource_type}")
        values = dict(configs.get(record.resource_name, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[record.resource_name] = values
        else:
            configs.pop(record.resource_name, None)

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


def _is_read_past(record: MetadataRecord) -> bool:
    """Whether only an earlier version of this broker gave the record a meaning: it had streams groups (KIP-1071) and
    subscriptions of clients' metrics (KIP-714)."""
    if isinstance(record, FeatureLevelRecord):
        return record.name == "streams.version"
    if isinstance(record, ConfigRecord) and record.resource_type == GROUP_RESOURCE:
        return record.name.startswith("streams.")
    return isinstance(record, ConfigRecord) and record.resource_type == CLIENT_METRICS_RESOURCE


def _check_directories(record: MetadataRecord, state: PartitionState) -> None:
    if len(state.directories) not in (0, len(state.replicas)):
        raise ValueError(f"{len(state.directories)} directories for {len(state.replicas)} replicas: {record}")


def apply_change(state: PartitionState, change: PartitionChangeRecord) -> PartitionState:
    # Kafka too forgets the directories if the replicas change and the record tells none.
    unchanged = state.directories if change.replicas is None else ()
    after = PartitionState(
        replicas=state.replicas if change.replicas is None else change.replicas,
        isr=state.isr if change.isr is None else change.isr,
        leader=state.leader if change.leader == LEADER_STAYS else change.leader,
        leader_epoch=state.leader_epoch + (change.leader != LEADER_STAYS),
        partition_epoch=state.partition_epoch + 1,
        adding=state.adding if change.adding is None else change.adding,
        removing=state.removing if change.removing is None else change.removing,
        elr=state.elr if change.elr is None else change.elr,
        last_known_elr=state.last_known_elr if change.last_known_elr is None else change.last_known_elr,
        directories=unchanged if change.directories is None else change.directories,
    )
    _check_directories(change, after)
    return after

"""Turns the metadata image into the records of a snapshot of the metadata log (KIP-630), and back.

Replaying the records of an image on an empty one gives an equal image. They are the same records as in the log.
Shown by tests/broker_controller/test_controller_snapshot.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from uuid import UUID

from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from broker.controller.records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from broker.controller.replay import replay
from broker.security.acls import AclBinding


def image_records(image: MetadataImage) -> tuple[MetadataRecord, ...]:
    """Records for everything in the image except its offset and epoch, which the snapshot itself has."""
    return (
        *(FeatureLevelRecord(name=name, level=level) for name, level in image.features.items()),
        *_brokers(image),
        *_topics(image),
        *_configs(image),
        *itertools.starmap(acl_record, image.acls.items()),
        *_scram_credentials(image),
        # The owner of the last block mattered only when it was given out.
        ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id),
    )


def image_of(records: tuple[MetadataRecord, ...], *, end_offset: int, epoch: int) -> MetadataImage:
    """The image that stands for all entries below `end_offset`. Raises ValueError if the records cannot form one."""
    return replay(MetadataImage(), records, offset=end_offset - 1, epoch=epoch)


def _brokers(image: MetadataImage) -> Iterator[MetadataRecord]:
    for broker in image.brokers.values():
        yield RegisterBrokerRecord(
            broker_id=broker.broker_id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.broker_epoch,
            endpoints=tuple(broker.endpoints.values()),
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_directories=tuple(sorted(broker.log_directories)),
            cordoned_directories=tuple(sorted(broker.cordoned_directories)) or None,
            offline_directories=tuple(sorted(broker.offline_directories)),
        )


def _topics(image: MetadataImage) -> Iterator[MetadataRecord]:
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for index, state in enumerate(topic.partitions):
            yield PartitionRecord(
                topic_id=topic.topic_id,
                partition=index,
                replicas=state.replicas,
                isr=state.isr,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                adding=state.adding,
                removing=state.removing,
                elr=state.elr,
                last_known_elr=state.last_known_elr,
                directories=state.directories,
            )


def _configs(image: MetadataImage) -> Iterator[MetadataRecord]:
    for resource_type in (TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE):
        for resource_name, values in image.configs_of(resource_type).items():
            for name, value in values.items():
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)


def _scram_credentials(image: MetadataImage) -> Iterator[MetadataRecord]:
    for name, credentials in image.scram_credentials.items():
        for mechanism, credential in credentials.items():
            yield UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )


def acl_record(acl_id: UUID, binding: AclBinding) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id=acl_id,
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )

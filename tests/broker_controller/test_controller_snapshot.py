"""An image, written as the records of a snapshot and replayed, is the same image."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.controller.record_codec import decode_records, encode_records
from broker.controller.records import (
    UNFENCE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    Endpoint,
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
from broker.controller.replay import replay
from broker.controller.snapshot import image_of, image_records

TOPIC, GONE = UUID(int=7), UUID(int=8)


def partition(topic_id: UUID, index: int) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition=index,
        replicas=(1, 2),
        isr=(1, 2),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


RECORDS: tuple[MetadataRecord, ...] = (
    FeatureLevelRecord(name="metadata.version", level=1),
    *(
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=broker_id),
            broker_epoch=broker_id,
            endpoints=(
                Endpoint(listener="INTERNAL", host="h", port=9),
                Endpoint(listener="EXTERNAL", host="h", port=8),
            ),
            rack="r" if broker_id == 1 else None,
            fenced=True,
            in_controlled_shutdown=False,
        )
        for broker_id in (1, 2, 3, 4)
    ),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=UNFENCE),
    BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=UNFENCE, in_controlled_shutdown=1),
    UnregisterBrokerRecord(broker_id=4, broker_epoch=4),
    TopicRecord(name="t", topic_id=TOPIC),
    partition(TOPIC, 0),
    partition(TOPIC, 1),
    TopicRecord(name="gone", topic_id=GONE),
    partition(GONE, 0),
    PartitionChangeRecord(topic_id=TOPIC, partition=1, isr=(2,), leader=-1),
    PartitionChangeRecord(
        topic_id=TOPIC,
        partition=0,
        isr=(1, 2),
        replicas=(3, 2, 1),
        adding=(3,),
        removing=(1,),
    ),
    ClearElrRecord(topic="t"),
    PartitionChangeRecord(topic_id=TOPIC, partition=1, isr=(), elr=(1, 2), last_known_elr=(2,)),
    ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="7"),
    ConfigRecord(resource_type=4, resource_name="2", name="log.retention.ms", value="9"),
    ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=3_000),
    RemoveTopicRecord(topic_id=GONE),
    *(
        AccessControlEntryRecord(
            acl_id=UUID(int=number),
            resource_type=2,
            resource_name="t",
            pattern_type=4,
            principal=f"User:{number}",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in (1, 2)
    ),
    RemoveAccessControlEntryRecord(acl_id=UUID(int=1)),
    *(
        UserScramCredentialRecord(
            name=name, mechanism=mechanism, salt=b"\0s", stored_key=b"\xff", server_key=b"k", iterations=4096
        )
        for name, mechanism in (("u", 1), ("u", 2), ("gone", 2))
    ),
    RemoveUserScramCredentialRecord(name="gone", mechanism=2),
    RemoveUserScramCredentialRecord(name="u", mechanism=1),
)


def test_every_kind_of_record_is_in_the_example() -> None:
    assert {type(each) for each in RECORDS} == set(get_args(MetadataRecord))


def test_an_image_and_what_its_records_make_are_equal() -> None:
    image = replay(MetadataImage(), RECORDS, offset=41, epoch=3)
    image.check_invariants()
    records = decode_records(encode_records(image_records(image)))
    assert image_of(records, end_offset=42, epoch=3) == image
    assert len(records) < len(RECORDS)


def test_the_image_of_nothing() -> None:
    image = replay(MetadataImage(), (), offset=0, epoch=1)
    assert image_of(image_records(image), end_offset=1, epoch=1) == image


def test_what_only_an_earlier_version_gave_a_meaning_is_read_past() -> None:
    """The level and the settings of streams groups (KIP-1071), and subscriptions of clients' metrics (KIP-714)."""
    gone = (
        FeatureLevelRecord(name="streams.version", level=1),
        ConfigRecord(resource_type=16, resource_name="m", name="interval.ms", value="100"),
        ConfigRecord(resource_type=32, resource_name="g", name="streams.num.standby.replicas", value="1"),
    )
    image = image_of((*gone, *RECORDS, *gone), end_offset=42, epoch=3)
    assert image == replay(MetadataImage(), RECORDS, offset=41, epoch=3)
    removals = (
        FeatureLevelRecord(name="streams.version", level=0),
        *(replace(each, value=None) for each in gone if isinstance(each, ConfigRecord)),
    )
    assert replay(image, removals, offset=42, epoch=3) == replace(image, offset=42)

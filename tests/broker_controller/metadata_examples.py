"""Metadata records of every type, with every field set, and with the fields that may be absent left out.

`metadata_records.jsonl` beside this file holds what Apache Kafka 4.3.1 made of each: its name, version and fields, and
the bytes that its own serde writes for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.controller.records import (
    FENCE,
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

GOLDEN = Path(__file__).with_name("metadata_records.jsonl")
TOPIC, OTHER = UUID("6a3f1d20-1c53-4f7e-9a56-0d5c9b1e7f01"), UUID("0f0e0d0c-0b0a-4908-8706-050403020100")

EXAMPLES: tuple[MetadataRecord, ...] = (
    FeatureLevelRecord(name="metadata.version", level=30),
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=OTHER,
        broker_epoch=2**40 + 5,
        endpoints=(
            Endpoint(listener="EXTERNAL", host="127.0.0.1", port=9092),
            Endpoint(listener="CLIENTS", host="broker.example", port=65_535, security_protocol=3),
        ),
        rack="rack-a",
        fenced=True,
        in_controlled_shutdown=False,
        log_directories=(OTHER, TOPIC),
    ),
    RegisterBrokerRecord(
        broker_id=2,
        incarnation_id=None,
        broker_epoch=7,
        endpoints=(),
        rack=None,
        fenced=False,
        in_controlled_shutdown=True,
        cordoned_directories=(OTHER,),
        offline_directories=(TOPIC, OTHER),
    ),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=FENCE),
    BrokerRegistrationChangeRecord(
        broker_id=2, broker_epoch=9, fenced=UNFENCE, in_controlled_shutdown=1, offline_directories=(OTHER,)
    ),
    BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=9, fenced=UNFENCE, log_directories=(OTHER,)),
    BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=9, fenced=UNFENCE, cordoned_directories=()),
    BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=9, fenced=FENCE, cordoned_directories=(OTHER, TOPIC)),
    UnregisterBrokerRecord(broker_id=3, broker_epoch=10),
    TopicRecord(name="orders", topic_id=TOPIC),
    RemoveTopicRecord(topic_id=TOPIC),
    PartitionRecord(
        partition=0, topic_id=TOPIC, replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=4, partition_epoch=9
    ),
    PartitionRecord(
        partition=300,
        topic_id=TOPIC,
        replicas=(1, 2, 3, 4),
        isr=(),
        removing=(1,),
        adding=(4,),
        leader=-1,
        leader_epoch=2**31 - 1,
        partition_epoch=2**31 - 1,
        elr=(2, 3),
        last_known_elr=(2,),
        directories=(TOPIC, None, OTHER, None),
    ),
    PartitionChangeRecord(partition=0, topic_id=TOPIC, isr=(1, 2)),
    PartitionChangeRecord(partition=0, topic_id=TOPIC, isr=(), leader=-1, elr=(2,), last_known_elr=(1,)),
    PartitionChangeRecord(
        partition=1,
        topic_id=TOPIC,
        isr=(3,),
        leader=3,
        replicas=(3, 4),
        removing=(),
        adding=(),
        elr=(),
        last_known_elr=(),
    ),
    PartitionChangeRecord(partition=2, topic_id=TOPIC, leader=0),
    PartitionChangeRecord(partition=2, topic_id=TOPIC, directories=(None, OTHER)),
    PartitionChangeRecord(partition=2, topic_id=TOPIC, replicas=(1, 3), directories=(TOPIC, OTHER)),
    ClearElrRecord(topic="orders"),
    ClearElrRecord(topic=""),
    ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="60000"),
    ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value=None),
    ProducerIdsRecord(broker_id=1, broker_epoch=9, next_producer_id=2_000),
    AccessControlEntryRecord(
        acl_id=OTHER,
        resource_type=2,
        resource_name="orders",
        pattern_type=4,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    ),
    RemoveAccessControlEntryRecord(acl_id=OTHER),
    UserScramCredentialRecord(
        name="alice", mechanism=2, salt=b"\0salt", stored_key=b"\xff" * 64, server_key=b"k" * 600, iterations=8192
    ),
    RemoveUserScramCredentialRecord(name="älice", mechanism=1),
)


def tag_of(field: Any) -> int | None:
    found: int | None = field.metadata.get("tag")
    return found


def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]

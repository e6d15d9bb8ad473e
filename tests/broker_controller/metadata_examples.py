"""Metadata records of every type, with every field set, and with the fields that may be absent left out.

`metadata_records.jsonl` beside this file holds what Apache Kafka 4.3.1 made of each: its name, version and fields, and
the bytes that its own serde writes for it. To make it anew: python -m tests.broker_controller.metadata_examples
"""

from __future__ import annotations

import base64
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

from broker.controller.record_codec import encode_records
from broker.controller.records import (
    FENCE,
    OWN_TAGS,
    UNFENCE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    Endpoint,
    EntityPart,
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
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import run_command

GOLDEN = Path(__file__).with_name("metadata_records.jsonl")
PROGRAM = Path(__file__).with_name("java") / "MetadataSerde.java"
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
    ClientQuotaRecord(
        entity=(EntityPart(kind="client-id", name=None), EntityPart(kind="user", name="alice")),
        key="request_percentage",
        value=12.5,
        remove=False,
    ),
    ClientQuotaRecord(entity=(EntityPart(kind="ip", name="::1"),), key="connection_rate", value=0, remove=True),
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


# Kafka's names of our fields, in the order of both. A field of our own has none.
NAMES: dict[type, str] = {
    FeatureLevelRecord: "name featureLevel",
    RegisterBrokerRecord: (
        "brokerId isMigratingZkBroker incarnationId brokerEpoch endPoints features rack fenced inControlledShutdown "
        "logDirs cordonedLogDirs"
    ),
    BrokerRegistrationChangeRecord: "brokerId brokerEpoch fenced inControlledShutdown logDirs cordonedLogDirs",
    UnregisterBrokerRecord: "brokerId brokerEpoch",
    TopicRecord: "name topicId",
    RemoveTopicRecord: "topicId",
    PartitionRecord: (
        "partitionId topicId replicas isr removingReplicas addingReplicas leader leaderEpoch partitionEpoch "
        "directories leaderRecoveryState eligibleLeaderReplicas lastKnownElr"
    ),
    PartitionChangeRecord: (
        "partitionId topicId isr leader replicas removingReplicas addingReplicas leaderRecoveryState "
        "eligibleLeaderReplicas lastKnownElr directories"
    ),
    ClearElrRecord: "topicName",
    ConfigRecord: "resourceType resourceName name value",
    ProducerIdsRecord: "brokerId brokerEpoch nextProducerId",
    ClientQuotaRecord: "entity key value remove",
    AccessControlEntryRecord: ("id resourceType resourceName patternType principal host operation permissionType"),
    RemoveAccessControlEntryRecord: "id",
    UserScramCredentialRecord: "name mechanism salt storedKey serverKey iterations",
    RemoveUserScramCredentialRecord: "name mechanism",
    Endpoint: "name host port securityProtocol",
    EntityPart: "entityType entityName",
}


def tag_of(field: Any) -> int | None:
    found: int | None = field.metadata.get("tag")
    return found


def as_kafka_prints(value: object) -> object:
    match value:
        case UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [as_kafka_prints(UUID(int=0) if each is None else each) for each in value]
        case Endpoint() | EntityPart():
            return printed(value)
        case _:
            return value


def printed(record: object) -> dict[str, object]:
    """As Apache Kafka prints it: a tagged field with its default is left out."""
    ours = [each for each in fields(record) if (tag_of(each) or 0) < OWN_TAGS]  # type: ignore[arg-type]
    found = {}
    for field, name in zip(ours, NAMES[type(record)].split(), strict=True):
        value = getattr(record, field.name)
        if tag_of(field) is None or value != field.default:
            found[name] = as_kafka_prints(value)
    if "incarnationId" in found and found["incarnationId"] is None:
        found["incarnationId"] = as_kafka_prints(UUID(int=0))
    return found


def read_by_kafka(values: tuple[bytes, ...]) -> list[dict[str, Any]]:
    """What Apache Kafka's MetadataRecordSerde makes of each."""
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", f"{ensure_jars()}/*", str(PROGRAM)]
    lines = "".join(f"{value.hex()}\n" for value in values)
    done = run_command(command, input=lines)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


if __name__ == "__main__":
    GOLDEN.write_text("".join(json.dumps(each) + "\n" for each in read_by_kafka(encode_records(EXAMPLES))))
    sys.stderr.write(f"{GOLDEN}\n")

"""Settings of brokers that change at run time (KIP-226): which values are taken, and what is told of them, as by Apache
Kafka. And that the change takes effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from wire_helper import ask

from broker.controller.image import BROKER_RESOURCE, GROUP_RESOURCE
from broker.node.handlers.config_answers import DELETE, SET
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch
from tests.patience import wait_until

INTERVAL, SHARE_INTERVAL = "group.consumer.assignment.interval.ms", "group.share.assignment.interval.ms"
EXPIRATION, VERIFICATION = "producer.id.expiration.ms", "transaction.partition.verification.enable"
OF_A_GROUP = tuple(f"{kind}.assignment.interval.ms" for kind in ("consumer", "share"))
VALUES = {
    INTERVAL: ("0", "700", "15000", "15001", "2147483647", "-1", "x"),
    SHARE_INTERVAL: ("0", "700", "15000", "15001", "-1"),
    EXPIRATION: ("1", "700000", "0", "-1", "2147483648", ""),
    VERIFICATION: ("false", "TRUE", "no"),
}


def change(port: int, name: str, value: str | None, broker: str, *, validate_only: bool = False) -> Any:
    config = {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": broker, "configs": [config]}
    (answer,) = ask(
        port, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=validate_only
    ).responses
    return answer


def described(port: int, kind: int, name: str, keys: list[str]) -> list[Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    (result,) = ask(
        port, ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], include_synonyms=True, include_documentation=False
    ).results
    return sorted(
        (
            each.name, each.value, each.read_only, each.config_source, each.config_type,
            [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
        ) for each in result.configs
    )  # fmt: skip


def script(port: int) -> list[tuple[str, Any]]:
    told: list[tuple[str, Any]] = []
    for name, values in VALUES.items():
        for broker in ("", "1"):
            for value in values:
                answer = change(port, name, value, broker)
                told.append((f"{name}={value} of {broker!r}", (answer.error_code.name, answer.error_message)))
                if answer.error_code is not ErrorCode.none:
                    continue

                def is_known(name: str = name, value: str = value) -> bool:
                    ((_, found, *_),) = described(port, BROKER_RESOURCE, "1", [name])
                    return str(found).lower() == value.lower()

                wait_until(is_known, f"{name}={value} in effect")
                label = f"{name}={value} of {broker!r}"
                told.append((f"{label}: broker", described(port, BROKER_RESOURCE, "1", [name])))
                told.append((f"{label}: all", described(port, BROKER_RESOURCE, "", [name])))
                told.append((f"{label}: group", described(port, GROUP_RESOURCE, "g", list(OF_A_GROUP))))
        for broker in ("1", ""):
            change(port, name, None, broker)
    return told


def until(port: int, name: str, value: str) -> None:
    assert change(port, name, value, "").error_code is ErrorCode.none
    wait_until(lambda: described(port, BROKER_RESOURCE, "1", [name])[0][1] == value, f"{name}={value} in effect")


def find_coordinator(port: int, key_type: int, key: str) -> None:
    """The first one who asks for it has its topic created."""

    def is_there() -> bool:
        answer = ask(port, ApiKey.FIND_COORDINATOR, 4, key_type=key_type, coordinator_keys=[key])
        return answer.coordinators[0].error_code is ErrorCode.none

    wait_until(is_there, f"the coordinator of {key}")


def verified_or_not(port: int) -> list[ErrorCode]:
    """Of a producer that did not add the partition to its transaction: with verification, without, and with it."""
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    ask(port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=10_000, validate_only=False)
    found = []
    for number, value in enumerate(("true", "false", "true")):
        until(port, VERIFICATION, value)
        name = f"producer-{number}"
        find_coordinator(port, 1, name)

        def made(name: str = name) -> Any:
            answer = ask(
                port, ApiKey.INIT_PRODUCER_ID, 4, transactional_id=name, transaction_timeout=60_000, producer_id=-1,
                producer_epoch=-1,
            )  # fmt: skip
            return answer if answer.error_code is ErrorCode.none else None

        answer = wait_until(made, "a producer id")
        batch = encode_batch(
            [b"v"], timestamps_ms=1, producer_id=answer.producer_id, producer_epoch=answer.producer_epoch,
            base_sequence=0, transactional=True,
        )  # fmt: skip
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
        told = ask(port, ApiKey.PRODUCE, 11, transactional_id=name, acks=-1, timeout=10_000, topic_data=data)
        found.append(told.responses[0].partition_responses[0].error_code)
    return found


def epochs_as_the_interval_changes(port: int) -> list[int]:
    """The second member of a group gets its assignment only when the interval allows it."""
    group = {"group_id": "g", "instance_id": None, "rack_id": None, "subscribed_topic_regex": None}
    later = {**group, "rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
    first = {**group, "rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}

    def beat(member: str, epoch: int) -> Any:
        values = {**(later if epoch else first), "server_assignor": None}
        return ask(port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, member_id=member, member_epoch=epoch, **values)

    until(port, INTERVAL, "15000")
    find_coordinator(port, 0, "g")
    joined = wait_until(lambda: (found := beat("a", 0)).error_code is ErrorCode.none and found, "the coordinator")
    second = beat("b", 0)
    beat("c", 0)
    found = [joined.member_epoch, second.member_epoch, beat("b", second.member_epoch).member_epoch]
    until(port, INTERVAL, "0")
    return [*found, beat("b", second.member_epoch).member_epoch]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "ours").mkdir()
    with Cluster(tmp_path / "ours", brokers=1) as cluster:
        yield cluster.ports[1]["DIRECT"]


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.long
def test_changes_are_answered_and_told_as_by_apache_kafka(tmp_path: Path, ours: int) -> None:
    (tmp_path / "kafka").mkdir()
    with kafka_node(tmp_path / "kafka", {}) as theirs:
        expected = script(theirs)
    got = script(ours)
    wanted, found = dict(expected), dict(got)
    different = [
        f"{label}\n  Apache Kafka: {wanted.get(label)}\n  ours:         {found.get(label)}"
        for label in [*wanted, *(found.keys() - wanted.keys())]
        if wanted.get(label) != found.get(label)
    ]
    assert not different, "\n".join(different)
    assert len(got) == len(found), "each label once"


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.long
def test_changes_take_effect_as_in_apache_kafka(tmp_path: Path, ours: int) -> None:
    (tmp_path / "kafka").mkdir()
    with kafka_node(tmp_path / "kafka", {"transaction.state.log.num.partitions": 2}) as theirs:
        verified = verified_or_not(theirs)
        epochs = epochs_as_the_interval_changes(theirs)
    refused = ErrorCode.transaction_abortable
    assert verified_or_not(ours) == verified == [refused, ErrorCode.none, refused]
    assert epochs_as_the_interval_changes(ours) == epochs == [2, 2, 2, 4]

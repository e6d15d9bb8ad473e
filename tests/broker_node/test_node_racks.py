"""Brokers in racks: replicas on different ones, and consumers that read from the follower in theirs (KIP-392)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET
from confluent_kafka import Consumer
from wire_helper import ask

from broker.client.core.metadata import PartitionState
from broker.door.clients import Admin, NewTopic, Producer, TopicPartition
from broker.door.clients import Consumer as BrokerConsumer
from broker.door.questions import changed_replicas
from broker.node.settings.values import RACK_AWARE
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.records import iter_batches
from tests.patience import wait_until

pytestmark = pytest.mark.slow
RACKS = {1: "a", 2: "a", 3: "b"}
TOPIC = "read"
RECORDS = 200
PREFERRED = 0  # the kind of election


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"replica.selector.class": RACK_AWARE, "replica.lag.time.max.ms": 60_000}
    with Cluster(tmp_path_factory.mktemp("racks"), settings=settings, racks=RACKS) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000}) as connected:
        yield connected


@pytest.fixture(scope="module")
def partition(cluster: Cluster, admin: Admin) -> PartitionState:
    """Broker 1 leads, broker 3 in the other rack follows and has everything."""
    return filled(cluster, admin, TOPIC, [b"%d" % number for number in range(RECORDS)])


def filled(cluster: Cluster, admin: Admin, topic: str, values: list[bytes]) -> PartitionState:
    admin.create_topics([NewTopic(topic, 1, 2)])
    key = TopicPartition(topic, 0)
    admin.ask(changed_replicas({key: [1, 3]}, 30_000))

    port = cluster.ports[1]["DIRECT"]

    def state() -> PartitionState:
        return admin.describe_topics([topic])[topic].partitions[0]

    wait_until(lambda: state().replicas == (1, 3) and set(state().isr) == {1, 3}, "it is on brokers 1 and 3")
    # A busy host fences a broker for a moment, which then cannot be elected.
    topics = [{"topic": topic, "partitions": [0]}]
    elects = {"election_type": PREFERRED, "topic_partitions": topics, "timeout": 10_000}
    wait_until(lambda: ask(port, ApiKey.ELECT_LEADERS, 2, **elects) and state().leader == 1, "broker 1 leads")
    with Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all"}) as producer:
        for future in [producer.send(topic, value) for value in values]:
            future.get(60)
    return state()


def fetch(port: int, *, rack: str, offset: int = 0, version: int = 12) -> Any:
    asked = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    answer = ask(
        port,
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=200,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": TOPIC, "partitions": [asked]}],
        forgotten_topics_data=[],
        **({"rack_id": rack} if version >= 11 else {}),
    )
    return answer.responses[0].partitions[0]


def test_replicas_go_to_different_racks(cluster: Cluster, admin: Admin) -> None:
    admin.create_topics([NewTopic("spread", 8, 2)])
    states = wait_until(lambda: admin.describe_topics(["spread"])["spread"].partitions, "it is known")
    assert all({RACKS[broker] for broker in state.replicas} == {"a", "b"} for state in states)


def test_metadata_tells_the_racks(cluster: Cluster) -> None:
    answer = ask(cluster.ports[1]["DIRECT"], ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert {each.node_id: each.rack for each in answer.brokers} == RACKS


def test_a_leader_names_the_follower_in_the_consumers_rack(cluster: Cluster, partition: PartitionState) -> None:
    leader = cluster.ports[1]["DIRECT"]
    told = fetch(leader, rack="b")
    assert (told.preferred_read_replica, told.records or b"", told.error_code) == (3, b"", ErrorCode.none)
    assert told.high_watermark == RECORDS
    for rack in ("", "a", "nowhere"):
        told = fetch(leader, rack=rack)
        assert told.preferred_read_replica == -1
        assert told.records, rack
    # An offset that the follower cannot have is the leader's to judge.
    assert fetch(leader, rack="b", offset=RECORDS + 1).error_code is ErrorCode.offset_out_of_range


def test_a_follower_serves_what_is_committed(cluster: Cluster, partition: PartitionState) -> None:
    follower = cluster.ports[3]["DIRECT"]
    wait_until(lambda: fetch(follower, rack="b").high_watermark == RECORDS, "it knows that all is committed")
    offset = 0
    while offset < RECORDS:
        told = fetch(follower, rack="", offset=offset)
        assert told.error_code is ErrorCode.none
        for batch in iter_batches(told.records):
            assert batch.header.base_offset <= offset < batch.header.next_offset
            offset = batch.header.next_offset
    assert not fetch(follower, rack="b", offset=RECORDS).records
    # Older consumers do not know that there is anybody but leaders.
    assert fetch(follower, rack="", version=10).error_code is ErrorCode.not_leader_or_follower
    assert fetch(cluster.ports[2]["DIRECT"], rack="a").error_code is ErrorCode.not_leader_or_follower


def test_librdkafka_reads_from_the_follower_in_its_rack(cluster: Cluster, partition: PartitionState) -> None:
    statistics: list[dict[str, Any]] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": "rack",
            "client.rack": "b",
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: statistics.append(json.loads(text)),
            **QUIET,
        }
    )

    def read_from() -> int:
        """The broker that the last statistics name for the partition's fetches."""
        if not statistics or TOPIC not in statistics[-1]["topics"]:
            return -1
        return int(statistics[-1]["topics"][TOPIC]["partitions"]["0"]["broker"])

    try:
        consumer.subscribe([TOPIC])
        values: list[bytes] = []

        def is_read() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(message.value())
            return len(values) >= RECORDS and read_from() == 3

        wait_until(is_read, "all is read, from broker 3", 120)
        assert values == [b"%d" % number for number in range(RECORDS)]
    finally:
        consumer.close()


def test_our_client_reads_from_the_follower_in_its_rack(cluster: Cluster, admin: Admin) -> None:
    values = [b"%d" % number for number in range(RECORDS)]
    filled(cluster, admin, "ours", values)
    partition = TopicPartition("ours", 0)
    settings = {"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}
    for rack, source in (("b", 3), ("a", None), ("", None)):
        with BrokerConsumer({**settings, "client.rack": rack}) as consumer:
            consumer.assign([partition])
            found: list[bytes | None] = []

            def is_read(
                consumer: BrokerConsumer = consumer, found: list[bytes | None] = found, source: int | None = source
            ) -> bool:
                """From the leader for a while, if a busy host keeps the follower from an answer."""
                found.extend(record.value for record in consumer.poll(500))
                return len(found) >= RECORDS and consumer.read_replica(partition) == source

            wait_until(is_read, f"all is read, from {source} in rack {rack!r}", 120)
            assert found == values

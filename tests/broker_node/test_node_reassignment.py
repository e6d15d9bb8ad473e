"""Real brokers: replicas move under load or are taken back, and a broker leaves the cluster and joins it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_helper import Cluster

from broker.client.core.metadata import PartitionState
from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from broker.door.questions import changed_replicas, reassignments, unregistered_broker
from tests.patience import wait_until

pytestmark = pytest.mark.slow
VALUES = 2_000
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("moves"), brokers=4) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000}) as connected:
        yield connected


def state(admin: Admin, partition: TopicPartition) -> PartitionState:
    return admin.describe_topics([partition.topic])[partition.topic].partitions[partition.partition]


def is_at(admin: Admin, partition: TopicPartition, *replicas: int) -> bool:
    now = state(admin, partition)
    return now.replicas == replicas and set(now.isr) == set(replicas)


def reassign(admin: Admin, partition: TopicPartition, *replicas: int) -> bool:
    """False if the broker that was asked has died."""
    try:
        assert admin.ask(changed_replicas({partition: replicas}, TIMEOUT_MS)) == {partition: None}
    except KafkaError as error:
        if not error.retriable:
            raise
        return False
    return True


def brokers(admin: Admin) -> set[int]:
    return {each.broker_id for each in admin.describe_cluster().brokers}


def has_log(cluster: Cluster, broker: int, partition: TopicPartition) -> bool:
    return (cluster.log_dir(broker) / f"{partition.topic}-{partition.partition}").exists()


def create(admin: Admin, topic: str, *replicas: int) -> TopicPartition:
    admin.create_topics([NewTopic(topic, 1, len(replicas))])
    partition = TopicPartition(topic, 0)
    admin.ask(changed_replicas({partition: replicas}, TIMEOUT_MS))
    wait_until(lambda: is_at(admin, partition, *replicas), f"{topic} is on {replicas}")
    return partition


def test_a_partition_moves_to_other_brokers_under_load_and_loses_nothing(cluster: Cluster, admin: Admin) -> None:
    partition = create(admin, "moved", 1, 2)
    with Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "linger.ms": 2}) as producer:
        futures = []
        for number in range(VALUES):
            futures.append(producer.send("moved", b"%d" % number))
            if number == VALUES // 4:
                wait_until(lambda: futures[0].done(), "the load has begun")
                assert admin.ask(changed_replicas({partition: [3, 4]}, TIMEOUT_MS)) == {partition: None}
        producer.flush(120)
        assert [future.get(60).offset for future in futures] == list(range(VALUES))
    wait_until(lambda: is_at(admin, partition, 3, 4), "it is on its new brokers")
    assert admin.ask(reassignments(None, TIMEOUT_MS)) == {}
    with Consumer({"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        values: list[bytes | None] = []
        wait_until(
            lambda: values.extend(each.value for each in consumer.poll(500)) or len(values) >= VALUES, "all read"
        )
    assert values == [b"%d" % number for number in range(VALUES)]
    for broker in (1, 2):
        wait_until(lambda broker=broker: not has_log(cluster, broker, partition), f"broker {broker} removed its log")
    assert all(has_log(cluster, broker, partition) for broker in (3, 4))


def test_what_cannot_arrive_is_told_and_taken_back_and_a_broker_leaves_and_joins(
    cluster: Cluster, admin: Admin
) -> None:
    partition = create(admin, "stuck", 1, 2)
    cluster.kill(4)
    wait_until(lambda: reassign(admin, partition, 1, 4), "a broker that lives took the request")
    (found,) = admin.ask(reassignments(None, TIMEOUT_MS)).values()
    assert (found.replicas, found.adding, found.removing) == ((1, 4, 2), (4,), (2,))
    assert set(admin.ask(reassignments([partition], TIMEOUT_MS))) == {partition}
    wait_until(lambda: state(admin, partition).replicas == (1, 4, 2), "brokers tell it too")
    assert admin.ask(changed_replicas({partition: None}, TIMEOUT_MS)) == {partition: None}
    wait_until(lambda: is_at(admin, partition, 1, 2), "it is back")
    # Its other partition goes to brokers that live; then nothing is left of it, and it is forgotten.
    moved = TopicPartition("moved", 0)
    if 4 in state(admin, moved).replicas:
        admin.ask(changed_replicas({moved: [3, 1]}, TIMEOUT_MS))
        wait_until(lambda: is_at(admin, moved, 3, 1), "broker 4 has no replica")
    admin.ask(unregistered_broker(4))
    assert 4 not in brokers(admin)
    # What it had is strange to it now, and goes.
    cluster.start(4)
    wait_until(lambda: 4 in brokers(admin), "it has joined anew")
    wait_until(lambda: not has_log(cluster, 4, moved), "it removed the log that is not its any more")
    admin.ask(changed_replicas({partition: [4, 2]}, TIMEOUT_MS))
    wait_until(lambda: is_at(admin, partition, 4, 2), "a broker that joined gets replicas")

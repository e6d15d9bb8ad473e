"""Clusters of runs whose brokers are in racks: consumers read from the follower in theirs, through the proxies too."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.door.clients import Consumer, Producer, TopicPartition
from broker.node.settings import values
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import has_jars, jar_directory
from harness.clusters.process_cluster import ProcessCluster
from harness.clusters.requests.admin import Admin
from harness.lint import RACK_AWARE
from tests.patience import wait_until

pytestmark = [pytest.mark.slow]
ON_APACHE_KAFKA = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
RACKS = ("a", "b", "c")
PARTITION = TopicPartition("t", 0)
VALUES = [b"%d" % number for number in range(200)]


def write(cluster: ProcessCluster, values: list[bytes]) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}) as producer:
        for future in [producer.send("t", value) for value in values]:
            future.get(60)


def test_the_lint_knows_the_selector_of_brokers() -> None:
    assert RACK_AWARE == values.RACK_AWARE


@pytest.mark.long
@pytest.mark.parametrize("engine", ["reference", pytest.param("kafka", marks=ON_APACHE_KAFKA)])
def test_consumers_read_from_the_follower_in_their_rack_until_it_dies(tmp_path: Path, engine: Engine) -> None:
    settings = (("replica.selector.class", RACK_AWARE),)
    key = ClusterKey(engine=engine, proxied=True, brokers=3, racks=RACKS, settings=settings)
    cluster = build_cluster(key, tmp_path, proxy_choice="embedded", lease=None, seed=0)
    try:
        cluster.start()
        Admin(cluster.direct_addresses).create_topic("t", partitions=1, replication_factor=3, config={})
        assert cluster.wait_healthy("t", timeout_s=240, replication_factor=3)
        write(cluster, VALUES[:100])
        leader = cluster.leader("t", 0)
        follower = next(broker for broker in cluster.broker_ids if broker != leader)
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "auto.offset.reset": "earliest",
                "client.rack": RACKS[follower - 1],
            }
        )
        with consumer:
            consumer.assign([PARTITION])
            found: list[bytes | None] = []

            def has(count: int) -> bool:
                found.extend(record.value for record in consumer.poll(500))
                return len(found) >= count

            wait_until(lambda: has(100), "the first half")
            assert consumer.read_replica(PARTITION) == follower
            cluster.kill(follower)
            write(cluster, VALUES[100:])
            wait_until(lambda: has(200), "the second half")
            assert found == VALUES
            assert consumer.read_replica(PARTITION) is None
    finally:
        cluster.stop()
    cluster.remove_data()

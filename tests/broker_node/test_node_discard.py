"""A null broker (`harness.discard`) and LogAppendTime, by librdkafka against one real broker process each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from confluent_helper import create_topic, wait_brokers
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition

pytestmark = pytest.mark.slow


def _produce(cluster: Cluster, topic: str, count: int) -> list[Any]:
    delivered: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "linger.ms": 1, "batch.num.messages": 7})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, partition=0, on_delivery=lambda error, message: delivered.append(message)
        )
    assert producer.flush(60) == 0
    assert [message.error() for message in delivered] == [None] * count
    return delivered


def test_a_discarding_broker_acknowledges_with_dense_offsets_and_stores_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1, settings={"harness.discard": "true"}) as cluster:
        wait_brokers(cluster)
        create_topic(cluster, "t", partitions=1)
        assert [message.offset() for message in _produce(cluster, "t", 100)] == list(range(100))
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g"})
        assert consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60) == (0, 0)
        consumer.close()
        assert "discarding" in cluster.stderr(1)


def test_log_append_time_is_in_the_answer_and_in_the_log(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        wait_brokers(cluster)
        create_topic(cluster, "t", config={"message.timestamp.type": "LogAppendTime"})
        before_ms = time.time_ns() // 1_000_000
        delivered = _produce(cluster, "t", 20)
        after_ms = time.time_ns() // 1_000_000
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g", "check.crcs": True})
        consumer.assign([TopicPartition("t", 0, OFFSET_BEGINNING)])
        read: list[Any] = []
        while len(read) < 20:
            batch = consumer.consume(20 - len(read), timeout=60)
            assert batch
            read += batch
        consumer.close()
        for told, found in zip(delivered, read, strict=True):
            assert found.error() is None
            kind, append_ms = found.timestamp()
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            assert before_ms <= append_ms <= after_ms
            assert told.timestamp() == (TIMESTAMP_LOG_APPEND_TIME, append_ms)

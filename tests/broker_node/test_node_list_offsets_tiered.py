"""What tiered storage would tell (ListOffsets with -4, -5 and, since version 11, -6): answers beside Apache Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from wire_helper import ask

from broker.door.clients import Admin, NewTopic, Producer
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = pytest.mark.slow
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


@contextmanager
def reference_broker(directory: Path) -> Iterator[int]:
    with Cluster(directory, brokers=1) as cluster:
        yield cluster.ports[1]["DIRECT"]


@contextmanager
def apache_kafka(directory: Path) -> Iterator[int]:
    with kafka_node(directory, {}) as port:
        yield port


@pytest.mark.parametrize(
    "running",
    [reference_broker, pytest.param(apache_kafka, marks=[pytest.mark.kafka, pytest.mark.long])],
)
def test_a_partition_without_tiered_storage_has_nothing_there(running: type, tmp_path: Path) -> None:
    with running(tmp_path) as port:
        bootstrap = {"bootstrap.servers": f"127.0.0.1:{port}"}
        with Admin({**bootstrap, "default.api.timeout.ms": 120_000}) as admin:
            wait_until(lambda: admin.describe_cluster().brokers, "the broker")
            admin.create_topics([NewTopic("t", 1)])
        with Producer(bootstrap) as producer:
            producer.send("t", b"value", partition=0).get(60)

        def found(version: int, timestamp: int) -> tuple[ErrorCode, int, int]:
            partitions = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
            asked = [{"name": "t", "partitions": partitions}]
            answer = ask(port, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, topics=asked)
            (partition,) = answer.topics[0].partitions
            return partition.error_code, partition.timestamp, partition.offset

        assert found(11, EARLIEST_LOCAL) == (ErrorCode.none, -1, 0)
        assert found(11, LATEST_TIERED) == (ErrorCode.none, -1, -1)
        assert found(11, EARLIEST_PENDING_UPLOAD) == (ErrorCode.none, -1, -1)
        assert found(10, EARLIEST_PENDING_UPLOAD) == (ErrorCode.unsupported_version, -1, -1)
        assert found(8, LATEST_TIERED) == (ErrorCode.unsupported_version, -1, -1)

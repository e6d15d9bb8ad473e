"""A record that a client may send costs nobody but its readers: real brokers, and the records of the review."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import PATIENT, Cluster

from broker.client.core.fetch_state import ConsumerRecord
from broker.door.clients import Admin, Consumer, NewTopic, TopicPartition
from broker.wire.errors import ErrorCode
from tests.broker_node.stored_records import offset_at, produced
from tests.odd_batches import foreign_name
from tests.patience import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, brokers=3, settings=PATIENT) as cluster:
        yield cluster


def test_a_record_with_a_foreign_header_name_takes_no_replica_offline(cluster: Cluster) -> None:
    """One record and one look-up by time for each replica: the partition had no leader and no ISR, for good."""
    bootstrap = f"127.0.0.1:{cluster.ports[1]['EXTERNAL']}"
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        admin.create_topics([NewTopic(name="t", partitions=1, replication_factor=3)])

        def seen() -> tuple[int, list[int]]:
            (part,) = admin.describe_topics(["t"])["t"].partitions
            return part.leader, sorted(part.isr)

        wait_until(lambda: seen()[1] == [1, 2, 3], "the ISR of all brokers")
        leader, _ = seen()
        now_ms = time.time_ns() // 1_000_000
        with socket.create_connection(("127.0.0.1", cluster.ports[leader]["EXTERNAL"]), timeout=60) as connection:
            assert produced(connection, foreign_name(now_ms)).error_code is ErrorCode.none
            for _ in cluster.ids:
                found = offset_at(connection, now_ms)
                assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.none, 0, now_ms)
            assert offset_at(connection, -3).offset == 0, "the largest timestamp"
            assert produced(connection, foreign_name(now_ms)).base_offset == 1
        assert seen() == (leader, [1, 2, 3])
    assert all("partition_offline" not in cluster.stderr(each) for each in cluster.ids)
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        records: list[ConsumerRecord] = []

        def has_read_both() -> bool:
            records.extend(consumer.poll(1_000))
            return len(records) == 2

        wait_until(has_read_both, "both records")
    assert [each.headers for each in records] == [(("\ufffd\ufffd", b"x"),)] * 2, "as a consumer in Java reads it"

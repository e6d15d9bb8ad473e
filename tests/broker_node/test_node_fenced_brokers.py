"""DescribeCluster tells fenced brokers to who asks for them (version 2, KIP-1073), as Apache Kafka does."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_of_two
from wire_helper import ask

from broker.wire.apis import ApiKey
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.patience import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
SESSION = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 500}
SECOND = 2


def told(port: int, version: int, *, with_fenced: bool = False) -> list[tuple[int, bool | None]]:
    """(broker id, whether it is fenced) of the first two brokers."""
    values = {"include_fenced_brokers": with_fenced} if version >= 2 else {}
    answer = ask(port, ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=False, **values)
    return sorted(
        (each.broker_id, getattr(each, "is_fenced", None)) for each in answer.brokers if each.broker_id <= SECOND
    )


def all_told(port: int) -> list[list[tuple[int, bool | None]]]:
    return [told(port, 0), told(port, 2), told(port, 2, with_fenced=True)]


def test_fenced_brokers_are_told_to_who_asks_for_them(tmp_path: Path) -> None:
    for name in ("kafka", "ours"):
        (tmp_path / name).mkdir()
    with (
        kafka_of_two(tmp_path / "kafka", SESSION) as (theirs, second),
        Cluster(tmp_path / "ours", brokers=3, settings=SESSION) as cluster,
    ):
        cluster.wait_until_all_are_known()
        ours = cluster.ports[1]["DIRECT"]
        for port in (theirs, ours):
            wait_until(lambda port=port: len(told(port, 0)) == SECOND, "both brokers")  # type: ignore[misc]
        assert all_told(ours) == all_told(theirs)
        second.kill()
        cluster.kill(SECOND)
        for port in (theirs, ours):
            wait_until(lambda port=port: len(told(port, 0)) == 1, "the second is fenced")  # type: ignore[misc]
        expected = [[(1, None)], [(1, False)], [(1, False), (2, True)]]
        assert all_told(ours) == all_told(theirs) == expected

"""Quotas of changes to the metadata between real processes: what a client is told, beside Apache Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import wire_helper
from cluster_helper import PATIENT, Cluster
from kafka_node import kafka_node
from wire_helper import ask

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import has_jars, jar_directory
from harness.clusters.ports import free_port
from tests.patience import wait_until

pytestmark = pytest.mark.slow
TOPICS_BEFORE_STRICT, DELETE_BEFORE_STRICT, PARTITIONS_BEFORE_STRICT = 5, 4, 2


def set_rate(port: int, rate: float | None) -> None:
    entity = [{"entity_type": "client-id", "entity_name": wire_helper.CLIENT_ID}]
    change = {"key": "controller_mutation_rate", "value": rate or 0.0, "remove": rate is None}
    answer = ask(
        port, ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": [change]}], validate_only=False
    )
    assert [each.error_code for each in answer.entries] == [ErrorCode.none], answer

    def is_known() -> bool:
        parts = [{"entity_type": "client-id", "match_type": 0, "match": wire_helper.CLIENT_ID}]
        told = ask(port, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=parts, strict=False)
        rates = [value.value for entry in told.entries or () for value in entry.values]
        return rates == ([] if rate is None else [rate])

    wait_until(is_known, f"a rate of {rate} is known")


def create(port: int, version: int, name: str, partitions: int) -> Any:
    topic = {
        "name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []
    }  # fmt: skip
    return ask(port, ApiKey.CREATE_TOPICS, version, topics=[topic], timeout=30_000, validate_only=False)


def grow(port: int, version: int, name: str, count: int) -> Any:
    topics = [{"name": name, "count": count, "assignments": None}]
    return ask(port, ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=30_000, validate_only=False)


def delete(port: int, version: int, name: str) -> Any:
    if version >= 6:
        return ask(port, ApiKey.DELETE_TOPICS, version, topics=[{"name": name, "topic_id": None}], timeout=30_000)
    return ask(port, ApiKey.DELETE_TOPICS, version, topic_names=[name], timeout=30_000)


def told(answer: Any) -> tuple[Any, ...]:
    """(error, message, is it told to wait) of the only topic."""
    parts = next(getattr(answer, name) for name in ("topics", "results", "responses") if hasattr(answer, name))
    (part,) = parts
    return part.error_code.name, getattr(part, "error_message", None), answer.throttle_time.total_seconds() > 0


def outcomes(port: int, at: int | None = None) -> list[tuple[Any, ...]]:
    """`at` is the port that the changes are sent to, if it is another one than the quota's."""
    at = at or port
    found = [told(create(at, 7, "small", 1)), told(create(at, 7, "second", 1))]
    set_rate(port, 0.1)  # 1.1 partitions at once, and then one in ten seconds
    found += [
        told(create(at, 7, "large", 20)),  # taken whole
        told(create(at, 7, "more", 1)),
        told(create(at, 7, "small", 1)),  # exists, which is found first
        told(grow(at, 3, "small", 2)),
        told(delete(at, 6, "large")),
        told(delete(at, 5, "large")),
        told(grow(at, PARTITIONS_BEFORE_STRICT, "small", 3)),
        told(create(at, TOPICS_BEFORE_STRICT, "old", 1)),
        told(delete(at, DELETE_BEFORE_STRICT, "large")),
    ]
    set_rate(port, None)
    return [*found, told(create(at, 7, "more", 1)), told(delete(at, 6, "more"))]


EXPECTED = [
    ("none", None, False), ("none", None, False),
    ("none", None, False),
    ("throttling_quota_exceeded", None, True),
    ("topic_already_exists", "Topic 'small' already exists.", False),
    ("throttling_quota_exceeded", None, True), ("throttling_quota_exceeded", None, True),
    ("throttling_quota_exceeded", None, True),
    ("none", None, True), ("none", None, True), ("none", None, True),
    ("none", None, False), ("none", None, False),
]  # fmt: skip


@pytest.mark.long
def test_a_client_over_its_rate_is_refused_or_told_to_wait_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every broker of three, so that requests are passed on to the controller; as another client at each."""
    # A request that is sent twice is charged twice, and a topic that is deleted twice is unknown. So nobody is in a
    # hurry, and a host that is busy for seconds elects no other controller.
    patient = {**PATIENT, "controller.quorum.request.timeout.ms": 30_000, "controller.quorum.fetch.timeout.ms": 30_000}
    with Cluster(tmp_path, brokers=3, settings=patient) as cluster:
        for broker in cluster.ids:
            monkeypatch.setattr(wire_helper, "CLIENT_ID", f"test-{broker}")
            assert outcomes(cluster.ports[broker]["DIRECT"]) == EXPECTED, f"broker {broker}"
            for name in ("small", "second", "old"):
                delete(cluster.ports[broker]["DIRECT"], 6, name)


def test_what_comes_to_the_controllers_own_listener_is_counted_too(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as cluster:
        ports = cluster.ports[1]
        assert outcomes(ports["DIRECT"], ports["CONTROLLER"]) == EXPECTED


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev")
@pytest.mark.parametrize("at_controller", [False, True], ids=["to the broker", "to the controller"])
def test_apache_kafka_says_the_same(tmp_path: Path, at_controller: bool) -> None:
    controller_port = free_port()
    with kafka_node(tmp_path, {}, controller_port) as port:
        assert outcomes(port, controller_port if at_controller else None) == EXPECTED

"""Streams groups under access control lists, here and on Apache Kafka: the same answers, step by step.

127.0.0.1 may do everything. 127.0.0.2 is the application: it gets one permission after the other.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from streams_requests import heartbeat, info, joining, plain, stateful, subtopology, topology
from streams_script import BEAT, DESCRIBE, MISSING_INTERNAL_TOPICS, SETTINGS
from wire_helper import TIMEOUT_S, ask, ask_over

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.differential.guarded import CLUSTER, CREATE, EVERYTHING, GROUP, GUEST, LITERAL, READ, TOPIC, rule
from tests.differential.guarded import DESCRIBE as MAY_DESCRIBE
from tests.differential.guarded import SETTINGS as GUARDED
from tests.patience import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
SHAPE = stateful("app", "in")
TOPICS = ("in", "app-repartition", "app-changelog")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Apache Kafka's, and ours."""
    directory: Path = tmp_path_factory.mktemp("streams-acls")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    settings = {**SETTINGS, **GUARDED}
    with (
        kafka_node(directory / "kafka", settings) as theirs,
        Cluster(directory / "ours", brokers=1, settings=settings) as ours,
    ):
        found = theirs, ours.ports[1]["DIRECT"]
        for port in found:
            topic: dict[str, Any] = {
                "name": "in", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": [],
            }  # fmt: skip
            made = ask(port, ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=50_000, validate_only=False)
            assert made.topics[0].error_code is ErrorCode.none
            wait_until(lambda port=port: _has_coordinator(port), "a group coordinator")  # type: ignore[misc]
            _allow(port, "127.0.0.1", EVERYTHING)
        yield found


def _has_coordinator(port: int) -> bool:
    answer = ask(port, ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=["app"])
    if answer.coordinators[0].error_code is not ErrorCode.none:
        return False
    return bool(ask(port, BEAT, 0, **heartbeat("app", "m", 5)).error_code is ErrorCode.group_id_not_found)


def _allow(port: int, host: str, rules: list[dict[str, Any]]) -> None:
    creations = [{**each, "principal": "User:ANONYMOUS", "host": host} for each in rules]
    done = ask(port, ApiKey.CREATE_ACLS, 3, creations=creations)
    assert all(each.error_code is ErrorCode.none for each in done.results)


def as_guest(port: int, key: ApiKey, **values: Any) -> Any:
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S, source_address=(GUEST, 0)) as connection:
        return ask_over(connection, key, 0, **values)


def same(ports: tuple[int, int], key: ApiKey, **values: Any) -> Any:
    """The answer to the application, when both brokers know the latest list: they hear of it a moment later."""
    found: list[Any] = []

    def is_same() -> bool:
        found[:] = [plain(as_guest(port, key, **values)) for port in ports]
        return bool(found[0] == found[1])

    try:
        wait_until(is_same, "the same answer", 60)
    except AssertionError as error:
        raise AssertionError(f"Apache Kafka: {found[0]}\nours:         {found[1]}") from error
    return found[1]


def test_an_application_is_refused_what_it_may_not_do(ports: tuple[int, int]) -> None:
    joins = heartbeat("app", "m", 0, **joining(SHAPE))
    describes = {"group_ids": ["app"], "include_authorized_operations": False}

    def given(*rules: dict[str, Any]) -> None:
        for port in ports:
            _allow(port, GUEST, list(rules))

    def answers(error: str) -> Any:
        def is_told() -> bool:
            return all(as_guest(port, BEAT, **joins).error_code.name == error for port in ports)

        wait_until(is_told, f"both answer {error}")
        return same(ports, BEAT, **joins)

    answers("group_authorization_failed")
    same(ports, DESCRIBE, **describes)
    given(rule(GROUP, "app", LITERAL, READ))
    answers("topic_authorization_failed")
    same(ports, BEAT, **heartbeat("app", "m", 0, **joining(topology(subtopology("0", "a b")))))
    given(*(rule(TOPIC, name, LITERAL, MAY_DESCRIBE) for name in TOPICS[:2]))
    answers("topic_authorization_failed")
    given(rule(TOPIC, TOPICS[2], LITERAL, MAY_DESCRIBE))
    told = answers("none")
    (detail,) = [each["status_detail"] for each in told["status"] if each["status_code"] == MISSING_INTERNAL_TOPICS]
    assert "Unauthorized to CREATE on topics" in detail
    described = same(ports, DESCRIBE, **describes)
    assert described["groups"][0]["error_code"] == "none"
    given(rule(TOPIC, TOPICS[1], LITERAL, CREATE))
    wait_until(lambda: all("app-repartition" not in _unauthorized(port) for port in ports), "one may be created")
    answers("none")
    given(rule(TOPIC, TOPICS[2], LITERAL, CREATE))
    wait_until(lambda: all(not _statuses(port) for port in ports), "the internal topics")
    assert answers("none")["status"] == []


def _statuses(port: int) -> list[str]:
    return [each.status_detail for each in as_guest(port, BEAT, **heartbeat("app", "m", 0, **joining(SHAPE))).status]


def _unauthorized(port: int) -> str:
    return " ".join(text.partition("Unauthorized")[2] for text in _statuses(port))


def test_topics_that_the_controller_refuses_are_named(ports: tuple[int, int]) -> None:
    for port in ports:
        _allow(port, GUEST, [rule(GROUP, "bad", LITERAL, READ), rule(CLUSTER, "kafka-cluster", LITERAL, CREATE)])
        _allow(port, GUEST, [rule(TOPIC, f"bad-{number}", LITERAL, MAY_DESCRIBE) for number in range(4)])
    topics = [{**info(f"bad-{number}"), "replication_factor": 7} for number in range(4)]
    joins = heartbeat("bad", "m", 0, **joining(topology(subtopology("0", "in", state_changelog_topics=topics))))

    def failures(port: int) -> list[str]:
        details = [each.status_detail for each in as_guest(port, BEAT, **joins).status]
        return [part for text in details for part in text.split("; ") if part.startswith("Creation failed")]

    # A failure is told for some seconds only, and then the topics are asked for again.
    theirs, ours = (wait_until(lambda port=port: failures(port), "it tells that it failed")[0] for port in ports)
    assert theirs.count("bad-") == ours.count("bad-") == 3
    assert theirs.endswith(" and 1 more.")
    assert ours.endswith(" and 1 more."), ours

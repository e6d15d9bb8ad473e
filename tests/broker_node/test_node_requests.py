"""Requests that say no sensible thing: what the handlers make of them before anything is done."""

from __future__ import annotations

import random
from types import SimpleNamespace
from uuid import UUID

import pytest

from broker.controller.image import BrokerRegistration, Endpoint, MetadataImage
from broker.coordinator.groups.events import DescribedGroup
from broker.node.handlers import (
    api_01_fetch,
    api_03_metadata,
    api_15_describe_groups,
    api_18_api_versions,
    api_20_delete_topics,
    api_60_describe_cluster,
    operations,
)
from broker.node.replicas.fetch_sessions import FetchSessions
from broker.node.settings.sections.cluster import ClusterSettings
from broker.node.settings.sections.harness import HarnessSettings
from broker.security.acls import ResourceType
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, build, request, request_type

ONE, OTHER = UUID(int=1), UUID(int=2)


class Asked:
    """A request as a handler sees it; keeps the answer."""

    def __init__(self, message: Message, version: int) -> None:
        self.message, self.version, self.access = message, version, None
        self.listener_name = "PLAINTEXT"
        self.answers: list[Message] = []

    def respond(self, answer: Message) -> None:
        self.answers.append(answer)


def test_metadata_by_topic_id_is_refused_before_version_12() -> None:
    topics = [{"topic_id": ONE, "name": "t"}, {"topic_id": None, "name": "u"}]
    asked = Asked(request(ApiKey.METADATA, 10, topics=topics, allow_auto_topic_creation=False), 10)
    broker = SimpleNamespace(metadata=SimpleNamespace(image=None))
    api_03_metadata.handle(broker, asked)  # type: ignore[arg-type]
    (answer,) = asked.answers
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("t", ErrorCode.invalid_request),
        ("u", ErrorCode.invalid_request),
    ]
    assert (answer.controller_id, answer.brokers) == (-1, ())


@pytest.mark.parametrize(
    ("leader_id", "live", "told"),
    [(1, {1, 2, 3}, 2), (-1, {1, 2, 3}, 2), (1, {1, 3}, 1), (-1, (), -1)],
    ids=["a controller is known", "none is known", "this broker is fenced", "nobody is live"],
)
@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER])
def test_a_client_is_told_to_ask_this_broker_as_the_controller_or_else_a_live_one(
    api_key: ApiKey, leader_id: int, live: set[int], told: int
) -> None:
    """Not the active controller: it may have died a moment ago, and librdkafka then waits for it until a time-out."""
    brokers = {
        number: BrokerRegistration(
            broker_id=number, incarnation_id=ONE, broker_epoch=number, rack=None, in_controlled_shutdown=False,
            fenced=number not in live, endpoints={"PLAINTEXT": Endpoint(listener="PLAINTEXT", host="h", port=number)},
        )
        for number in (1, 2, 3)
    }  # fmt: skip
    services = SimpleNamespace(
        metadata=SimpleNamespace(image=MetadataImage(brokers=brokers), leader_id=leader_id),
        config=SimpleNamespace(
            node_id=2,
            own=HarnessSettings(harness_cluster_id="c"),
            cluster=ClusterSettings(auto_create_topics_enable=False),
        ),
    )
    if api_key is ApiKey.METADATA:
        asked = Asked(request(api_key, 12, topics=[], allow_auto_topic_creation=False), 12)
        api_03_metadata.handle(services, asked)  # type: ignore[arg-type]
    else:
        asked = Asked(request(api_key, 1, include_cluster_authorized_operations=False), 1)
        api_60_describe_cluster.handle(services, asked)  # type: ignore[arg-type]
    (answer,) = asked.answers
    assert (answer.controller_id, len(answer.brokers)) == (told, len(live))


def test_metadata_of_a_topic_without_name_and_id_is_refused() -> None:
    topics = [{"topic_id": None, "name": "t"}, {"topic_id": None, "name": None}]
    asked = Asked(request(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False), 12)
    broker = SimpleNamespace(metadata=SimpleNamespace(image=None))
    api_03_metadata.handle(broker, asked)  # type: ignore[arg-type]
    (answer,) = asked.answers
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("t", ErrorCode.invalid_request),
        (None, ErrorCode.invalid_request),
    ]


@pytest.mark.parametrize(("name", "version"), [("bad name", "1.0"), ("", "1.0"), ("software", ""), ("-x", "1")])
def test_api_versions_of_a_client_without_a_legal_name_or_version_is_refused(name: str, version: str) -> None:
    message = request(ApiKey.API_VERSIONS, 4, client_software_name=name, client_software_version=version)
    asked = Asked(message, 4)
    api_18_api_versions.handle(None, asked)  # type: ignore[arg-type]
    (answer,) = asked.answers
    assert (answer.error_code, answer.api_keys) == (ErrorCode.invalid_request, ())


def test_topics_to_delete_that_are_named_twice_or_by_both_or_neither_are_refused() -> None:
    asked = [("a", None), ("b", None), ("a", None), (None, ONE), (None, OTHER), (None, ONE), ("c", OTHER), (None, None)]
    names, topic_ids, refused = api_20_delete_topics._sorted_out(asked)
    assert (names, topic_ids) == (("b",), (OTHER,))
    assert {(each["name"], each["topic_id"], each["error_code"]) for each in refused} == {
        ("a", None, ErrorCode.invalid_request),
        (None, ONE, ErrorCode.invalid_request),
        ("c", OTHER, ErrorCode.invalid_request),
        (None, None, ErrorCode.invalid_request),
    }


def test_operations_are_the_bits_that_apache_kafka_gives_without_an_authoriser() -> None:
    assert operations.ALL[ResourceType.TOPIC] == 0b1101_1111_1000 == 3576
    for version, expected in (
        (5, operations.ALL[ResourceType.GROUP]),
        (0, operations.NOT_ASKED),
    ):  # the field came with version 3
        message = request(ApiKey.DESCRIBE_GROUPS, version, groups=["g"], include_authorized_operations=True)
        group = api_15_describe_groups._group(Asked(message, version), "g", DescribedGroup(state="Stable"))  # type: ignore[arg-type]
        assert group["authorized_operations"] == expected


def test_a_partition_of_the_zero_topic_id_is_forgotten_by_its_session() -> None:
    image = SimpleNamespace(topic_names={})
    sessions = FetchSessions(slots=1, rng=random.Random(1))
    broker = SimpleNamespace(metadata=SimpleNamespace(image=image), fetch_sessions=sessions)

    def joined(**values: object) -> api_01_fetch._Fetch:
        message = build(request_type(ApiKey.FETCH, 13), {"replica_id": -1, "topics": [], **values})
        fetch = api_01_fetch._Fetch(broker, Asked(message, 13))  # type: ignore[arg-type]
        assert fetch.join_session() is ErrorCode.none
        return fetch

    named = {"topic_id": None, "partitions": [{"partition": 3}]}
    session = joined(session_id=0, session_epoch=0, topics=[named])._session
    assert session is not None
    forgotten = {"topic_id": None, "partitions": [3]}
    joined(session_id=session.session_id, session_epoch=1, forgotten_topics_data=[forgotten])
    assert session.partitions == {}

"""What brokers ask the share coordinator (keys 83 to 87), asked here and of Apache Kafka: the same answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from share_helper import KAFKA_ALONE, SETTINGS, prepare
from wire_helper import TIMEOUT_S, ask_over

from broker.door.clients import Producer
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
OWN = {"share.coordinator.state.topic.num.partitions": 1, "share.coordinator.snapshot.update.records.per.snapshot": 3}
TOPIC, RECORDS = "states", "records"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
INITIALIZE, READ, WRITE = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE,
)  # fmt: skip
DELETE, SUMMARY = ApiKey.DELETE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
VERSIONS = {INITIALIZE: 0, READ: 0, WRITE: 1, DELETE: 0, SUMMARY: 1}
NO_ID, UNKNOWN_ID = UUID(int=0), UUID(int=77)


Batch = tuple[int, int, int, int]  # first offset, last offset, state, delivery count


class Node:
    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)

    def ask(self, key: ApiKey, version: int, **values: object) -> Any:
        return ask_over(self._connection, key, version, **values)

    def close(self) -> None:
        self._connection.close()

    @property
    def topic_id(self) -> UUID:
        answer = self.ask(ApiKey.METADATA, 12, topics=[{"name": TOPIC}], allow_auto_topic_creation=False)
        return answer.topics[0].topic_id

    def is_ready(self) -> bool:
        answer = self.ask(SUMMARY, 1, **one("ready", leader_epoch=0, topic_id=self.topic_id))
        return answer.results[0].partitions[0].error_code is ErrorCode.none

    def begins(self) -> bool:
        """Asking for the coordinator creates its topic."""
        key = f"ready:{'A' * 22}:0"
        answer = self.ask(ApiKey.FIND_COORDINATOR, 6, key_type=2, coordinator_keys=[key])
        return answer.coordinators[0].error_code is ErrorCode.none


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    settings = {**SETTINGS, **OWN}
    with (
        Cluster(tmp_path_factory.mktemp("ours"), brokers=1, settings=settings) as ours,
        kafka_node(tmp_path_factory.mktemp("kafka"), {**settings, **KAFKA_ALONE}) as port,
    ):
        found = Node(ours.ports[1]["DIRECT"]), Node(port)
        for node in found:
            prepare(f"127.0.0.1:{node.port}", TOPIC, "g", partitions=2)
            wait_until(node.begins, "a share coordinator")
            wait_until(node.is_ready, "it has loaded")
            send_one_batch(f"127.0.0.1:{node.port}")
        yield found
        for node in found:
            node.close()


def send_one_batch(bootstrap: str) -> None:
    prepare(bootstrap, RECORDS, "g")
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000}) as producer:  # `flush` does not wait for it
        for number in range(10):
            producer.send(RECORDS, str(number).encode(), partition=0)
        producer.flush(60)


def one(group: str, partition: int = 0, topic_id: Any = "TOPIC_ID", **values: Any) -> dict[str, Any]:
    """A request about one partition."""
    return {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": [{"partition": partition, **values}]}]}


def wrote(group: str, *batches: Batch, **values: Any) -> dict[str, Any]:
    rows = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": count}
        for first, last, state, count in batches
    ]
    values = {"state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0, **values}
    return one(group, state_batches=rows, **values)


def plain(message: Any, but: tuple[str, ...] = ()) -> Any:
    if is_dataclass(message):
        names = [each.name for each in fields(message) if each.name not in ("topic_id", *but)]
        return {name: plain(getattr(message, name), but) for name in names}
    return [plain(each, but) for each in message] if isinstance(message, tuple) else message


def same(
    nodes: tuple[Node, Node],
    key: ApiKey,
    values: dict[str, Any],
    version: int | None = None,
    but: tuple[str, ...] = (),
) -> Any:
    """The one answer of the one partition, which is the same on both, also in its words."""
    version = VERSIONS[key] if version is None else version
    ours, theirs = (node.ask(key, version, **_with_id(values, node)) for node in nodes)
    assert plain(ours, but) == plain(theirs, but), f"{key.name} {values}"
    return ours.results[0].partitions[0] if ours.results and ours.results[0].partitions else None


def _with_id(value: Any, node: Node) -> Any:
    if value == "TOPIC_ID":
        return node.topic_id
    if isinstance(value, dict):
        return {name: _with_id(each, node) for name, each in value.items()}
    return [_with_id(each, node) for each in value] if isinstance(value, list) else value


FIELDS: dict[ApiKey, dict[str, Any]] = {
    INITIALIZE: {"state_epoch": 1, "start_offset": 3},
    READ: {"leader_epoch": 0},
    WRITE: {"state_epoch": 1, "leader_epoch": 0, "start_offset": 3, "delivery_complete_count": 0, "state_batches": []},
    DELETE: {},
    SUMMARY: {"leader_epoch": 0},
}


@pytest.mark.parametrize("key", FIELDS, ids=lambda key: key.name.lower())
def test_wrong_requests_are_refused_alike(nodes: tuple[Node, Node], key: ApiKey) -> None:
    group, values = f"wrong-{key.value}", FIELDS[key]
    same(nodes, key, {"group_id": group, "topics": []})
    same(nodes, key, {"group_id": group, "topics": [{"topic_id": "TOPIC_ID", "partitions": []}]})
    for topic_id in (UNKNOWN_ID, NO_ID):
        same(nodes, key, one(group, topic_id=topic_id, **values))
    for partition in (-1, 2):
        same(nodes, key, one(group, partition, **values))
    same(nodes, key, one("", **values))
    same(nodes, key, one(group, **values))


def test_nothing_is_known_of_a_partition_before_its_state_is_initialized(nodes: tuple[Node, Node]) -> None:
    assert same(nodes, READ, one("new", leader_epoch=0)).error_code is ErrorCode.invalid_request
    assert same(nodes, WRITE, wrote("new", (0, 4, 2, 1))).error_code is ErrorCode.invalid_request
    assert same(nodes, SUMMARY, one("new", leader_epoch=0)).start_offset == -1
    assert same(nodes, DELETE, one("new")).error_code is ErrorCode.none


def test_a_state_lives_alike(nodes: tuple[Node, Node]) -> None:
    same(nodes, INITIALIZE, one("life", state_epoch=1, start_offset=-1))
    for version in (0, 1):
        same(nodes, SUMMARY, one("life", leader_epoch=0), version)
    same(nodes, READ, one("life", leader_epoch=0))
    tried: list[dict[str, Any]] = [
        wrote("life", (0, 4, 2, 1), (5, 9, 0, 2), start_offset=0, delivery_complete_count=5),
        wrote("life", (3, 6, 4, 2), start_offset=2, delivery_complete_count=6),
        wrote("life", start_offset=-1, delivery_complete_count=-1),
        wrote("life", (20, 20, 2, 1), (10, 12, 0, 1), start_offset=5, delivery_complete_count=3),
        wrote("life", (10, 11, 2, 3), start_offset=5),
        wrote("life", start_offset=12, delivery_complete_count=1),
        wrote("life", (11, 30, 0, 1), start_offset=12),
    ]
    for values in tried:
        assert same(nodes, WRITE, values).error_code is ErrorCode.none
        same(nodes, SUMMARY, one("life", leader_epoch=0))
        same(nodes, READ, one("life", leader_epoch=0))
    assert same(nodes, WRITE, {**wrote("life", (12, 12, 2, 2), start_offset=12)}, 0).error_code is ErrorCode.none
    same(nodes, SUMMARY, one("life", leader_epoch=0))
    same(nodes, DELETE, one("life"))
    same(nodes, SUMMARY, one("life", leader_epoch=0))
    same(nodes, READ, one("life", leader_epoch=0))


def test_epochs_fence_alike(nodes: tuple[Node, Node]) -> None:
    def all_the_same() -> None:
        for leader_epoch in (-1, 4):
            same(nodes, SUMMARY, one("epochs", leader_epoch=leader_epoch), but=but)
        same(nodes, READ, one("epochs", leader_epoch=-1))

    but: tuple[str, ...] = ()

    same(nodes, INITIALIZE, one("epochs", state_epoch=3, start_offset=10))
    for values in (
        one("epochs", state_epoch=2, start_offset=11),
        one("epochs", state_epoch=3, start_offset=13),
        one("epochs", state_epoch=4, start_offset=14),
    ):
        same(nodes, INITIALIZE, values)
        all_the_same()
    for state_epoch in (3, 4, 5, -1):
        same(nodes, WRITE, wrote("epochs", (14, 15, 2, 1), state_epoch=state_epoch, start_offset=14))
        all_the_same()
    for leader_epoch in (5, 5, 4, -1, 7):
        same(nodes, READ, one("epochs", leader_epoch=leader_epoch))
        all_the_same()
    # A write of a later leader does not fence: only a read does.
    for leader_epoch in (9, 7, 6, -1):
        same(nodes, WRITE, wrote("epochs", (16, 17, 2, 1), state_epoch=4, leader_epoch=leader_epoch, start_offset=16))
        all_the_same()
    # Apache Kafka tells leader epoch 0 from here on. What it fences is the same, until its coordinator moves.
    but = ("leader_epoch",)
    same(nodes, INITIALIZE, one("epochs", state_epoch=6, start_offset=1))
    all_the_same()
    same(nodes, WRITE, wrote("epochs", (2, 3, 2, 1), state_epoch=6, leader_epoch=6, start_offset=2))
    same(nodes, READ, one("epochs", leader_epoch=6))
    all_the_same()
    same(nodes, READ, one("epochs", leader_epoch=7))
    all_the_same()
    same(nodes, DELETE, one("epochs"))
    same(nodes, INITIALIZE, one("epochs", state_epoch=0, start_offset=1))
    same(nodes, READ, one("epochs", leader_epoch=0))
    all_the_same()


def test_delivery_states_are_taken_as_they_are(nodes: tuple[Node, Node]) -> None:
    same(nodes, INITIALIZE, one("kinds", state_epoch=1, start_offset=0))
    for offset, state in enumerate((0, 1, 2, 3, 4, 5, 127, -1)):
        same(nodes, WRITE, wrote("kinds", (offset, offset, state, 1)))
        same(nodes, READ, one("kinds", leader_epoch=0))
    for count in (0, -1, 32767):
        same(nodes, WRITE, wrote("kinds", (10, 10, 2, count)))
        same(nodes, READ, one("kinds", leader_epoch=0))
    for first, last in ((-5, 3), (-1, -1)):
        same(nodes, WRITE, wrote("kinds", (first, last, 2, 5)))
        same(nodes, READ, one("kinds", leader_epoch=0))


def test_several_partitions_and_topics_of_one_request(nodes: tuple[Node, Node]) -> None:
    asked = [{"partition": index, "state_epoch": 1, "start_offset": index} for index in (1, 0, 5)]
    topics = [{"topic_id": "TOPIC_ID", "partitions": asked}, {"topic_id": UNKNOWN_ID, "partitions": asked[:1]}]
    for values in ({"group_id": "many", "topics": topics}, {"group_id": "many", "topics": topics[:1]}):
        ours, theirs = (by_place(node.ask(INITIALIZE, 0, **_with_id(values, node))) for node in nodes)
        assert ours == theirs
    same(nodes, SUMMARY, one("many", 1, leader_epoch=0))


def by_place(answer: Any) -> dict[Any, Any]:
    """Apache Kafka answers in the order of a hash table."""
    return {
        (topic.topic_id == UNKNOWN_ID, part.partition): plain(part)
        for topic in answer.results
        for part in topic.partitions
    }


class Member:
    """A member of a group. It reads RECORDS, whose ten records are one record batch, or another topic."""

    def __init__(self, node: Node, group: str, topic: str = RECORDS) -> None:
        self._node, self._group, self._topic, self._epoch = node, group, topic, -1
        answer = node.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
        self.topic_id = answer.topics[0].topic_id

    def join(self) -> None:
        epoch = 0

        def has_partition() -> bool:
            nonlocal epoch
            answer = self._node.ask(
                ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=self._group, member_id=MEMBER, member_epoch=epoch,
                rack_id=None, subscribed_topic_names=None if epoch else [self._topic],
            )  # fmt: skip
            if answer.error_code is not ErrorCode.none:
                asked = {"key_type": 0, "coordinator_keys": [self._group]}  # this makes the coordinator's topic
                self._node.ask(ApiKey.FIND_COORDINATOR, 6, **asked)
                return False
            epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(has_partition, "the member has its partition")

    def fetch(self, records_max: int, *, is_strict: bool, wait_ms: int = 20_000) -> list[tuple[int, int, int]]:
        """(first offset, last offset, delivery count) of what is acquired."""
        self._epoch += 1
        values = {
            "group_id": self._group, "member_id": MEMBER, "share_session_epoch": self._epoch, "max_wait": wait_ms,
            "min_bytes": 1, "max_bytes": 1_000_000, "max_records": records_max, "batch_size": 100,
            "share_acquire_mode": int(is_strict), "is_renew_ack": False, "topics": self._topics([]),
            "forgotten_topics_data": [],
        }  # fmt: skip
        answer = self._node.ask(ApiKey.SHARE_FETCH, 2, **values)
        assert answer.error_code is ErrorCode.none
        parts = [part for topic in answer.responses for part in topic.partitions]
        return [
            (each.first_offset, each.last_offset, each.delivery_count)
            for part in parts
            for each in part.acquired_records
        ]

    def release(self, ranges: list[tuple[int, int, int]]) -> None:
        self._epoch += 1
        acks = [{"first_offset": first, "last_offset": last, "acknowledge_types": [2]} for first, last, _ in ranges]
        values = {"group_id": self._group, "member_id": MEMBER, "share_session_epoch": self._epoch}
        answer = self._node.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, topics=self._topics(acks), is_renew_ack=False, **values)
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none, answer

    def _topics(self, acks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": acks}]}]


@pytest.mark.parametrize(
    ("name", "kept", "limit"),
    [
        ("end", [(8, 9, 2, 1)], 2),
        ("middle", [(0, 1, 2, 1), (6, 9, 0, 1)], 2),
        ("two", [(2, 3, 0, 1), (7, 7, 0, 1)], 1),
        ("offered", [(2, 3, 0, 1), (7, 7, 0, 1)], 4),
        ("beyond", [(2, 3, 0, 2)], 3),
    ],
)
def test_a_strict_limit_among_records_in_flight_that_an_earlier_leader_gave(
    nodes: tuple[Node, Node], name: str, kept: list[Batch], limit: int
) -> None:
    """The state is written before the leader reads it, as if it were the next leader."""
    found = []
    for node in nodes:
        group = f"strict-{name}"
        prepare(f"127.0.0.1:{node.port}", RECORDS, group)
        member = Member(node, group)
        member.join()
        written = wrote(group, *kept, topic_id=member.topic_id, state_epoch=-1)
        answer = node.ask(WRITE, 1, **written)
        assert answer.results[0].partitions[0].error_code is ErrorCode.none, answer
        given = []
        for step in range(6):
            given.append(member.fetch(limit, is_strict=step < 2))
            member.release(given[-1])
        found.append(given)
    assert found[0] == found[1]


def test_who_may_not_act_for_the_cluster_is_refused_alike(tmp_path: Path) -> None:
    own = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    denial = {
        "resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3, "principal": "User:ANONYMOUS",
        "host": "*", "operation": 9, "permission_type": 2,
    }  # fmt: skip
    for name in ("ours", "kafka"):
        (tmp_path / name).mkdir()
    with (
        Cluster(tmp_path / "ours", brokers=1, settings=own) as ours,
        kafka_node(tmp_path / "kafka", {**own, **KAFKA_ALONE}) as port,
    ):
        nodes = Node(ours.ports[1]["DIRECT"]), Node(port)

        def is_denied(node: Node) -> bool:
            answer = node.ask(READ, 0, **one("g", topic_id=UNKNOWN_ID, **FIELDS[READ]))
            return answer.results[0].partitions[0].error_code is ErrorCode.cluster_authorization_failed

        for node in nodes:
            answer = node.ask(ApiKey.CREATE_ACLS, 3, creations=[denial])
            assert answer.results[0].error_code is ErrorCode.none, answer
            wait_until(lambda node=node: is_denied(node), "the list is known")
        for key, values in FIELDS.items():
            same(nodes, key, one("g", topic_id=UNKNOWN_ID, **values))
            same(nodes, key, {"group_id": "g", "topics": []})
            same(nodes, key, {"group_id": "", "topics": [{"topic_id": UNKNOWN_ID, "partitions": []}]})
            same(nodes, key, one("", -1, topic_id=UNKNOWN_ID, **values))
        for node in nodes:
            node.close()

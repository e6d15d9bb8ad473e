"""The APIs of share groups asked directly, here and of Apache Kafka: the same answers, also to what is wrong."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from share_helper import KAFKA_ALONE, LONG_MS, SETTINGS, prepare, send
from wire_helper import TIMEOUT_S, ask_over

from broker.node.features.share_groups.states.records import StateKey
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
OWN = {**SETTINGS, "group.share.max.assignment.interval.ms": LONG_MS}
# Texts differ; what a node makes up differs; a member's first epochs depend on when its states were made.
MASKED = frozenset({"throttle_time", "error_message", "acknowledge_error_message", "host", "port", "topic_id"})
TOPIC, MEMBER, OTHER = "apis", "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


class Node:
    """Asked over one connection: a share session ends with its connection."""

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


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Node]]:
    """Ours, and Apache Kafka's; each has a topic with ten records."""
    with (
        Cluster(tmp_path_factory.mktemp("ours"), brokers=1, settings=OWN) as ours,
        kafka_node(tmp_path_factory.mktemp("kafka"), {**OWN, **KAFKA_ALONE}) as port,
    ):
        found = Node(ours.ports[1]["DIRECT"]), Node(port)
        for node in found:
            prepare(f"127.0.0.1:{node.port}", TOPIC, "g")
            send(f"127.0.0.1:{node.port}", TOPIC, range(10))
            key = str(StateKey(group_id="g", topic_id=node.topic_id, partition=0))
            wait_until(lambda node=node, key=key: _has_coordinator(node, 2, key), "a share coordinator")
            wait_until(lambda node=node: _has_coordinator(node, 0, "g"), "a group coordinator")
            wait_until(lambda node=node: _has_loaded(node), "its groups are loaded")
        yield found
        for node in found:
            node.close()


def _has_coordinator(node: Node, key_type: int, key: str) -> bool:
    answer = node.ask(ApiKey.FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=[key])
    return answer.coordinators[0].error_code is ErrorCode.none


def _has_loaded(node: Node) -> bool:
    """All partitions of the internal topic, as far as these groups are concerned."""
    groups = ["g", "life", "none", "kinds", "simple", "fetch", "zero", "offsets", "often", "interval"]
    answer = node.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=groups, include_authorized_operations=False)
    return all(group.error_code is ErrorCode.group_id_not_found for group in answer.groups)


def plain(message: Any) -> Any:
    if is_dataclass(message):
        return {each.name: plain(getattr(message, each.name)) for each in fields(message) if each.name not in MASKED}
    return [plain(each) for each in message] if isinstance(message, tuple) else message


def same(nodes: tuple[Node, Node], key: ApiKey, version: int, **values: Any) -> Any:
    """The answer, which is the same on both. A value TOPIC_ID stands for the id of the topic."""
    ours, theirs = (node.ask(key, version, **_with_ids(values, node)) for node in nodes)
    assert plain(ours) == plain(theirs), f"{key.name} {values}"
    return ours


def _with_ids(value: Any, node: Node) -> Any:
    if value == "TOPIC_ID":
        return node.topic_id
    if isinstance(value, dict):
        return {name: _with_ids(each, node) for name, each in value.items()}
    return [_with_ids(each, node) for each in value] if isinstance(value, list) else value


def beat(group: str = "g", member: str = MEMBER, epoch: int = 0, names: list[str] | None = None) -> dict[str, Any]:
    return {
        "group_id": group, "member_id": member, "member_epoch": epoch, "rack_id": None, "subscribed_topic_names": names,
    }  # fmt: skip


def _joined(node: Node, group: str) -> int:
    """The member's epoch once it has the partition."""
    epoch, found = 0, []

    def has_partition() -> bool:
        nonlocal epoch
        names = None if epoch else [TOPIC]
        answer = node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat(group, epoch=epoch, names=names))
        assert answer.error_code is ErrorCode.none, answer
        epoch = answer.member_epoch
        found.append(answer)
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    wait_until(has_partition, "the member has its partition")
    assert found[-1].assignment.topic_partitions[0].partitions == (0,)
    return epoch


def test_a_member_lives_and_the_group_is_described_alike(nodes: tuple[Node, Node]) -> None:
    epochs = [_joined(node, "life") for node in nodes]
    for node, epoch in zip(nodes, epochs, strict=True):
        again = node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("life", epoch=epoch))
        assert (again.member_epoch, again.assignment) == (epoch, None)
        ahead = node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("life", epoch=epoch + 5))
        assert ahead.error_code is ErrorCode.fenced_member_epoch
    found = [
        node.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["life", "none"], include_authorized_operations=False)
        for node in nodes
    ]
    for answer in found:
        group, none = answer.groups
        assert (group.group_state, group.assignor_name) == ("Stable", "simple")
        (member,) = group.members
        assert member.subscribed_topic_names == (TOPIC,)
        assert [each.partitions for each in member.assignment.topic_partitions] == [(0,)]
        assert none.error_code is ErrorCode.group_id_not_found
    same(nodes, ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=["share"])
    same(nodes, ApiKey.DESCRIBE_GROUPS, 6, groups=["life"], include_authorized_operations=False)
    same(nodes, ApiKey.DELETE_GROUPS, 2, groups_names=["life"])
    for leaver in (beat("life", epoch=-1), beat("life", epoch=-1)):
        same(nodes, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **leaver)
    same(nodes, ApiKey.LIST_GROUPS, 5, states_filter=["empty"], types_filter=["share"])


def test_the_next_assignment_waits_for_the_interval_alike(nodes: tuple[Node, Node]) -> None:
    found = []
    for node in nodes:
        prepare(f"127.0.0.1:{node.port}", TOPIC, "interval", **{"share.assignment.interval.ms": "10000"})
        began_s = time.monotonic()
        epoch = _joined(node, "interval")
        # The first assignment had no partitions, because their states were not made. The next one came later.
        assert time.monotonic() - began_s >= 9.99  # the brokers count whole milliseconds
        # From now on the interval does not end while a busy host takes its time.
        prepare(f"127.0.0.1:{node.port}", TOPIC, "interval", **{"share.assignment.interval.ms": str(LONG_MS)})
        joined = node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("interval", member=OTHER, names=[TOPIC]))
        again = node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("interval", epoch=epoch))
        assert (joined.member_epoch, joined.assignment.topic_partitions, again.member_epoch) == (epoch, (), epoch)
        asked = {"group_ids": ["interval"], "include_authorized_operations": False}
        (group,) = node.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, **asked).groups
        found.append((epoch, group.group_epoch, group.assignment_epoch))
        for member in (MEMBER, OTHER):
            node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("interval", member=member, epoch=-1))
    assert found[0] == found[1]
    assert found[0][1] == found[0][2] + 1


def fetch(epoch: int, *, acks: list[dict[str, Any]] | None = None, topics: bool = True, **more: Any) -> dict[str, Any]:
    partition = {"partition_index": 0, "acknowledgement_batches": acks or []}
    return {
        "group_id": "fetch", "member_id": MEMBER, "share_session_epoch": epoch, "max_wait": 500, "min_bytes": 1,
        "max_bytes": 1_000_000, "max_records": 100, "batch_size": 100, "share_acquire_mode": 0, "is_renew_ack": False,
        "topics": [{"topic_id": "TOPIC_ID", "partitions": [partition]}] if topics else [], "forgotten_topics_data": [],
        **more,
    }  # fmt: skip


def acked(first: int, last: int, *types: int) -> dict[str, Any]:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}


def test_sessions_and_acknowledgements_are_answered_alike(nodes: tuple[Node, Node]) -> None:
    for node in nodes:
        prepare(f"127.0.0.1:{node.port}", TOPIC, "fetch")
        _joined(node, "fetch")
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(1))
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(0, acks=[acked(0, 0, 1)]))
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(0, group_id=None))
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(0, member_id=None))
    for node in nodes:
        first = node.ask(ApiKey.SHARE_FETCH, 2, **_with_ids(fetch(0, max_wait=20_000), node))
        (partition,) = first.responses[0].partitions
        assert (partition.acquired_records[0].first_offset, partition.acquired_records[-1].last_offset) == (0, 9)
        assert {each.delivery_count for each in partition.acquired_records} == {1}
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(7))
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(1, acks=[acked(0, 1, 1), acked(2, 3, 1, 3)], topics=True, max_wait=0))

    def acknowledge(epoch: int, *batches: dict[str, Any], version: int = 2, is_renew_ack: bool = False) -> Any:
        partition = {"partition_index": 0, "acknowledgement_batches": list(batches)}
        topics = [{"topic_id": "TOPIC_ID", "partitions": [partition]}] if batches else []
        values = {"group_id": "fetch", "member_id": MEMBER, "share_session_epoch": epoch, "topics": topics}
        if version >= 2:
            values["is_renew_ack"] = is_renew_ack
        return same(nodes, ApiKey.SHARE_ACKNOWLEDGE, version, **values)

    acknowledge(0, acked(4, 4, 1))
    acknowledge(9, acked(4, 4, 1))
    acknowledge(2, acked(0, 1, 1))  # done already
    acknowledge(3, acked(4, 20, 1))  # past what was acquired
    acknowledge(4, acked(50, 60, 1))
    acknowledge(5, acked(5, 4, 1))
    acknowledge(6, acked(4, 6, 1, 1))
    acknowledge(7, acked(4, 4, 9))
    acknowledge(8, acked(4, 4, 4))  # a renewal that does not say so
    acknowledge(9, acked(4, 4, 4), is_renew_ack=True)
    acknowledge(10, acked(4, 5, 2), version=1)
    answer = acknowledge(11, acked(4, 5, 1))  # released before
    assert answer.responses[0].partitions[0].error_code is ErrorCode.invalid_record_state
    for node in nodes:
        again = node.ask(ApiKey.SHARE_FETCH, 2, **_with_ids(fetch(12, topics=False, max_wait=20_000), node))
        (partition,) = again.responses[0].partitions
        assert [each.delivery_count for each in partition.acquired_records] == [2] * len(partition.acquired_records)
        assert (partition.acquired_records[0].first_offset, partition.acquired_records[-1].last_offset) == (4, 5)
    acknowledge(-1, acked(4, 9, 1))
    acknowledge(-1)
    same(nodes, ApiKey.SHARE_FETCH, 2, **fetch(-1, topics=False))
    same(nodes, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("fetch", epoch=-1))
    described = {"groups": [{"group_id": "fetch", "topics": None}]}
    (group,) = same(nodes, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, **described).groups
    (partition,) = group.topics[0].partitions
    assert (partition.start_offset, partition.lag) in ((10, 0), (4, 0)), partition


def test_a_record_that_was_delivered_often_is_held_back_alike(nodes: tuple[Node, Node]) -> None:
    """Each time all records are released. They come all together three times, in halves, and then one by one."""
    found: list[list[list[tuple[int, int, int]]]] = []
    for node in nodes:
        prepare(f"127.0.0.1:{node.port}", TOPIC, "often")
        _joined(node, "often")
        found.append([])
        epoch = 0
        while len(found[-1]) < 15:
            values = fetch(epoch, group_id="often", topics=epoch == 0, max_wait=20_000)
            answer = node.ask(ApiKey.SHARE_FETCH, 2, **_with_ids(values, node))
            ranges = [part.acquired_records for topic in answer.responses for part in topic.partitions]
            found[-1] += [[(each.first_offset, each.last_offset, each.delivery_count) for each in ranges[0]]]
            acks = [acked(first, last, 2) for first, last, _ in found[-1][-1]]
            topics = [{"topic_id": "TOPIC_ID", "partitions": [{"partition_index": 0, "acknowledgement_batches": acks}]}]
            values = {"group_id": "often", "member_id": MEMBER, "share_session_epoch": epoch + 1}
            values |= {"topics": topics, "is_renew_ack": False}
            released = node.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, **_with_ids(values, node))
            assert released.responses[0].partitions[0].error_code is ErrorCode.none
            epoch += 2
        node.ask(ApiKey.SHARE_FETCH, 2, **_with_ids(fetch(-1, group_id="often", topics=False), node))
        node.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, **beat("often", epoch=-1))
    assert found[0] == found[1]
    halves = [[[(first, first + 4, 4)], *([(at, at, 5)] for at in range(first, first + 5))] for first in (0, 5)]
    assert found[0] == [[(0, 9, 1)], [(0, 9, 2)], [(0, 9, 3)], *halves[0], *halves[1]]

"""Share groups of three brokers, here and of Apache Kafka, while leaders and coordinators are killed: what a member is
given afterwards is the same."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from cluster_helper import Cluster
from share_helper import SETTINGS, send
from wire_helper import TIMEOUT_S, ask_over

from broker.door.clients import Admin
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.compatibility.kafka_cluster import KafkaCluster
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
TOPIC, GROUP, MEMBER = "t", "g", "AAAAAAAAAAAAAAAAAAAAAQ"
STATES, GROUPS = "__share_group_state", "__consumer_offsets"
REPLICAS = {TOPIC: [1, 2, 3], STATES: [3, 2, 1], GROUPS: [2, 3, 1]}  # the first one leads
RECORDS, BATCH = 60, 10
OWN = {
    **SETTINGS,
    "share.coordinator.state.topic.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.share.delivery.count.limit": 3,
    "min.insync.replicas": 2,
    "broker.session.timeout.ms": 9_000,  # Kafka's own: a busy host must not change leaders between two steps
    "auto.leader.rebalance.enable": "false",
}
ACCEPT, RELEASE, REJECT = 1, 2, 3
STATE_APIS: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: {"state_epoch": 9, "start_offset": 0},
    ApiKey.READ_SHARE_GROUP_STATE: {"leader_epoch": 9},
    ApiKey.WRITE_SHARE_GROUP_STATE: {"state_epoch": 9, "leader_epoch": 9, "start_offset": 9, "state_batches": []},
    ApiKey.DELETE_SHARE_GROUP_STATE: {},
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: {"leader_epoch": 9},
}
QUIET_ANSWERS = 3  # that many answers without records: there are no more
Acks = Sequence[tuple[int, int, int]]
Given = dict[int, int]  # offset -> delivery count


class Reader:
    """A member of the group, which finds leaders and coordinators by itself."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._connections: dict[int, socket.socket] = {}
        self._session: tuple[int, int] | None = None  # broker, epoch of the next request

    # -- brokers

    def ask(self, broker: int, key: ApiKey, version: int, **values: object) -> Any:
        connection = self._connections.get(broker)
        if connection is None:
            address = ("127.0.0.1", self.cluster.ports[broker]["DIRECT"])
            connection = self._connections[broker] = socket.create_connection(address, timeout=TIMEOUT_S)
        return ask_over(connection, key, version, **values)

    def kill(self, broker: int) -> None:
        self.cluster.kill(broker)
        connection = self._connections.pop(broker, None)
        if connection is not None:
            connection.close()

    def start(self, broker: int) -> None:
        """Until it is in all ISRs again."""
        self.cluster.start(broker)
        self.cluster.wait_until_all_are_known()
        for topic in REPLICAS:
            wait_until(lambda topic=topic: len(self.partition(topic).isr_nodes) == 3, f"the ISR of {topic} is full")

    def _any(self) -> int:
        return min(self.cluster.processes)

    def topic(self, name: str) -> Any:
        asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
        return self.ask(self._any(), ApiKey.METADATA, 12, **asked).topics[0]

    def partition(self, name: str) -> Any:
        """Partition 0, whose leader is alive."""

        def found() -> Any:
            answer = self.topic(name)
            part = answer.partitions[0] if answer.partitions else None
            return part if part is not None and part.leader_id in self.cluster.processes else None

        return wait_until(found, f"{name} has a leader that is alive")

    @property
    def topic_id(self) -> UUID:
        return self.topic(TOPIC).topic_id

    # -- the group

    def coordinator(self) -> int:
        def found() -> int | None:
            answer = self.ask(self._any(), ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[GROUP])
            (each,) = answer.coordinators
            is_alive = each.error_code is ErrorCode.none and each.node_id in self.cluster.processes
            return each.node_id if is_alive else None

        return wait_until(found, "a coordinator that is alive")

    def join(self) -> None:
        epoch = 0

        def has_partition() -> bool:
            nonlocal epoch
            answer = self.ask(
                self.coordinator(), ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id=GROUP, member_id=MEMBER,
                member_epoch=epoch, rack_id=None, subscribed_topic_names=None if epoch else [TOPIC],
            )  # fmt: skip
            if answer.error_code is ErrorCode.none:
                epoch = answer.member_epoch
            return answer.assignment is not None and bool(answer.assignment.topic_partitions)

        wait_until(has_partition, "the member has its partition")

    # -- records

    def fetch(self) -> Given:
        """What is acquired now: something, until nothing more comes."""
        given: Given = {}
        quiet = 0

        def is_over() -> bool:
            nonlocal quiet
            part = self._one_fetch()
            if part is None:
                return False
            new = {
                offset: each.delivery_count
                for each in part.acquired_records
                for offset in range(each.first_offset, each.last_offset + 1)
            }
            assert not new.keys() & given.keys(), "nothing is acquired twice"
            given.update(new)
            quiet = 0 if new or not given else quiet + 1  # a new leader has nothing before it has read the state
            return quiet >= QUIET_ANSWERS

        wait_until(is_over, "all that can be acquired")
        return given

    def _one_fetch(self) -> Any:
        """The partition of an answer, None if it has failed. A session begins anew with another leader."""
        leader = self.partition(TOPIC).leader_id
        if self._session is None or self._session[0] != leader:
            self._session = leader, 0
        epoch = self._session[1]
        values = {
            "group_id": GROUP, "member_id": MEMBER, "share_session_epoch": epoch, "max_wait": 500, "min_bytes": 1,
            "max_bytes": 1_000_000, "max_records": 200, "batch_size": 200, "share_acquire_mode": 0,
            "is_renew_ack": False, "topics": self._topics(), "forgotten_topics_data": [],
        }  # fmt: skip
        answer = self.ask(leader, ApiKey.SHARE_FETCH, 2, **values)
        if answer.error_code is not ErrorCode.none:
            self._session = None
            return None
        self._session = leader, epoch + 1
        parts = [part for topic in answer.responses for part in topic.partitions]
        if not parts or parts[0].error_code is not ErrorCode.none:
            return None if parts or epoch == 0 else _NOTHING
        return parts[0]

    def acknowledge(self, acks: Acks) -> ErrorCode:
        assert self._session is not None
        broker, epoch = self._session
        values = {"group_id": GROUP, "member_id": MEMBER, "share_session_epoch": epoch, "is_renew_ack": False}
        answer = self.ask(broker, ApiKey.SHARE_ACKNOWLEDGE, 2, topics=self._topics(acks), **values)
        assert answer.error_code is ErrorCode.none, answer
        self._session = broker, epoch + 1
        code: ErrorCode = answer.responses[0].partitions[0].error_code
        return code

    def _topics(self, acks: Acks = ()) -> list[dict[str, Any]]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]} for first, last, kind in acks
        ]
        return [{"topic_id": self.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": batches}]}]

    # -- the state

    def state(self) -> dict[str, Any]:
        """What the share coordinator has, and what the group's offsets are."""

        def read() -> Any:
            part = {"partition": 0, "leader_epoch": -1}
            topics = [{"topic_id": self.topic_id, "partitions": [part]}]
            broker = self.partition(STATES).leader_id
            answer = self.ask(broker, ApiKey.READ_SHARE_GROUP_STATE, 0, group_id=GROUP, topics=topics)
            found = answer.results[0].partitions[0]
            return found if found.error_code is ErrorCode.none else None

        def described() -> Any:
            asked = [{"group_id": GROUP, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}]
            answer = self.ask(self.coordinator(), ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=asked)
            (group,) = answer.groups
            is_known = group.error_code is ErrorCode.none and group.topics
            return group.topics[0].partitions[0] if is_known else None

        kept = wait_until(read, "the state is read")
        offsets = wait_until(described, "the group is described")
        return {
            "start": kept.start_offset,
            "described": (offsets.start_offset, offsets.lag),
            "deliveries": {
                offset: (each.delivery_state, each.delivery_count)
                for each in kept.state_batches
                for offset in range(each.first_offset, each.last_offset + 1)
            },
        }

    def asked_of_another(self) -> dict[ApiKey, ErrorCode]:
        """What a broker answers that is not the share coordinator."""
        other = next(each for each in self.cluster.ids if each != self.partition(STATES).leader_id)
        found = {}
        for key, values in STATE_APIS.items():
            topics = [{"topic_id": self.topic_id, "partitions": [{"partition": 0, **values}]}]
            answer = self.ask(other, key, 0, group_id=GROUP, topics=topics)
            found[key] = answer.results[0].partitions[0].error_code
        return found


class _Nothing:
    acquired_records = ()


_NOTHING = _Nothing()


def prepared(cluster: Cluster) -> Reader:
    """The topic has a record batch for each ten records."""
    reader = Reader(cluster)
    topics = [
        {
            "name": name, "num_partitions": -1, "replication_factor": -1, "configs": [],
            "assignments": [{"partition_index": 0, "broker_ids": replicas}],
        }
        for name, replicas in REPLICAS.items()
    ]  # fmt: skip

    def are_made() -> bool:
        answer = reader.ask(1, ApiKey.CREATE_TOPICS, 7, topics=topics, timeout=30_000, validate_only=False)
        known = (ErrorCode.none, ErrorCode.topic_already_exists)
        return all(each.error_code in known for each in answer.topics)

    wait_until(are_made, "the topics are made")
    bootstrap = cluster.bootstrap()
    with Admin({"bootstrap.servers": bootstrap, "default.api.timeout.ms": 60_000}) as admin:
        admin.alter_configs("group", GROUP, {"share.auto.offset.reset": "earliest"})
    for first in range(0, RECORDS, BATCH):
        send(bootstrap, TOPIC, range(first, first + BATCH))
    reader.join()
    return reader


def told(cluster: Cluster) -> Mapping[str, Any]:
    """The story of a group. What is seen on the way is returned."""
    seen: dict[str, Any] = {}
    reader = prepared(cluster)
    seen["of others"] = reader.asked_of_another()
    seen["first"] = reader.fetch()
    acks = [(0, 9, ACCEPT), (10, 14, RELEASE), (15, 17, REJECT), (20, 29, ACCEPT)]
    seen["acknowledged"] = reader.acknowledge(acks)
    seen["again"] = reader.fetch()
    seen["state"] = reader.state()

    leader = reader.partition(TOPIC).leader_id
    reader.kill(leader)
    seen["next leader"] = leader, reader.partition(TOPIC).leader_id
    seen["of the next leader"] = reader.fetch()
    seen["acknowledged there"] = reader.acknowledge([(10, 12, RELEASE), (13, 13, ACCEPT), (30, 34, RELEASE)])
    seen["released there"] = reader.fetch()
    seen["state there"] = reader.state()
    reader.start(leader)

    seen["coordinators"] = reader.partition(STATES).leader_id, reader.partition(GROUPS).leader_id
    reader.kill(3)
    seen["acknowledged to the next coordinator"] = reader.acknowledge([(18, 19, ACCEPT), (35, 39, RELEASE)])
    seen["after the coordinator"] = reader.fetch()
    seen["state of the next coordinator"] = reader.state()
    reader.start(3)

    reader.kill(2)
    seen["leaders without 2"] = [reader.partition(name).leader_id for name in REPLICAS]
    seen["of the third leader"] = reader.fetch()
    seen["state of the third leader"] = reader.state()
    reader.start(2)

    reader.kill(3)
    seen["leaders without 3"] = [reader.partition(name).leader_id for name in REPLICAS]
    acks = [(10, 12, RELEASE), (14, 14, ACCEPT), (30, 49, ACCEPT), (50, 50, RELEASE), (51, 59, REJECT)]
    seen["acknowledged at last"] = reader.acknowledge(acks)
    seen["at last"] = reader.fetch()  # 10 to 12 came three times: they are given up
    seen["state at last"] = reader.state()
    return seen


def test_a_group_goes_on_alike(tmp_path: Path) -> None:
    found = []
    for kind in (Cluster, KafkaCluster):
        directory = tmp_path / kind.__name__
        directory.mkdir()
        with kind(directory, settings=OWN) as cluster:
            found.append(told(cluster))
    ours, theirs = found
    assert ours == theirs
    assert ours["at last"] == {50: 2}
    assert ours["state at last"]["deliveries"][10] == (4, 3), "archived"
    assert set(ours["of others"].values()) == {ErrorCode.not_coordinator}

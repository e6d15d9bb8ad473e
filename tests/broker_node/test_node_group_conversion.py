"""Real clients move a group to the new protocol and back under load: nothing is lost, nothing stays unassigned.

Classic members (librdkafka; Java, range and cooperative-sticky) read while members of the new protocol join one by one,
until all are new, and then the other way round. The producer never pauses. Steps of the protocol itself are compared
with Apache Kafka in test_node_groups_differential.py.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET, create_topic, wait_brokers
from confluent_kafka import KafkaException, Producer
from test_node_groups import STALE, Member, committed, is_shared, poll_until
from wire_helper import ask

from broker.coordinator.groups.embedded import decode_assignment
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from harness.clusters.kafka.jars import ensure_jars, java_command

pytestmark = pytest.mark.slow

PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "offsets.topic.num.partitions": 1,
}
SETTLED_S = 100.0  # for one step, on a busy machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("conversion")
    with Cluster(directory, brokers=1, settings=SETTINGS) as made:
        wait_brokers(made)
        yield made


class Load:
    """Writes numbered records to all partitions until it is stopped."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer, self._topic = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET}), topic
        self._is_stopped = threading.Event()
        self.values: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            if self._is_stopped.wait(0.01):
                return
            value = f"{number % PARTITIONS}-{number // PARTITIONS}"
            self._producer.produce(self._topic, value.encode(), partition=number % PARTITIONS)
            self._producer.poll(0)
            self.values.append(value)

    def stop(self) -> list[str]:
        self._is_stopped.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return self.values


def kind_of(cluster: Cluster, group: str) -> str:
    listed = ask(cluster.ports[1]["DIRECT"], ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    return next(str(each.group_type) for each in listed.groups if each.group_id == group)


def close(member: Member) -> list[str]:
    """What it has read; all of that is committed."""
    while True:
        try:
            member.consumer.commit(asynchronous=False)
            break
        except KafkaException as error:
            if error.args[0].name() == "_NO_OFFSET":
                break  # nothing read since the last rebalance
            if error.args[0].name() not in STALE:
                raise
            member.poll()
    member.consumer.close()
    return member.values


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_members_go_to_the_new_protocol_one_by_one_and_back_under_load(cluster: Cluster, assignor: str) -> None:
    topic = group = f"moving-{assignor}"
    create_topic(cluster, topic, partitions=PARTITIONS)
    load = Load(cluster, topic)
    members: list[Member] = []
    seen: list[str] = []

    def step(protocol: str, *, count: int) -> None:
        """One member more, and then the oldest one less while there are more than `count`."""
        extra: dict[str, object] = {"partition.assignment.strategy": assignor} if protocol == "classic" else {}
        members.append(Member(cluster, topic, group, protocol, **extra))
        poll_until(members, lambda: is_shared(members, PARTITIONS), f"shares with a {protocol} member", SETTLED_S)
        if len(members) > count:
            seen.extend(close(members.pop(0)))
            poll_until(members, lambda: is_shared(members, PARTITIONS), "shares of those left", SETTLED_S)

    try:
        step("classic", count=2)
        step("classic", count=2)
        assert kind_of(cluster, group) == "classic"
        step("consumer", count=2)
        assert kind_of(cluster, group) == "consumer"
        step("consumer", count=2)
        poll_until(
            members, lambda: min(committed(cluster, topic, group, PARTITIONS)) >= 0, "a commit of each", SETTLED_S
        )
        before = committed(cluster, topic, group, PARTITIONS)
        step("classic", count=2)
        assert kind_of(cluster, group) == "consumer"
        step("classic", count=2)
        assert kind_of(cluster, group) == "classic"
        after = committed(cluster, topic, group, PARTITIONS)
        assert all(late >= early >= 0 for early, late in zip(before, after, strict=True)), "offsets stay"
        wanted = load.stop()
        ends = [sum(value.startswith(f"{index}-") for value in wanted) for index in range(PARTITIONS)]
        poll_until(members, lambda: committed(cluster, topic, group, PARTITIONS) == ends, "all committed", SETTLED_S)
        seen += [value for member in members for value in member.values]
        assert set(seen) == set(wanted), "no record is lost"
    finally:
        load.stop()
        for member in members:
            member.consumer.close()


def test_a_group_whose_assignor_keeps_data_in_assignments_stays_classic(cluster: Cluster) -> None:
    """librdkafka's cooperative-sticky does, once it has moved a partition. Apache Kafka refuses the same."""
    topic = group = "sticky"
    create_topic(cluster, topic, partitions=PARTITIONS)
    sticky = {"partition.assignment.strategy": "cooperative-sticky"}
    members: list[Member] = []
    try:
        for _ in range(2):
            members.append(Member(cluster, topic, group, **sticky))
            poll_until(members, lambda: is_shared(members, PARTITIONS), "shares", SETTLED_S)
        refused = ask(
            cluster.ports[1]["DIRECT"], ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_id=group, member_id="new",
            member_epoch=0, instance_id=None, rack_id=None, rebalance_timeout=60_000, subscribed_topic_names=[topic],
            subscribed_topic_regex=None, server_assignor=None, topic_partitions=[],
        )  # fmt: skip
        assert refused.error_code is ErrorCode.group_id_not_found
        assert "custom assignor" in refused.error_message
        assert kind_of(cluster, group) == "classic"
        assert is_shared(members, PARTITIONS)
    finally:
        for member in members:
            member.consumer.close()


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("assignor", ["Range", "CooperativeSticky"])
def test_java_consumers_of_both_protocols_share_a_group(cluster: Cluster, assignor: str) -> None:
    topic = group = f"moving-java-{assignor}"
    create_topic(cluster, topic, partitions=PARTITIONS)
    wanted = [f"{index}-{number}" for index in range(PARTITIONS) for number in range(5)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET})
    for value in wanted:
        producer.produce(topic, value.encode(), partition=int(value[0]))
    assert producer.flush(60) == 0
    processes = [java_consumer(cluster, group, "classic", assignor)]
    try:
        wait_members(cluster, group, "classic", 1)
        processes.append(java_consumer(cluster, group, "consumer", assignor))
        wait_members(cluster, group, "consumer", 2)
        processes.pop(0).terminate()
        wait_members(cluster, group, "consumer", 1)
        processes.append(java_consumer(cluster, group, "classic", assignor))
        wait_members(cluster, group, "consumer", 2)
        processes.pop(0).terminate()
        wait_members(cluster, group, "classic", 1)
        poll_until([], lambda: committed(cluster, topic, group, PARTITIONS) == [5] * PARTITIONS, "commits", SETTLED_S)
    finally:
        for process in processes:
            process.kill()
            process.wait(20)


def java_consumer(cluster: Cluster, group: str, protocol: str, assignor: str) -> subprocess.Popen[bytes]:
    java = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    tool = [*java, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", cluster.bootstrap()]
    asked = ["--topic", group, "--group-id", group, "--group-protocol", protocol, "--reset-policy", "earliest"]
    if protocol == "classic":
        name = f"org.apache.kafka.clients.consumer.{assignor}Assignor"
        asked += ["--session-timeout", "10000", "--assignment-strategy", name]
    with (cluster.directory / f"java-{group}-{protocol}.log").open("ab") as log:
        return subprocess.Popen([*tool, *asked], stdout=log, stderr=log, cwd=cluster.directory)


def wait_members(cluster: Cluster, group: str, kind: str, count: int) -> None:
    """Until the group is of this kind and has this many members, and each partition is one member's."""
    what = f"a {kind} group {group} of {count} members"
    poll_until([], lambda: _is_spread(cluster, group, kind, count), what, SETTLED_S)


def _is_spread(cluster: Cluster, group: str, kind: str, count: int) -> bool:
    time.sleep(0.2)
    port = cluster.ports[1]["DIRECT"]
    owned: list[int] = []
    if kind == "consumer":
        (found,) = ask(port, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[group]).groups
        owned = [index for member in found.members for each in member.assignment.topic_partitions
                 for index in each.partitions]  # fmt: skip
    else:
        (found,) = ask(port, ApiKey.DESCRIBE_GROUPS, 5, groups=[group]).groups
        for member in found.members:
            owned += decode_assignment(bytes(member.member_assignment))[0].get(group, frozenset())
    return found.group_state == "Stable" and len(found.members) == count and sorted(owned) == list(range(PARTITIONS))

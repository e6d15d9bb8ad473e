"""Consumer groups with real clients on three real brokers: rebalances, commits, and a coordinator that dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET, admin, create_topic, leader, produce, wait_brokers
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from broker.coordinator.keys import partition_for

pytestmark = pytest.mark.slow

OFFSETS_PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 200,
    "offsets.topic.num.partitions": OFFSETS_PARTITIONS,
    "controller.quorum.fetch.timeout.ms": 2_000,  # Kafka's own: a busy machine must not change leaders under the test
    "controller.quorum.request.timeout.ms": 2_000,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("groups")
    with Cluster(directory, settings=SETTINGS) as made:
        wait_brokers(made)
        yield made


class Member:
    """One confluent-kafka consumer: what it was assigned and what it read."""

    def __init__(
        self, cluster: Cluster, topic: str, group: str, protocol: str = "classic", **properties: object
    ) -> None:
        timing = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200} if protocol == "classic" else {}
        self.rebalances = 0
        self.values: list[str] = []
        self.not_committed = 0  # records whose commit was refused
        self._to_commit: dict[tuple[str, int], tuple[int, int]] = {}  # place -> next offset, records
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap(),
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **timing,
                **QUIET,
                **properties,
            }
        )
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, *_: object) -> None:
        self.rebalances += 1

    def _revoked(self, _: object, partitions: list[TopicPartition]) -> None:
        self.rebalances += 1
        for each in partitions:  # their next owner reads from what is committed
            self._to_commit.pop((each.topic, each.partition), None)

    def poll(self) -> None:
        """Reads on, and commits what it read. It names the offsets, because the client forgets those of a partition
        that a rebalance takes away in between. What was refused is committed by a later poll, if the partition has
        stayed: the client does not read it again."""
        messages = [message for message in self.consumer.consume(500, 0.05) if not message.error()]
        self.values += [(message.value() or b"").decode() for message in messages]
        self.not_committed += len(messages)
        for message in messages:
            place = str(message.topic()), int(message.partition() or 0)
            self._to_commit[place] = int(message.offset() or 0) + 1, self._to_commit.get(place, (0, 0))[1] + 1
        if self._to_commit:
            places = [TopicPartition(*place, end) for place, (end, _) in self._to_commit.items()]
            self.consumer.commit(offsets=places, asynchronous=False)
            self.not_committed -= sum(records for _, records in self._to_commit.values())
            self._to_commit = {}

    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}


def poll_until(members: list[Member], condition: Any, what: str, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}; {[m.partitions() for m in members]}"
        for member in members:
            try:
                member.poll()
            except KafkaException as error:
                # A commit that a rebalance or a fail-over overtook: read on, and commit then.
                if not (error.args[0].retriable() or error.args[0].name() in STALE):
                    raise


STALE = ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "_WAIT_COORD")


def is_shared(members: list[Member], partitions: int) -> bool:
    """All of them, evenly: on the way to it each partition may have its one owner already."""
    shares = [member.partitions() for member in members]
    sizes = [len(share) for share in shares]
    owned = sorted(each for share in shares for each in share)
    return owned == list(range(partitions)) and max(sizes) - min(sizes) <= 1


COORDINATOR_NOT_READY = (
    KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._WAIT_COORD,
)  # fmt: skip


def committed(cluster: Cluster, topic: str, group: str, partitions: int) -> list[int]:
    """What a consumer that knows nothing is told."""
    asking = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": group, **QUIET})
    places = [TopicPartition(topic, index) for index in range(partitions)]
    deadline_s = time.monotonic() + 120
    try:
        while True:
            try:
                return [place.offset for place in asking.committed(places, timeout=20)]
            except KafkaException as error:
                # A broker that comes back hosts nothing until the controller knows its new incarnation, and this call
                # of the client does not look for the coordinator a second time.
                if error.args[0].code() not in COORDINATOR_NOT_READY or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)
    finally:
        asking.close()


def delete_group(client: Any, group: str) -> None:
    at_coordinator(lambda: client.delete_consumer_groups([group])[group])


def set_offsets(client: Any, group: str, places: list[TopicPartition]) -> None:
    wanted = ConsumerGroupTopicPartitions(group, places)
    at_coordinator(lambda: client.alter_consumer_group_offsets([wanted])[group])


def at_coordinator(ask: Callable[[], Any]) -> None:
    """librdkafka does not ask again when the coordinator moves, as it may on a busy machine."""
    deadline = time.monotonic() + 60
    while True:
        try:
            ask().result(60)
            return
        except KafkaException as error:
            if error.args[0].name() not in MOVED or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


MOVED = ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE")


def fill(cluster: Cluster, topic: str, partitions: int, prefix: str) -> set[str]:
    """Ten records a partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET})
    values = {f"{prefix}-{index}-{number}" for index in range(partitions) for number in range(10)}
    for value in values:
        producer.produce(topic, value.encode(), partition=int(value.split("-")[1]))
    assert producer.flush(60) == 0
    return values


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.long), "consumer"])
def test_three_members_share_lose_one_and_survive_their_coordinator(cluster: Cluster, protocol: str) -> None:
    topic, group, partitions = f"shared-{protocol}", f"group-{protocol}", 6
    create_topic(cluster, topic, partitions=partitions)
    expected = fill(cluster, topic, partitions, "a")
    members = [Member(cluster, topic, group, protocol) for _ in range(3)]
    try:
        poll_until(members, lambda: is_shared(members, partitions), "three shares")
        assert [len(member.partitions()) for member in members] == [2, 2, 2]
        seen: list[str] = []
        poll_until(members, lambda: expected <= {v for m in members for v in m.values}, "all records")

        gone = members.pop()
        seen += gone.values
        gone.consumer.close()
        poll_until(members, lambda: is_shared(members, partitions), "two shares")
        poll_until(members, lambda: committed(cluster, topic, group, partitions) == [10] * partitions, "commits")

        coordinator = leader(cluster, "__consumer_offsets", partition_for(group, OFFSETS_PARTITIONS))
        cluster.kill(coordinator)
        try:
            assert committed(cluster, topic, group, partitions) == [10] * partitions
            more = fill(cluster, topic, partitions, "b")
            poll_until(members, lambda: more <= {v for m in members for v in m.values}, "records after the fail-over")
            poll_until(members, lambda: is_shared(members, partitions), "two shares after the fail-over")
            poll_until(
                members, lambda: committed(cluster, topic, group, partitions) == [20] * partitions, "commits after it"
            )
        finally:
            cluster.start(coordinator)
            wait_brokers(cluster)
        # Nothing was read again but what a commit had not covered when the partition moved.
        everything = seen + [value for member in members for value in member.values]
        assert set(everything) == expected | more
        again = sum(member.not_committed for member in (*members, gone))
        assert len(everything) <= len(expected | more) + again + 10
    finally:
        for member in members:
            member.consumer.close()


def test_a_static_member_restarts_without_a_rebalance(cluster: Cluster) -> None:
    create_topic(cluster, "static", partitions=4)
    # A busy host may take some seconds until the second one is back: its time must not end before.
    session = {"session.timeout.ms": 60_000}
    members = [
        Member(cluster, "static", "still", **session, **{"group.instance.id": f"i{number}"}) for number in range(2)
    ]
    try:
        poll_until(members, lambda: is_shared(members, 4), "two shares")
        share, before = members[1].partitions(), members[0].rebalances
        members[1].consumer.close()  # a static member does not leave
        members[1] = Member(cluster, "static", "still", **session, **{"group.instance.id": "i1"})
        poll_until(members, lambda: members[1].partitions() == share, "its old share")
        end = time.monotonic() + 1.0  # five heartbeats of the other
        poll_until(members, lambda: time.monotonic() > end, "time")
        assert members[0].rebalances == before
        assert is_shared(members, 4)
        client = admin(cluster)
        described = client.describe_consumer_groups(["still"])["still"].result(60)
        assert {member.group_instance_id for member in described.members} == {"i0", "i1"}
    finally:
        for member in members:
            member.consumer.close()


def test_admin_lists_describes_changes_and_deletes_groups(cluster: Cluster) -> None:
    client = admin(cluster)
    create_topic(cluster, "administered")
    produce(cluster, "administered", ["x"])
    set_offsets(client, "by-hand", [TopicPartition("administered", 0, 1)])
    assert committed(cluster, "administered", "by-hand", 1) == [1]
    member = Member(cluster, "administered", "used")
    try:
        poll_until([member], lambda: member.values == ["x"], "the record")
        listed = {group.group_id: group.state.name for group in client.list_consumer_groups().result(60).valid}
        assert listed["by-hand"] == "EMPTY"
        assert listed["used"] == "STABLE"
        description = client.describe_consumer_groups(["used"])["used"].result(60)
        assert description.partition_assignor == "range"
        assert [each.partition for each in description.members[0].assignment.topic_partitions] == [0]
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            delete_group(client, "used")
    finally:
        member.consumer.close()
    for group in ("used", "by-hand"):
        delete_group(client, group)
    assert committed(cluster, "administered", "by-hand", 1) == [-1001]
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        delete_group(client, "used")


def test_clients_do_not_write_to_the_topic_of_the_coordinators(cluster: Cluster) -> None:
    client = admin(cluster)
    create_topic(cluster, "guarded")
    set_offsets(client, "any", [TopicPartition("guarded", 0, 1)])  # the topic is there now
    errors: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET})
    producer.produce(
        "__consumer_offsets",
        b"junk",
        key=b"junk",
        on_delivery=lambda error, _: errors.append(error.name() if error else ""),
    )
    assert producer.flush(60) == 0
    assert errors == ["TOPIC_EXCEPTION"]
    assert committed(cluster, "guarded", "any", 1) == [1]

"""The admin client against a real broker: what the broker offers can be reached, and errors say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from broker.door.questions import (
    changed_replicas,
    log_directories,
    moved_logs,
    reassignments,
    settings_of,
    unregistered_broker,
)
from tests.broker_node.cluster_helper import Cluster
from tests.patience import wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "offsets.topic.num.partitions": 2,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 2,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}
ZERO = TopicPartition("t", 0)
TIMEOUT_MS = 30_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("admin"), brokers=1, settings=SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000}) as opened:
        opened.create_topics([NewTopic(name="t", partitions=2, replication_factor=1)])
        with Producer({"bootstrap.servers": cluster.bootstrap()}) as producer:
            for index in range(20):
                producer.send("t", b"%d" % index, partition=index % 2)
            assert producer.flush(120) == 0
        yield opened


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_described_and_deleted(cluster: Cluster, admin: Admin, protocol: str) -> None:
    group = f"g-{protocol}"
    properties = {"group.id": group, "group.protocol": protocol, "client.id": "reader", "enable.auto.commit": "false"}
    with Consumer({"bootstrap.servers": cluster.bootstrap(), **properties}) as consumer:
        consumer.subscribe(["t"])
        wait_until(lambda: consumer.poll(50) or len(consumer.assignment()) == 2, "the assignment")
        consumer.commit_sync({ZERO: OffsetAndMetadata(4), TopicPartition("t", 1): OffsetAndMetadata(5)})
        described = wait_until(
            lambda: (found := admin.groups.describe(group)) and found.state == "Stable" and found, "a stable group", 40
        )
        assert described.group_type == protocol
        [member] = described.members
        assert member.client_id == "reader"
        assert member.assignment == {ZERO, TopicPartition("t", 1)}
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            admin.groups.delete(group)
    wait_until(lambda: admin.groups.describe(group).state == "Empty", "an empty group")
    assert {each: at.offset for each, at in admin.groups.offsets(group).items()} == {ZERO: 4, TopicPartition("t", 1): 5}
    assert admin.groups.offsets(group, [ZERO])[ZERO].offset == 4
    admin.groups.delete(group)
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        admin.groups.describe(group)


def test_settings_are_changed_and_one_question_is_asked_of_one_broker(admin: Admin) -> None:
    admin.alter_configs("topic", "t", {"retention.ms": "1000"})
    assert admin.ask(settings_of("topic", "t"))["retention.ms"].value == "1000"
    admin.alter_configs("topic", "t", delete=["retention.ms"])
    assert admin.ask(settings_of("topic", "t"))["retention.ms"].value == "604800000"
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        admin.alter_configs("topic", "t", {"retention.ms": "soon"})
    assert admin.ask(changed_replicas({ZERO: [1]}, TIMEOUT_MS)) == {ZERO: None}
    assert admin.ask(reassignments([ZERO], TIMEOUT_MS)) == {}
    answers = admin.ask(changed_replicas({ZERO: [1, 7], TopicPartition("t", 1): None}, TIMEOUT_MS))
    assert "no such broker is registered" in str(answers[ZERO])
    assert "NO_REASSIGNMENT_IN_PROGRESS" in str(answers[TopicPartition("t", 1)])
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        admin.ask(unregistered_broker(7))
    [(path, directory)] = admin.ask(log_directories(), 1).items()
    replica = directory.replicas[ZERO]
    assert (directory.error, replica.is_future, replica.lag, replica.size_bytes > 0) == (None, False, 0, True)
    assert admin.ask(moved_logs({ZERO: path}), 1) == {ZERO: None}
    [refused] = admin.ask(moved_logs({ZERO: "/nowhere"}), 1).values()
    assert "LOG_DIR_NOT_FOUND" in str(refused)
    [unknown] = admin.ask(moved_logs({TopicPartition("no-such-topic", 0): path}), 1).values()
    assert "REPLICA_NOT_AVAILABLE" in str(unknown)


def test_offsets_of_a_member_join_the_producers_transaction(cluster: Cluster, admin: Admin) -> None:
    """KIP-447: the generation of the member fences an older one."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "eos", "enable.auto.commit": "false"})
    with consumer, Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": "eos"}) as producer:
        consumer.subscribe(["t"])
        wait_until(lambda: consumer.poll(50) or len(consumer.assignment()) == 2, "the assignment")
        producer.init_transactions()
        member = consumer.group_metadata()
        assert (member.group_id, member.generation_id >= 1, bool(member.member_id)) == ("eos", True, True)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({ZERO: 3}, member)
        producer.commit_transaction()
        assert consumer.committed([ZERO])[ZERO] == OffsetAndMetadata(3, -1, "")
        producer.begin_transaction()
        old = type(member)(group_id="eos", generation_id=member.generation_id - 1, member_id=member.member_id)
        with pytest.raises(KafkaError, match="ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({ZERO: 9}, old)
        producer.abort_transaction()
        assert consumer.committed([ZERO])[ZERO] == OffsetAndMetadata(3, -1, "")

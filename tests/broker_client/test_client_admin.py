"""The admin client against a real broker: what the broker offers can be reached, and errors say what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
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
def test_groups_are_listed_described_changed_and_deleted(cluster: Cluster, admin: Admin, protocol: str) -> None:
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
        listed = admin.groups.list(states=["Stable"])[group]
        assert (listed.group_type, listed.coordinator) == (protocol, 1)
        assert group not in admin.groups.list(states=["Empty"])
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            admin.groups.delete(group)
    wait_until(lambda: admin.groups.describe(group).state == "Empty", "an empty group")
    assert {each: at.offset for each, at in admin.groups.offsets(group).items()} == {ZERO: 4, TopicPartition("t", 1): 5}
    admin.groups.alter_offsets(group, {ZERO: OffsetAndMetadata(1)})
    assert admin.groups.offsets(group, [ZERO])[ZERO].offset == 1
    admin.groups.delete(group)
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        admin.groups.describe(group)


def test_the_log_and_its_settings_are_changed(cluster: Cluster, admin: Admin) -> None:
    admin.create_topics([NewTopic(name="log", partitions=1, replication_factor=1)])
    with Producer({"bootstrap.servers": cluster.bootstrap()}) as producer:
        for index in range(10):
            producer.send("log", b"%d" % index)
        assert producer.flush(120) == 0
    log = TopicPartition("log", 0)
    assert admin.delete_records({log: 6}) == {log: 6}
    assert admin.list_offsets([log], -2) == {log: 6}
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE: log-0"):
        admin.delete_records({log: 99})
    admin.create_partitions({"log": 3})
    assert len(admin.describe_topics(["log"])["log"].partitions) == 3
    with pytest.raises(KafkaError, match="INVALID_PARTITIONS"):
        admin.create_partitions({"log": 2})
    admin.alter_configs("topic", "log", {"retention.ms": "1000"}, append={"cleanup.policy": "compact"})
    settings = admin.describe_configs("topic", "log")
    assert (settings["retention.ms"], set(str(settings["cleanup.policy"]).split(","))) == (
        "1000",
        {"compact", "delete"},
    )
    admin.alter_configs("topic", "log", delete=["retention.ms"], subtract={"cleanup.policy": "compact"})
    settings = admin.describe_configs("topic", "log")
    assert (settings["retention.ms"], settings["cleanup.policy"]) == ("604800000", "delete")
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        admin.alter_configs("topic", "log", {"retention.ms": "soon"})
    assert admin.elect_leaders([log]) == {log: None}
    assert admin.alter_reassignments({log: [1]}) == {log: None}
    assert admin.list_reassignments([log]) == admin.list_reassignments() == {}
    answers = admin.alter_reassignments({log: [1, 7], ZERO: None})
    assert "no such broker is registered" in str(answers[log])
    assert "NO_REASSIGNMENT_IN_PROGRESS" in str(answers[ZERO])
    with pytest.raises(KafkaError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(7)
    [(path, directory)] = admin.describe_log_dirs(1).items()
    assert directory.error is None
    assert not directory.replicas[ZERO].is_future
    assert admin.alter_replica_log_dirs(1, {ZERO: path}) == {ZERO: None}
    [refused] = admin.alter_replica_log_dirs(1, {ZERO: "/nowhere"}).values()
    assert "LOG_DIR_NOT_FOUND" in str(refused)
    [unknown] = admin.alter_replica_log_dirs(1, {TopicPartition("no-such-topic", 0): path}).values()
    assert "REPLICA_NOT_AVAILABLE" in str(unknown)
    assert directory.replicas[ZERO].size_bytes > 0
    assert directory.replicas[ZERO].lag == 0


def test_a_quota_is_set_and_removed(admin: Admin) -> None:
    admin.alter_client_quotas("slow", {"producer_byte_rate": 1000.0})
    wait_until(
        lambda: admin.describe_client_quotas("slow") == {"slow": {"producer_byte_rate": 1000.0}}, "the quota", 20
    )
    admin.alter_client_quotas("slow", {"producer_byte_rate": None})
    wait_until(lambda: admin.describe_client_quotas() == {}, "no quota")


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

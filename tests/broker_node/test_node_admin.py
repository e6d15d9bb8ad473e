"""Administration at run time with real clients: settings, partitions, elections, deleted records, descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import admin, consume, create_topic, isr, known_topic, leader, metadata, produce, wait_brokers
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec
from link_helper import RawClient

from broker.node.process.clock import wall_ms
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import encode_batch
from tests.patience import wait_until

pytestmark = pytest.mark.slow
OPERATIONS = {
    "set": AlterConfigOpType.SET,
    "delete": AlterConfigOpType.DELETE,
    "append": AlterConfigOpType.APPEND,
    "subtract": AlterConfigOpType.SUBTRACT,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("admin"), settings=PATIENT) as running:
        wait_brokers(running)
        yield running


def alter(cluster: Cluster, kind: str, name: str, operation: str, **values: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=OPERATIONS[operation])
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    client = admin(cluster)
    client.incremental_alter_configs([resource])[resource].result(60)


def described(cluster: Cluster, kind: str, name: str) -> Any:
    client = admin(cluster)
    (future,) = client.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(60)


def segments(cluster: Cluster, broker: int, topic: str) -> list[str]:
    return sorted(path.name for path in (cluster.log_dir(broker) / f"{topic}-0").glob("*.log"))


def test_topic_settings_change_while_it_is_written_to(cluster: Cluster) -> None:
    create_topic(cluster, "tuned")
    produce(cluster, "tuned", ["x" * 2000])
    alter(cluster, "topic", "tuned", "set", max_message_bytes="1000", segment_bytes="1024")

    def refused() -> bool:
        try:
            produce(cluster, "tuned", ["y" * 2000])
        except AssertionError:
            return True
        return False

    wait_until(refused, "the smaller max.message.bytes to hold")
    alter(cluster, "topic", "tuned", "delete", max_message_bytes="")
    wait_until(lambda: "max.message.bytes" not in str(_overrides(cluster, "tuned")), "the override to go")
    for number in range(6):
        produce(cluster, "tuned", [f"{number}" * 600], acks="all")
    wait_until(
        lambda: all(len(segments(cluster, each, "tuned")) > 3 for each in cluster.ids), "small segments everywhere"
    )


def _overrides(cluster: Cluster, topic: str) -> dict[str, str]:
    return {key: each.value for key, each in described(cluster, "topic", topic).items() if each.source == 1}


def test_list_settings_and_the_older_alter_configs(cluster: Cluster) -> None:
    create_topic(cluster, "lists", config={"retention.ms": "1000"})
    alter(cluster, "topic", "lists", "append", cleanup_policy="compact")
    assert _overrides(cluster, "lists") == {"retention.ms": "1000", "cleanup.policy": "delete,compact"}
    client = admin(cluster)
    resource = ConfigResource("topic", "lists", set_config={"segment.ms": "5000"})
    client.alter_configs([resource])[resource].result(60)
    wait_until(lambda: _overrides(cluster, "lists") == {"segment.ms": "5000"}, "all overrides replaced")


def test_wrong_settings_are_refused_with_their_reason(cluster: Cluster) -> None:
    create_topic(cluster, "strict")
    for key, value in (("remote_storage_enable", "true"), ("no_such_thing", "1"), ("retention_ms", "soon")):
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            alter(cluster, "topic", "strict", "set", **{key: value})
    with pytest.raises(KafkaException, match="dynamically"):
        alter(cluster, "broker", "1", "set", log_dirs="/elsewhere")
    assert _overrides(cluster, "strict") == {}


def test_brokers_take_settings_at_run_time(cluster: Cluster) -> None:
    alter(cluster, "broker", "2", "set", log_retention_ms="99")
    wait_until(lambda: described(cluster, "broker", "2")["log.retention.ms"].value == "99", "the value of broker 2")
    assert described(cluster, "broker", "1")["log.retention.ms"].value == "604800000"
    alter(cluster, "broker", "2", "delete", log_retention_ms="")


def test_settings_are_described_with_what_comes_of_them_here_when_asked(cluster: Cluster) -> None:
    """KIP-569; sarama's TestFuncAdminDescribeConfig wants some text."""
    create_topic(cluster, "told")
    resources = [
        {"resource_type": 2, "resource_name": "told", "configuration_keys": None},
        {"resource_type": 4, "resource_name": "1", "configuration_keys": None},
    ]
    with RawClient(cluster.ports[1]["DIRECT"]) as client:
        for version, wants in ((1, False), (3, True), (4, True), (4, False)):
            asked = {"resources": resources, "include_synonyms": False}
            if version >= 3:
                asked["include_documentation"] = wants
            message = request(ApiKey.DESCRIBE_CONFIGS, version, **asked)
            answer = client.call(ApiKey.DESCRIBE_CONFIGS, version, message)
            texts = [
                {each.name: getattr(each, "documentation", None) for each in result.configs}
                for result in answer.results
            ]
            assert all(bool(text) is wants for found in texts for text in found.values())
            if wants:
                topic, broker = texts
                assert topic["retention.ms"] == "Apache Kafka's type long, default 604800000. Here: honoured."
                assert "accepted without effect" in topic["preallocate"]
                assert "accepted without effect" in broker["log.preallocate"]


def test_a_client_learns_which_records_had_its_batch_refused(cluster: Cluster) -> None:
    create_topic(cluster, "keyed", config={"cleanup.policy": "compact"})
    records = encode_batch([b"1", b"2", b"3"], timestamps_ms=wall_ms(), keys=[b"a", None, b"c"])
    topics = [{"name": "keyed", "partition_data": [{"index": 0, "records": records}]}]
    with RawClient(cluster.ports[leader(cluster, "keyed")]["DIRECT"]) as client:
        for version, named in ((7, []), (8, [1]), (12, [1])):
            asked = request(ApiKey.PRODUCE, version, transactional_id=None, acks=-1, timeout=5_000, topic_data=topics)
            (answer,) = client.call(ApiKey.PRODUCE, version, asked).responses[0].partition_responses
            assert (answer.error_code, answer.log_start_offset) == (ErrorCode.invalid_record, 0)
            assert [each.batch_index for each in getattr(answer, "record_errors", ())] == named
            assert bool(getattr(answer, "error_message", None)) is bool(named)


def test_partitions_are_added_and_can_be_written_to(cluster: Cluster) -> None:
    create_topic(cluster, "grows")
    client = admin(cluster)
    client.create_partitions([NewPartitions("grows", 3)])["grows"].result(60)
    assert len(known_topic(cluster, "grows", partitions=3).partitions) == 3
    assert {leader(cluster, "grows", partition) for partition in range(3)} <= set(cluster.ids)
    with pytest.raises(KafkaException, match="would not be an increase"):
        client.create_partitions([NewPartitions("grows", 2)])["grows"].result(60)


def test_deleted_records_are_gone_on_every_replica(cluster: Cluster) -> None:
    create_topic(cluster, "shortened")
    produce(cluster, "shortened", [f"{number}" for number in range(20)], acks="all", **{"batch.num.messages": 5})
    client = admin(cluster)
    where = TopicPartition("shortened", 0, 12)
    assert client.delete_records([where])[where].result(60).low_watermark == 12
    spec = TopicPartition("shortened", 0)
    assert client.list_offsets({spec: OffsetSpec.earliest()})[spec].result(60).offset == 12
    assert consume(cluster, "shortened", 8)[-1] == "19"  # from offset 0: out of range, so from the earliest
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        beyond = TopicPartition("shortened", 0, 21)
        client.delete_records([beyond])[beyond].result(60)


def test_new_replica_of_a_log_that_begins_inside_a_batch_catches_up(tmp_path: Path) -> None:
    with Cluster(tmp_path) as running:
        wait_brokers(running)
        create_topic(running, "t")
        produce(running, "t", [f"{number}" for number in range(20)], acks="all", **{"linger.ms": 50})
        client = admin(running)
        where = TopicPartition("t", 0, 7)  # all 20 are one batch
        client.delete_records([where])[where].result(60)
        behind = next(each for each in running.ids if each not in (leader(running, "t"), running.controller()))
        running.kill(behind)
        for path in (running.log_dir(behind) / "t-0").iterdir():
            path.unlink()
        running.start(behind)
        path = f"t-0/{0:020d}.log"
        whole = (running.log_dir(leader(running, "t")) / path).read_bytes()
        mine = running.log_dir(behind) / path
        wait_until(lambda: mine.exists() and mine.read_bytes() == whole, "the empty replica to catch up")
        wait_until(lambda: behind in isr(running, "t"), "it in the ISR")


def is_held(outcome: Any) -> bool:
    """A request whose answer a busy host delays is sent again, and finds that nothing is left to do."""
    return all(error is None or error.name() == "ELECTION_NOT_NEEDED" for error in outcome.values())


def test_preferred_leader_leads_again_when_asked(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=PATIENT) as running:
        wait_brokers(running)
        create_topic(running, "t", partitions=3)
        produce(running, "t", ["a"], acks="all")
        preferred = known_topic(running, "t").partitions[0].replicas[0]
        assert running.terminate(preferred) == 0
        assert leader(running, "t") != preferred
        running.start(preferred)
        wait_until(lambda: preferred in isr(running, "t"), "it is back in the ISR")
        client = admin(running)
        partition = TopicPartition("t", 0)
        outcome = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(60)
        assert is_held(outcome)
        wait_until(lambda: leader(running, "t") == preferred, "the preferred leader")
        again = client.elect_leaders(ElectionType.PREFERRED, [partition]).result(60)
        assert [error.name() for error in again.values()] == ["ELECTION_NOT_NEEDED"]


@pytest.mark.long
def test_unclean_election_gives_an_offline_partition_a_leader(tmp_path: Path) -> None:
    with Cluster(tmp_path) as running:
        wait_brokers(running)
        client = admin(running)
        client.create_topics([NewTopic("t", 1, replica_assignment=[[1, 2]])])["t"].result(60)
        produce(running, "t", ["a"], acks="all")
        running.kill(2)
        wait_until(lambda: isr(running, "t") == {1}, "the dead follower to leave the ISR")
        produce(running, "t", ["b"], acks="all")
        running.kill(1)
        running.start(2)
        wait_until(lambda: _leader_now(running) == -1, "the partition without a leader")
        partition = TopicPartition("t", 0)
        clients = admin(running)
        assert is_held(clients.elect_leaders(ElectionType.UNCLEAN, [partition]).result(60))
        assert leader(running, "t") == 2
        assert consume(running, "t", 1) == ["a"]  # what only the dead leader held is lost: that is unclean


def _leader_now(running: Cluster) -> int | None:
    found = metadata(admin(running))
    if not found or not getattr(found.topics.get("t"), "partitions", None) or 2 not in found.brokers:
        return None
    now: int = found.topics["t"].partitions[0].leader
    return now


def test_log_directories_and_the_quorum_are_described(cluster: Cluster) -> None:
    create_topic(cluster, "measured")
    produce(cluster, "measured", ["x" * 5000], acks="all")
    with RawClient(cluster.ports[1]["DIRECT"]) as client:
        answer = client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, request(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None))
        (result,) = answer.results
        sizes = {topic.name: topic.partitions[0].partition_size for topic in result.topics}
        assert result.log_dir == str(cluster.log_dir(1))
        assert result.usable_bytes > 0
        assert sizes["measured"] > 5000
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]

        def caught_up() -> Any:
            """The answer, once its leader is the last elected one and the slowest voter has what is committed."""
            told = client.call(ApiKey.DESCRIBE_QUORUM, 2, request(ApiKey.DESCRIBE_QUORUM, 2, topics=topics))
            if told.error_code is not ErrorCode.none:
                return None
            quorum = told.topics[0].partitions[0]
            has_all = all(voter.log_end_offset >= quorum.high_watermark - 1 for voter in quorum.current_voters)
            return told if has_all and quorum.leader_id == cluster.controller() else None

        found = wait_until(caught_up, "a quorum whose voters have everything")
        (partition,) = found.topics[0].partitions
        assert {voter.replica_id for voter in partition.current_voters} == set(cluster.ids)
        assert {node.node_id for node in found.nodes} == set(cluster.ids)


def test_topic_partitions_come_page_by_page(cluster: Cluster) -> None:
    create_topic(cluster, "paged", partitions=5)
    seen: list[int] = []
    cursor: dict[str, object] | None = None
    with RawClient(cluster.ports[1]["DIRECT"]) as client:
        while True:
            message = request(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                0,
                topics=[{"name": "paged"}],
                response_partition_limit=2,
                cursor=cursor,
            )
            answer = client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, message)
            seen += [each.partition_index for topic in answer.topics for each in topic.partitions]
            if answer.next_cursor is None:
                break
            cursor = {
                "topic_name": answer.next_cursor.topic_name,
                "partition_index": answer.next_cursor.partition_index,
            }
    assert seen == [0, 1, 2, 3, 4]

"""Topic settings at work in broker processes: compaction, retention, codecs, timestamps, keys; sessions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import kafka
import pytest
from cluster_helper import PATIENT, SESSION_TIMEOUT_MS, Cluster
from confluent_helper import admin, consume, create_topic, leader, produce, wait_brokers
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from link_helper import RawClient

from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request, to_ms
from broker.wire.records import CodecId, encode_batch, iter_batches, parse_batch_header
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SETTINGS = {
    **PATIENT,
    "log.cleaner.backoff.ms": 100,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 100,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("settings"), settings=SETTINGS) as running:
        wait_brokers(running)
        yield running


def send(cluster: Cluster, topic: str, batch: bytes) -> tuple[ErrorCode, int]:
    """(error, throttle time in ms) of one produced batch. As any client does, it asks again if the leader has moved, or
    has not heard of its topic yet: CreateTopics is answered when the controller has it."""
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    message = request(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=5000, topic_data=topics)
    elsewhere = (ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)
    deadline_s = time.monotonic() + 60
    while True:
        with RawClient(cluster.ports[leader(cluster, topic)]["DIRECT"]) as client:
            answer = client.call(ApiKey.PRODUCE, 9, message)
        error = answer.responses[0].partition_responses[0].error_code
        if error not in elsewhere or time.monotonic() > deadline_s:
            return error, to_ms(answer.throttle_time)
        time.sleep(0.05)


def log_size(log: Path) -> int:
    """Bytes of its segments; one that the cleaner replaces in this moment counts as nothing."""
    size = 0
    for path in log.glob("*.log"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def committed_offset(cluster: Cluster, partition: TopicPartition) -> int | None:
    """As a consumer that has just begun is told. None while the broker, after its start, is not the coordinator yet."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g"})
    try:
        return int(consumer.committed([partition], 5)[0].offset)
    except KafkaException:
        return None
    finally:
        consumer.close()


def keyed(cluster: Cluster, topic: str, pairs: list[tuple[str, str | None]]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "linger.ms": 0})
    for key, value in pairs:
        producer.produce(topic, value, key, partition=0)
        assert producer.flush(120) == 0


def test_a_compacted_topic_keeps_the_last_value_of_each_key_on_every_replica(cluster: Cluster) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(cluster, "compacted", config=config)
    values = {f"key-{number % 4}": f"{number}-" + "x" * 300 for number in range(40)}
    keyed(cluster, "compacted", [(f"key-{number % 4}", f"{number}-" + "x" * 300) for number in range(40)])

    def size(broker: int) -> int:
        return log_size(cluster.log_dir(broker) / "compacted-0")

    wait_until(lambda: all(size(each) < 6000 for each in cluster.ids), "small logs on every broker")
    found = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap().split(","), consumer_timeout_ms=60_000)
    found.assign([kafka.TopicPartition("compacted", 0)])
    found.seek_to_beginning()
    read: dict[str, str] = {}
    last = -1
    for message in found:
        read[message.key.decode()] = message.value.decode()
        last = message.offset
        if last == 39:
            break
    found.close()
    assert (read, last) == (values, 39)
    assert send(cluster, "compacted", encode_batch([b"no key"], timestamps_ms=-1))[0] is ErrorCode.invalid_record


def test_old_segments_go_and_followers_follow(cluster: Cluster) -> None:
    create_topic(cluster, "short", config={"retention.ms": "1000", "segment.bytes": "1024"})
    for number in range(6):
        produce(cluster, "short", [f"{number}" * 500], acks="all")
    client = admin(cluster)
    partition = TopicPartition("short", 0)

    def start() -> int:
        found: int = client.list_offsets({partition: OffsetSpec.earliest()})[partition].result(60).offset
        return found

    wait_until(lambda: start() == 6, "everything to be too old")
    directories = [cluster.log_dir(each) / "short-0" for each in cluster.ids]
    wait_until(lambda: all(len(list(path.glob("*.log"))) == 1 for path in directories), "one segment each")


def test_the_topic_decides_the_codec_and_the_time(cluster: Cluster) -> None:
    create_topic(cluster, "coded", config={"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"})
    produce(cluster, "coded", ["y" * 1000], **{"compression.type": "gzip"})
    assert consume(cluster, "coded", 1) == ["y" * 1000]
    data = (cluster.log_dir(leader(cluster, "coded")) / "coded-0" / f"{0:020d}.log").read_bytes()
    (batch,) = iter_batches(data)
    assert batch.header.codec is CodecId.ZSTD
    assert batch.header.has_log_append_time
    assert batch.is_crc_valid()
    assert abs(batch.header.max_timestamp - time.time() * 1000) < 60_000


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_any_codec_are_stored_in_the_topics(cluster: Cluster, wanted: str) -> None:
    topic = f"in-{wanted}"
    create_topic(cluster, topic, config={"compression.type": wanted})
    now_ms = int(time.time() * 1000)
    for codec in CodecId:
        batch = encode_batch([codec.name.encode() * 100], timestamps_ms=now_ms, codec=codec)
        assert send(cluster, topic, batch)[0] is ErrorCode.none
    assert consume(cluster, topic, len(CodecId)) == [codec.name * 100 for codec in CodecId]
    data = (cluster.log_dir(leader(cluster, topic)) / f"{topic}-0" / f"{0:020d}.log").read_bytes()
    expected = CodecId.NONE if wanted == "uncompressed" else CodecId[wanted.upper()]
    assert [batch.header.codec for batch in iter_batches(data)] == [expected] * len(CodecId)


def test_timestamps_out_of_range_are_refused(cluster: Cluster) -> None:
    create_topic(cluster, "timely", config={"message.timestamp.before.max.ms": "60000"})
    now_ms = int(time.time() * 1000)
    for timestamp, expected in (
        (now_ms, ErrorCode.none),
        (now_ms + 7_200_000, ErrorCode.invalid_timestamp),
        (now_ms - 120_000, ErrorCode.invalid_timestamp),
    ):
        assert send(cluster, "timely", encode_batch([b"v"], timestamps_ms=timestamp))[0] is expected


def test_flush_ms_and_small_indexes_do_not_disturb(cluster: Cluster) -> None:
    create_topic(cluster, "flushed", config={"flush.ms": "10", "flush.messages": "2", "segment.index.bytes": "64"})
    values = [f"{number}" for number in range(60)]
    produce(cluster, "flushed", values, acks="all", **{"batch.num.messages": 3})
    assert consume(cluster, "flushed", 60) == values


def fetch(
    client: RawClient, topic: str | None, offset: int, *, session: int, epoch: int, max_wait_ms: int = 50
) -> object:
    partitions = [
        {"partition": index, "fetch_offset": offset if index == 0 else 0, "partition_max_bytes": 10_000}
        for index in range(2)
    ]
    message = request(
        ApiKey.FETCH,
        12,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[] if topic is None else [{"topic": topic, "partitions": partitions}],
        forgotten_topics_data=[],
    )
    return client.call(ApiKey.FETCH, 12, message)


def test_a_session_answers_with_what_changed(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1) as running:
        wait_brokers(running)
        create_topic(running, "t", partitions=2)
        produce(running, "t", ["a"])
        with RawClient(running.ports[1]["DIRECT"]) as client:
            first = fetch(client, "t", 0, session=0, epoch=0)
            session: int = first.session_id  # type: ignore[attr-defined]
            assert session > 0
            assert [each.partition_index for each in first.responses[0].partitions] == [0, 1]  # type: ignore[attr-defined]
            second = fetch(client, "t", 1, session=session, epoch=1)
            assert (second.session_id, list(second.responses)) == (session, [])  # type: ignore[attr-defined]
            produce(running, "t", ["b"])
            third = fetch(client, None, 0, session=session, epoch=2, max_wait_ms=2000)
            (told,) = third.responses[0].partitions  # type: ignore[attr-defined]
            assert parse_batch_header(told.records).base_offset == 1
            again = fetch(client, None, 0, session=session, epoch=2)
            assert again.error_code is ErrorCode.invalid_fetch_session_epoch  # type: ignore[attr-defined]
            _bounds(running)


def _bounds(running: Cluster) -> None:
    """One more connection than max.connections.per.ip is closed, the others live on."""
    with RawClient(running.ports[1]["DIRECT"]) as client:
        message = request(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            1,
            resources=[
                {
                    "resource_type": 4,
                    "resource_name": "1",
                    "configs": [{"name": "max.connections.per.ip", "config_operation": 0, "value": "1"}],
                }
            ],
            validate_only=False,
        )
        assert client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, message).responses[0].error_code is ErrorCode.none
        with RawClient(running.ports[1]["DIRECT"]) as other, pytest.raises((ConnectionError, OSError)):
            other.call(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, 0))
        client.call(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, 0))


def test_committed_offsets_survive_compaction_and_a_crash(tmp_path: Path) -> None:
    settings = {**SETTINGS, "offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1024}
    settings |= {"log.cleaner.min.cleanable.ratio": 0.01, "group.initial.rebalance.delay.ms": 0}
    settings |= {"broker.session.timeout.ms": SESSION_TIMEOUT_MS}
    with Cluster(tmp_path, brokers=1, settings=settings) as running:
        wait_brokers(running)
        create_topic(running, "t")
        produce(running, "t", ["a"] * 5)
        partition = TopicPartition("t", 0)
        consumer = Consumer({"bootstrap.servers": running.bootstrap(), "group.id": "g", "enable.auto.commit": False})
        consumer.assign([partition])
        for number in range(60):
            consumer.commit(offsets=[TopicPartition("t", 0, number)], asynchronous=False)
        log = running.log_dir(1) / "__consumer_offsets-0"
        wait_until(lambda: log_size(log) < 60 * 100, "compaction of what 60 commits took")
        # Told once the shorter files are in place, which a busy broker may reach a moment later.
        wait_until(lambda: running.events("log_compacted"), "the journal tells of the compaction")
        assert {event["topic"] for event in running.events("log_compacted")} == {"__consumer_offsets"}
        done, begun = running.events("log_compacted")[0], running.events("compaction_begun")[0]
        assert begun["mono_ns"] < done["mono_ns"], "told before anything is removed"
        assert begun["end_offset"] >= done["clean_until"] > 0
        running.kill(1)
        running.start(1)
        wait_brokers(running)
        assert wait_until(lambda: committed_offset(running, partition), "the coordinator has its log again") == 59
        consumer.close()

"""Three real broker processes: start-up, clients, codecs, the APIs, clean stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import kafka
import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import admin, consume, create_topic, known_topic, leader, metadata, produce, wait_brokers
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from link_helper import RawClient

from broker.wire import records as wire_records
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import decode_records, iter_batches
from tests.patience import wait_until

pytestmark = pytest.mark.slow
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    begin = time.monotonic()
    with Cluster(tmp_path_factory.mktemp("cluster"), settings={**PATIENT, "num.partitions": 2}) as running:
        wait_brokers(running)
        print(f"three brokers answered Metadata after {time.monotonic() - begin:.2f} s")
        yield running


def test_each_listener_answers_with_its_own_endpoints(cluster: Cluster) -> None:
    for listener in ("EXTERNAL", "DIRECT"):
        wanted = {broker: cluster.ports[broker][listener] for broker in cluster.ids}
        client = admin(cluster, listener)

        def ports(client: AdminClient = client) -> dict[int, int]:
            found = client.list_topics(timeout=60)
            return {broker_id: broker.port for broker_id, broker in found.brokers.items()}

        wait_until(lambda ports=ports, wanted=wanted: ports() == wanted, f"all brokers with their {listener} ports")


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_writes_and_reads_with_each_codec(cluster: Cluster, codec: str) -> None:
    topic = f"confluent-{codec}"
    create_topic(cluster, topic)
    values = [f"{codec} value {number} " + "x" * 200 for number in range(500)]
    acked = produce(cluster, topic, values, **{"compression.type": codec, "acks": "all", "linger.ms": 20})
    assert sorted(acked.values()) == list(range(500))
    assert consume(cluster, topic, 500) == values


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_python_writes_and_reads_with_each_codec(cluster: Cluster, codec: str) -> None:
    topic = f"kafka-python-{codec}"
    create_topic(cluster, topic)
    bootstrap = cluster.bootstrap().split(",")
    values = [b"%d" % number * 20 for number in range(100)]
    compression = None if codec == "none" else codec
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, acks="all", linger_ms=10)
    for value in values:
        producer.send(topic, value, partition=0)
    producer.flush(60)
    producer.close(timeout=60)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=60_000, enable_auto_commit=False)
    consumer.assign([kafka.TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = [next(consumer).value for _ in values]
    consumer.close()
    assert found == values


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_writes_and_reads_with_each_codec(cluster: Cluster, codec: str) -> None:
    topic = f"aiokafka-{codec}"
    create_topic(cluster, topic)
    compression = None if codec == "none" else codec

    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap(), acks="all", compression_type=compression, linger_ms=10
        )
        await producer.start()
        for number in range(50):
            await producer.send(topic, b"%d" % number * 20, partition=0)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap(), enable_auto_commit=False)
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        await consumer.start()
        consumer.seek(aiokafka.TopicPartition(topic, 0), 0)
        try:
            return [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in range(50)]
        finally:
            await consumer.stop()

    assert asyncio.run(run()) == [b"%d" % number * 20 for number in range(50)]


def test_missing_topic_is_made_on_demand_with_the_defaults(cluster: Cluster) -> None:
    produce(cluster, "on-demand", ["a"])
    found = known_topic(cluster, "on-demand")
    assert len(found.partitions) == 2
    assert len(found.partitions[0].replicas) == 3


def test_topic_is_deleted_everywhere(cluster: Cluster) -> None:
    create_topic(cluster, "short-lived")
    produce(cluster, "short-lived", ["a", "b"])
    client = admin(cluster)
    client.delete_topics(["short-lived"])["short-lived"].result(60)
    directories = [cluster.log_dir(broker) / "short-lived-0" for broker in cluster.ids]
    wait_until(lambda: not any(path.exists() for path in directories), "logs of the deleted topic are gone")


def test_configs_tell_what_is_in_effect(cluster: Cluster) -> None:
    create_topic(cluster, "configured", config={"min.insync.replicas": "2"})
    wanted = [ConfigResource("topic", "configured"), ConfigResource("broker", "1")]
    client = admin(cluster)
    topic, broker = (future.result(60) for future in client.describe_configs(wanted).values())
    assert topic["min.insync.replicas"].value == "2"
    assert topic["min.insync.replicas"].source == 1
    assert topic["max.message.bytes"].value == "1048588"
    assert broker["num.partitions"].value == "2"
    assert broker["harness.journal.appends"].value == "true"


def encode_batch(values: list[bytes], **producer: int) -> bytes:
    return wire_records.encode_batch(values, timestamps_ms=[1_700_000_000_000] * len(values), **producer)


def _init_producer(client: RawClient) -> int:
    message = request(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout=0, producer_id=-1)
    answer = client.call(ApiKey.INIT_PRODUCER_ID, 4, message)
    assert answer.error_code is ErrorCode.none
    producer_id: int = answer.producer_id
    return producer_id


def _produce_raw(client: RawClient, topic: str, records: bytes, *, acks: int = -1, timeout_ms: int = 5000) -> object:
    message = request(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=acks,
        timeout=timeout_ms,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
    )
    answer = client.call(ApiKey.PRODUCE, 9, message).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def _leader_port(cluster: Cluster, topic: str) -> int:
    return cluster.ports[leader(cluster, topic)]["DIRECT"]


def test_replayed_idempotent_produce_is_appended_once(cluster: Cluster) -> None:
    create_topic(cluster, "idempotent")
    with RawClient(_leader_port(cluster, "idempotent")) as client:
        producer_id = _init_producer(client)
        assert _init_producer(client) != producer_id
        first = encode_batch([b"a", b"b"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        third = encode_batch([b"d"], producer_id=producer_id, producer_epoch=0, base_sequence=3)
        second = encode_batch([b"c"], producer_id=producer_id, producer_epoch=0, base_sequence=2)
        assert _produce_raw(client, "idempotent", first) == (ErrorCode.none, 0)
        assert _produce_raw(client, "idempotent", first) == (ErrorCode.none, 0), "the answer of the first append"
        assert _produce_raw(client, "idempotent", third) == (ErrorCode.out_of_order_sequence_number, -1)
        assert _produce_raw(client, "idempotent", second) == (ErrorCode.none, 2)
    assert consume(cluster, "idempotent", 3) == ["a", "b", "c"]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap(), "group.id": "g"})
    assert consumer.get_watermark_offsets(TopicPartition("idempotent", 0), timeout=60) == (0, 3)
    consumer.close()
    refused = [event for event in cluster.events("duplicate_sequence") if event["topic"] == "idempotent"]
    assert [(event["base_offset"], event["last_offset"], event["base_sequence"]) for event in refused] == [(0, 1, 0)]
    out_of_order = [event for event in cluster.events("out_of_order_sequence") if event["topic"] == "idempotent"]
    assert [event["base_sequence"] for event in out_of_order] == [3]
    appended = [event for event in cluster.events("appended") if event["topic"] == "idempotent"]
    assert [(event["base_offset"], event["last_offset"]) for event in appended] == [(0, 1), (2, 2)]


def test_damaged_and_oversized_batches_are_refused(cluster: Cluster) -> None:
    create_topic(cluster, "strict", config={"max.message.bytes": "1000"})
    batch = encode_batch([b"value"])
    damaged = batch[:-1] + bytes([batch[-1] ^ 1])
    with RawClient(_leader_port(cluster, "strict")) as client:
        assert _produce_raw(client, "strict", damaged) == (ErrorCode.corrupt_message, -1)
        assert _produce_raw(client, "strict", encode_batch([b"x" * 2000])) == (ErrorCode.message_too_large, -1)
        assert _produce_raw(client, "strict", batch + batch) == (ErrorCode.invalid_record, -1)
        assert _produce_raw(client, "strict", batch, acks=2) == (ErrorCode.invalid_required_acks, -1)
        assert _produce_raw(client, "strict", batch) == (ErrorCode.none, 0)


def _fetch_raw(client: RawClient, topic: str, offset: int, *, epoch: int = -1, max_wait_ms: int = 0) -> Any:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
    }
    message = request(
        ApiKey.FETCH,
        12,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[{"topic": topic, "partitions": [partition]}],
        forgotten_topics_data=[],
    )
    return client.call(ApiKey.FETCH, 12, message).responses[0].partitions[0]


def test_fetch_is_fenced_by_leader_epoch_and_bounded_by_the_log(cluster: Cluster) -> None:
    create_topic(cluster, "fenced")
    produce(cluster, "fenced", ["a"], acks="all")
    with RawClient(_leader_port(cluster, "fenced")) as client:
        assert _fetch_raw(client, "fenced", 0, epoch=7).error_code is ErrorCode.unknown_leader_epoch
        assert _fetch_raw(client, "fenced", 5).error_code is ErrorCode.offset_out_of_range
        found = _fetch_raw(client, "fenced", 0, epoch=0)
        values = [record[3] for batch in iter_batches(found.records) for record in decode_records(batch.buffer)]
        assert values == [b"a"]


def test_fetch_waits_for_data_and_no_longer_than_max_wait(cluster: Cluster) -> None:
    create_topic(cluster, "long-poll")
    with RawClient(_leader_port(cluster, "long-poll")) as reader:
        begin = time.monotonic()
        assert not _fetch_raw(reader, "long-poll", 0, max_wait_ms=300).records
        assert 0.29 <= time.monotonic() - begin < 20
        with RawClient(_leader_port(cluster, "long-poll")) as writer:
            partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}
            message = request(
                ApiKey.FETCH,
                12,
                replica_id=-1,
                max_wait=20_000,
                min_bytes=1,
                topics=[{"topic": "long-poll", "partitions": [partition]}],
                forgotten_topics_data=[],
            )
            reader.send(ApiKey.FETCH, 12, message)
            begin = time.monotonic()
            assert _produce_raw(writer, "long-poll", encode_batch([b"a"])) == (ErrorCode.none, 0)
            _, answer = reader.receive(ApiKey.FETCH, 12)
        assert answer.responses[0].partitions[0].records
        assert time.monotonic() - begin < 20


def test_answers_come_in_the_order_of_the_requests(cluster: Cluster) -> None:
    """A long-polled Fetch holds back the quick request behind it on the same connection."""
    create_topic(cluster, "ordered")
    with RawClient(_leader_port(cluster, "ordered")) as client:
        partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}
        message = request(
            ApiKey.FETCH,
            12,
            replica_id=-1,
            max_wait=200,
            min_bytes=1,
            topics=[{"topic": "ordered", "partitions": [partition]}],
            forgotten_topics_data=[],
        )
        fetch_id = client.send(ApiKey.FETCH, 12, message)
        api_id = client.send(ApiKey.API_VERSIONS, 0, request(ApiKey.API_VERSIONS, 0))
        assert client.receive(ApiKey.FETCH, 12)[0] == fetch_id
        assert client.receive(ApiKey.API_VERSIONS, 0)[0] == api_id


def test_request_of_an_unknown_version_ends_the_connection(cluster: Cluster) -> None:
    with RawClient(cluster.ports[1]["DIRECT"]) as client:
        client._socket.sendall(b"\x00\x00\x00\x0a" + b"\x00\x03\x00\x63" + b"\x00\x00\x00\x01" + b"\xff\xff")
        with pytest.raises(ConnectionError):
            client.receive(ApiKey.METADATA, 0)


def test_clean_stop_exits_0_and_moves_leadership(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=PATIENT) as running:
        wait_brokers(running)
        create_topic(running, "stopping", partitions=3)
        produce(running, "stopping", ["a", "b"], acks="all")
        assert running.terminate(1) == 0
        assert [event["kind"] for event in running.journal(1)][-1] == "stopped"
        assert (running.log_dir(1) / ".kafka_cleanshutdown").exists()
        wait_until(
            lambda: (
                (now := metadata(admin(running)))
                and {each.leader for each in now.topics["stopping"].partitions.values()} <= {2, 3}
            ),
            "the others lead",
        )
        running.start(1)
        wait_brokers(running)
        wait_until(
            lambda: (
                (now := metadata(admin(running)))
                and all(len(each.isrs) == 3 for each in now.topics["stopping"].partitions.values())
            ),
            "broker 1 is back in the ISR",
        )

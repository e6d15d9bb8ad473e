"""The whole client against librdkafka's mock cluster: somebody else's reading of the protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from broker.client.network import Lost
from broker.door.clients import Admin, AuthenticationError, Consumer, KafkaError, Producer, TopicPartition
from broker.wire.records import decode_records
from tests.raw_log import read_batches

pytestmark = pytest.mark.slow  # waits for librdkafka's threads

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    owner = confluent_kafka.Producer({"bootstrap.servers": "mock:1", "test.mock.num.brokers": 3, "log_level": 0})
    brokers = owner.list_topics(timeout=60).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    del owner


def produce(bootstrap: str, topic: str, count: int, **properties: object) -> list[TopicPartition]:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        futures = [
            producer.send(topic, b"value-%05d" % index, key=b"%d" % (index % 7), headers=[("n", b"%d" % index)])
            for index in range(count)
        ]
        assert producer.flush(60) == 0
        places = [future.get(1) for future in futures]
    return sorted({TopicPartition(place.topic, place.partition) for place in places})


def consume(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline_s = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline_s:
        values += [record.value for record in consumer.poll(200)]
    return values


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", ["all", "1"])
def test_every_codec_is_read_back_by_us_and_by_librdkafka(bootstrap: str, codec: str, acks: str) -> None:
    topic = f"codec-{codec}-{acks}"
    partitions = produce(bootstrap, topic, 3000, compression_type=codec, acks=acks)
    expected = sorted(b"value-%05d" % index for index in range(3000))
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(partitions)
        assert sorted(consume(consumer, 3000)) == expected  # type: ignore[type-var]  # none is null
        assert sum(consumer.position(each) for each in partitions) == 3000
        assert consumer.end_offsets(partitions) == {each: consumer.position(each) for each in partitions}
    theirs = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "log_level": 0})
    theirs.assign([confluent_kafka.TopicPartition(topic, each.partition, 0) for each in partitions])
    read: list[confluent_kafka.Message] = []
    deadline_s = time.monotonic() + 60
    while len(read) < 3000 and time.monotonic() < deadline_s:
        read += [message for message in theirs.consume(3000, 0.5) if not message.error()]
    theirs.close()
    assert sorted(message.value() for message in read) == expected
    assert all(message.headers() == [("n", b"%d" % int(message.value()[6:]))] for message in read)


def test_keys_go_where_librdkafka_sends_them(bootstrap: str) -> None:
    keys = [b"key-%d" % index for index in range(100)]
    theirs: dict[bytes, int] = {}
    other = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key in keys:
        other.produce(
            "keys", b"x", key, on_delivery=lambda error, message: theirs.update({message.key(): message.partition()})
        )
    assert other.flush(60) == 0
    with Producer({"bootstrap.servers": bootstrap}) as producer:
        ours = {key: producer.send("keys", b"x", key=key).get(10).partition for key in keys}
    assert ours == theirs


def test_raw_batches_cover_a_partition_without_gap(bootstrap: str) -> None:
    partitions = produce(bootstrap, "raw", 2000, compression_type="lz4", batch_size=1000)
    values = []
    for partition in partitions:
        position = 0
        for batch in read_batches(bootstrap, partition):
            assert batch.header.base_offset == position
            assert batch.is_crc_valid()
            position = batch.header.next_offset
            values += [record[3] for record in decode_records(batch)]
    assert sorted(values) == sorted(b"value-%05d" % index for index in range(2000))  # type: ignore[type-var]


def test_raw_batches_of_a_range_and_an_end_that_never_comes(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [partition, *_] = produce(bootstrap, "range", 500, batch_size=200)
    ranged = list(read_batches(bootstrap, partition, 5, 20))
    assert ranged[0].header.base_offset <= 5 < ranged[0].header.next_offset
    assert ranged[-1].header.base_offset < 20 <= ranged[-1].header.next_offset
    monkeypatch.setattr("harness.clusters.requests.log_reader._STALL_TIMEOUT_S", 1)
    with pytest.raises(TimeoutError, match="nothing after offset"):
        list(read_batches(bootstrap, partition, 0, 100_000))


def test_a_consumer_seeks_and_obeys_max_poll_records(bootstrap: str) -> None:
    [partition, *_] = produce(bootstrap, "seek", 700)
    properties = {"bootstrap.servers": bootstrap, "auto.offset.reset": "none", "max.poll.records": 10}
    with Consumer(properties) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 30)
        polled: list[int] = []
        deadline_s = time.monotonic() + 60
        while len(polled) < 25 and time.monotonic() < deadline_s:
            records = consumer.poll(500)
            assert len(records) <= 10
            polled += [record.offset for record in records]
        assert polled == list(range(30, 30 + len(polled)))
        assert consumer.position(partition) == 30 + len(polled)
        consumer.seek_to_beginning(partition)
        assert consumer.position(partition) == 0
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == consumer.end_offsets([partition])[partition]
        assert consumer.poll(50) == []


def test_a_position_out_of_range_is_reset_or_reported_as_configured(bootstrap: str) -> None:
    [partition, *_] = produce(bootstrap, "out-of-range", 50)
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "none"}) as strict:
        strict.assign([partition])
        strict.seek(partition, 10_000)
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            consume(strict, 1)
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as lenient:
        lenient.assign([partition])
        lenient.seek(partition, 10_000)
        assert consume(lenient, 1) != []


def test_the_admin_describes_topics_and_offsets(bootstrap: str) -> None:
    partitions = produce(bootstrap, "described", 100)
    with Admin({"bootstrap.servers": bootstrap}) as admin:
        topic = admin.describe_topics(["described"])["described"]
        assert [each.partition for each in topic.partitions] == list(range(len(topic.partitions)))
        assert all(each.leader in each.isr for each in topic.partitions)
        assert sum(admin.list_offsets(partitions).values()) == 100
        assert set(admin.list_offsets(partitions, -2).values()) == {0}
        with pytest.raises(KafkaError, match="UNSUPPORTED_VERSION"):
            admin.describe_cluster()  # the mock has no such API, and that is said


def test_metrics_tell_batches_and_compression(bootstrap: str) -> None:
    with Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50}) as producer:
        for _ in range(2000):
            producer.send("metrics", b"a" * 100)
        assert producer.flush(60) == 0
        metrics = producer.metrics()
    assert metrics["record-send-total"] == 2000
    assert 0 < metrics["compression-rate-avg"] < 0.5
    assert metrics["records-per-request-avg"] > 50
    assert metrics["request-latency-avg"] > 0
    assert metrics["requests-in-flight"] == 0


def test_a_refusal_that_comes_while_records_are_at_hand_takes_none_of_them(bootstrap: str) -> None:
    """Found by the scenario token-expired: a poll took records, learned of the refusal, and raised it instead."""
    partitions = produce(bootstrap, "refused", 100)
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "max.poll.records": 1}
    with Consumer(settings) as consumer:
        consumer.assign(partitions)
        values = consume(consumer, 1)
        consumer._client.dispatch(
            Lost(9, (), (), "broker 9: no token", AuthenticationError("broker 9: no token"))
        )  # a connection that is refused, while others have answered
        refusals = 0
        deadline_s = time.monotonic() + 60
        while len(values) < 100 and time.monotonic() < deadline_s:
            try:
                values += [record.value for record in consumer.poll(200)]
            except AuthenticationError:
                refusals += 1
        assert sorted(values) == sorted(b"value-%05d" % index for index in range(100))  # type: ignore[type-var]
        while not refusals and time.monotonic() < deadline_s:
            try:
                consumer.poll(50)
            except AuthenticationError:
                refusals += 1
        assert refusals == 1, "it is told once, when nothing is at hand"

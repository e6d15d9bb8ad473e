"""Producing and consuming: codecs, acks, idempotence, what a record carries, positions, refusals."""

from __future__ import annotations

import os
import time

from tests.compatibility.features.feature import Attempt, Client, Feature, refused, until, values
from tests.compatibility.world import World

COUNT = 40
TEXTS = [f"record {number} " + "of a text that compresses well " * 4 for number in range(COUNT)]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def _codec(codec: str) -> Attempt:
    def attempt(client: Client, world: World) -> None:
        topic = world.topic()
        client.producer(codec=codec, linger_ms=100)
        assert client.send(topic, TEXTS) == list(range(COUNT))
        found = {header.codec.name.lower() for header in world.batches(topic)}
        assert found == {codec}, f"the log holds batches of {found}"
        assert values(client.read_from(topic, COUNT)) == TEXTS

    return attempt


def _transcoded(client: Client, world: World) -> None:
    """The client reads lz4 that the broker made of what it sent."""
    topic = world.topic(compression_type="lz4")
    client.producer(codec="none", linger_ms=100)
    client.send(topic, TEXTS)
    assert {header.codec.name.lower() for header in world.batches(topic)} == {"lz4"}
    assert values(client.read_from(topic, COUNT)) == TEXTS


def _acks(acks: str) -> Attempt:
    def attempt(client: Client, world: World) -> None:
        topic = world.topic()
        client.producer(acks=acks)
        client.send(topic, TEXTS)
        until(lambda: world.values(topic) == TEXTS, "all records in the log")

    return attempt


def _idempotence(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer(idempotence=True)
    for begin in range(0, COUNT, 10):
        client.send(topic, TEXTS[begin : begin + 10])
    headers = world.batches(topic)
    assert {header.producer_id >= 0 for header in headers} == {True}, "batches without a producer id"
    expected: dict[int, int] = {}  # a client may take a new producer id at each start
    for header in headers:
        after = expected.get(header.producer_id, 0)
        assert header.base_sequence == after, f"sequence {header.base_sequence}, expected {after}"
        expected[header.producer_id] = after + header.record_count
    assert world.values(topic) == TEXTS


def _headers(client: Client, world: World) -> None:
    topic = world.topic()
    headers = [["trace", "abc"], ["trace", "second of the same name"], ["empty", ""]]
    client.producer()
    client.send(topic, [{"value": "with", "headers": headers}, {"value": "without"}])
    found = client.read_from(topic, 2)
    assert [record["headers"] for record in found] == [headers, []]


def _null_and_empty(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, [{"key": "k", "value": None}, {"key": "", "value": ""}, {"key": None, "value": "v"}])
    found = client.read_from(topic, 3)
    assert [(record["key"], record["value"]) for record in found] == [("k", None), ("", ""), (None, "v")]


def _timestamps(client: Client, world: World) -> None:
    topic = world.topic()
    now_ms = int(time.time() * 1000)
    times = [now_ms - 5_000, now_ms - 9_000, now_ms - 1_000]
    client.producer(linger_ms=50)
    client.send(topic, [{"value": "v", "timestamp": each} for each in times])
    found = client.read_from(topic, 3)
    assert [record["timestamp"] for record in found] == times
    assert {record["timestamp_type"] for record in found} <= {0, None}


def _log_append_time(client: Client, world: World) -> None:
    topic = world.topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    client.producer()
    client.send(topic, [{"value": "v", "timestamp": before_ms - 60_000}])
    (found,) = client.read_from(topic, 1)
    assert found["timestamp"] >= before_ms, f"{before_ms - found['timestamp']} ms before it was sent"
    assert found["timestamp_type"] in (1, None)


def _large(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    texts = [f"{number}" * 900_000 for number in range(3)]
    for text in texts:
        client.send(topic, [text])
    assert values(client.read_from(topic, 3)) == texts


def _seek_by_time(client: Client, world: World) -> None:
    topic = world.topic()
    base_ms = int(time.time() * 1000) - 100_000
    client.producer()
    client.send(topic, [{"value": f"{n}", "timestamp": base_ms + 1_000 * n} for n in range(10)])
    client.consumer()
    asked = [base_ms - 1, base_ms + 3_500, base_ms + 9_000, base_ms + 50_000]
    found = [client.call("offset_for_time", name="c", topic=topic, partition=0, timestamp=each) for each in asked]
    assert found == [0, 4, 9, None]


def _ends(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, ["a", "b", "c"])
    client.consumer()
    assert client.call("end_offsets", name="c", topic=topic, partition=0) == [0, 3]


def _out_of_range(client: Client, world: World) -> None:
    topic = world.topic()
    client.producer()
    client.send(topic, ["a", "b"])
    client.consumer(reset="earliest")
    client.call("assign", name="c", topic=topic, partition=0, offset=77)
    assert values(client.read(2)) == ["a", "b"]


def _too_large(client: Client, world: World) -> None:
    topic = world.topic(max_message_bytes=1_000)
    client.producer()
    refused("toolarge|toobig|largerthan", lambda: client.send(topic, [os.urandom(2_500).hex()]))
    assert client.send(topic, ["small"]) == [0]


def _bad_timestamp(client: Client, world: World) -> None:
    topic = world.topic(message_timestamp_before_max_ms=60_000)
    client.producer()
    old_ms = int(time.time() * 1000) - 3_600_000
    refused("timestamp", lambda: client.send(topic, [{"value": "old", "timestamp": old_ms}]))


def _compacted_needs_key(client: Client, world: World) -> None:
    topic = world.topic(cleanup_policy="compact")
    client.producer()
    # aiokafka and old Java clients have no name for code 87 (INVALID_RECORD).
    names = "invalidrecord|failedtovalidate|recordhasfailed|unknownerror|unknownserver"
    refused(names, lambda: client.send(topic, ["no key"]))
    assert client.send(topic, [{"key": "k", "value": "v"}]) == [0]


FEATURES = (
    *(Feature(name=f"produce and consume, {codec}", attempt=_codec(codec)) for codec in CODECS),
    Feature(name="read what the broker compressed anew (lz4)", attempt=_transcoded),
    *(Feature(name=f"acks={acks}", attempt=_acks(acks)) for acks in ("0", "1", "all")),
    Feature(name="idempotence", attempt=_idempotence),
    Feature(name="headers, also of one name twice", attempt=_headers),
    Feature(name="null and empty keys and values", attempt=_null_and_empty),
    Feature(name="timestamps of the producer", attempt=_timestamps),
    Feature(name="LogAppendTime", attempt=_log_append_time),
    Feature(name="records of 900 kB", attempt=_large),
    Feature(name="first and next offset of a partition", attempt=_ends),
    Feature(name="offset by time", attempt=_seek_by_time),
    Feature(name="offset out of range: reset", attempt=_out_of_range),
    Feature(name="error: record too large", attempt=_too_large),
    Feature(name="error: timestamp out of range", attempt=_bad_timestamp),
    Feature(name="error: no key in a compacted topic", attempt=_compacted_needs_key),
)

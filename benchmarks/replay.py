"""Produce and consume loads that cost their own process next to nothing, so that the broker is what is measured.

Usage: python benchmarks/replay.py produce|consume BOOTSTRAP TOPIC BYTES BATCH_BYTES ACKS
A batch of 1 KiB records is made once and sent again and again over a few connections, each with a window of requests in
flight, as a client does that has records waiting; fetched bytes are counted by their batch headers and let go. Answers
are checked: an error code, or an offset that does not follow, ends the load. Prints the same JSON line as load.py.
What a real client adds is load.py's to measure: librdkafka from Python takes some 3 CPU seconds a GB, this some 0.3.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from typing import Any, Final

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_request
from broker.wire.messages import request
from broker.wire.records import encode_batch

RECORD_BYTES: Final = 1024
CONNECTIONS: Final = 2
WINDOW: Final = 5  # requests in flight a connection: max.in.flight of an idempotent client
FETCH_BYTES: Final = 1_048_576
PRODUCE_VERSION: Final = 10  # what librdkafka 2.16 negotiates with both engines
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 9
ANSWER_TIMEOUT_S: Final = 30.0
RECEIVE_BYTES: Final = 64 * 1024


class Link:
    """One blocking connection and the frames that come over it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(RECEIVE_BYTES)
        self._start = self._end = 0

    def send(self, buffers: list[Any]) -> None:
        left = [memoryview(each) for each in buffers]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def frame(self) -> memoryview:
        """The next answer, valid until the next call."""
        self._fill(4)
        size = int.from_bytes(self._buffer[self._start : self._start + 4], "big")
        self._fill(4 + size)
        begin = self._start + 4
        self._start = begin + size
        return memoryview(self._buffer)[begin : self._start]

    def has_frame(self) -> bool:
        """A whole answer lies in the buffer already."""
        held = self._end - self._start
        return held >= 4 and held >= 4 + int.from_bytes(self._buffer[self._start : self._start + 4], "big")

    def _fill(self, wanted: int) -> None:
        if self._start + wanted > len(self._buffer):
            held = bytes(memoryview(self._buffer)[self._start : self._end])
            if wanted > len(self._buffer):
                self._buffer = bytearray(wanted)
            self._buffer[: len(held)] = held
            self._start, self._end = 0, len(held)
        view = memoryview(self._buffer)
        while self._end - self._start < wanted:
            count = self._socket.recv_into(view[self._end :])
            if not count:
                raise RuntimeError("the broker closed the connection")
            self._end += count
        if self._start == self._end:
            self._start = self._end = 0

    def call(self, api_key: ApiKey, version: int, message: Any) -> Any:
        self.send(encode_request(api_key, version, 1, "replay", message))
        return decode_response(api_key, version, bytes(self.frame()))[1]


def leader_address(bootstrap: str, topic: str) -> tuple[str, int]:
    """Of partition 0."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    message = request(ApiKey.METADATA, METADATA_VERSION, topics=[{"name": topic}], allow_auto_topic_creation=False)
    answer = Link((host, int(port))).call(ApiKey.METADATA, METADATA_VERSION, message)
    leaders = {each.partition_index: each.leader_id for each in answer.topics[0].partitions}
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    return brokers[leaders[0]]


def produce(bootstrap: str, topic: str, total_bytes: int, batch_bytes: int, acks: str) -> tuple[int, float]:
    """(records acknowledged, seconds). Raises at the first error code."""
    records = max(1, batch_bytes // RECORD_BYTES)
    value = os.urandom(RECORD_BYTES)
    batch = encode_batch([value] * records, timestamps_ms=time.time_ns() // 1_000_000)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    message = request(ApiKey.PRODUCE, PRODUCE_VERSION, acks=-1 if acks == "all" else 1, timeout=30_000,
                      transactional_id=None, topic_data=topics)  # fmt: skip
    frame = b"".join(encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "replay", message))
    # correlation id, tags, two array lengths around the topic's name, partition index; then the error code
    error_position = 4 + 1 + 1 + 1 + len(topic.encode()) + 1 + 4
    requests = -(-total_bytes // (records * RECORD_BYTES * CONNECTIONS))  # a connection; rounded up
    address = leader_address(bootstrap, topic)
    failures: list[str] = []

    def run(link: Link) -> None:
        try:
            sent = min(WINDOW, requests)
            link.send([frame] * sent)
            acked = 0
            while acked < requests:
                answers = 0
                while not answers or link.has_frame():
                    error = struct.unpack_from(">h", link.frame(), error_position)[0]
                    if error:
                        raise RuntimeError(f"produce to {topic}: error code {error} after {acked + answers} answers")
                    answers += 1
                acked += answers
                more = min(answers, requests - sent)
                if more:
                    link.send([frame] * more)
                    sent += more
        except (OSError, RuntimeError, struct.error) as error:
            failures.append(str(error))

    threads = [threading.Thread(target=run, args=(Link(address),)) for _ in range(CONNECTIONS)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began_s
    if failures:
        raise RuntimeError(failures[0])
    return requests * CONNECTIONS * records, seconds


def consume(bootstrap: str, topic: str, total_bytes: int) -> tuple[int, float]:
    """(records counted, seconds) of reading partition 0 from its start, one fetch at a time."""
    link = Link(leader_address(bootstrap, topic))
    offset, expected = 0, total_bytes // RECORD_BYTES
    began_s = time.monotonic()
    while offset < expected:
        partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1,
                     "log_start_offset": -1, "partition_max_bytes": FETCH_BYTES}  # fmt: skip
        message = request(ApiKey.FETCH, FETCH_VERSION, replica_id=-1, max_wait=500, min_bytes=1,
                          max_bytes=50 * FETCH_BYTES, isolation_level=0, session_id=0, session_epoch=-1,
                          topics=[{"topic": topic, "partitions": [partition]}], forgotten_topics_data=[],
                          rack_id="")  # fmt: skip
        link.send(encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "replay", message))
        answer = decode_response(ApiKey.FETCH, FETCH_VERSION, link.frame())[1].responses[0].partitions[0]
        if answer.error_code or not answer.records:
            raise RuntimeError(
                f"consume from {topic}: {answer.error_code!r}, {len(answer.records or b'')} bytes at {offset}"
            )
        offset = next_offset(answer.records)
    return offset, time.monotonic() - began_s


def next_offset(records: memoryview) -> int:
    """The offset after the last whole batch: Apache Kafka may cut the last one off."""
    position, end, found = 0, len(records), 0
    while end - position >= 61:
        base, length = struct.unpack_from(">qi", records, position)
        if position + 12 + length > end:
            break
        found = base + struct.unpack_from(">i", records, position + 23)[0] + 1
        position += 12 + length
    return found


def main() -> None:
    mode, bootstrap, topic, total_bytes, batch_bytes, acks = sys.argv[1:7]
    if mode == "produce":
        records, seconds = produce(bootstrap, topic, int(total_bytes), int(batch_bytes), acks)
    else:
        records, seconds = consume(bootstrap, topic, int(total_bytes))
    usage = os.times()
    print(
        json.dumps(
            {
                "mb_per_s": round(records * RECORD_BYTES / 1e6 / seconds, 1),
                "seconds": round(seconds, 3),
                "records": records,
                "cpu_s": round(usage.user + usage.system, 2),
            }
        )
    )


if __name__ == "__main__":
    main()

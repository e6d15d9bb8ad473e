"""Apache Kafka's own Java client, in a JVM of its own per producer and per consumer, driven over pipes.

Records that are due together go over in one frame; Load.java describes the frames. The times of a send, of its outcome
and of a poll are taken in the JVM with System.nanoTime(), which on Linux is the clock used here. So they do not include
the pipe. If a record waits on its way into the JVM, this is before its `sent_us` and counts as schedule lag.
"""

from __future__ import annotations

import contextlib
import queue
import struct
import time
from collections.abc import Mapping, Sequence

import numpy as np

from workloads.clients.java.build import library_of
from workloads.clients.java.jvm import LENGTH, NAME, Jvm, words_of
from workloads.clients.protocol import (
    RECORDS_PER_POLL_MAX,
    TIMED_OUTCOME,
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    PropertyError,
    ReceivedRecord,
)
from workloads.clients.values import (
    check_consumer_together,
    check_names,
    check_producer_together,
    check_values,
)

_PENDING_BYTES_MAX = 1 << 20  # unwritten bytes beyond the pipe; above this the client has no space
_POLLS_WAITING_MAX = 16
_CLOSE_CONSUMER_S = 2.0
_RECORD_HEAD = struct.Struct("<qii")
_POLL_HEAD = struct.Struct("<qi")
_POLL_RECORD = struct.Struct("<iiqqi")


def check_properties(properties: Mapping[str, str]) -> None:
    """What Kafka's own producer would say, without a JVM. Names and types are Kafka's. Ranges and combinations are
    those of broker.client, which follows Kafka."""
    _refuse_address(properties)
    check_names(NAME, "producer", properties)
    check_values(NAME, "producer", properties)
    check_producer_together(NAME, properties)


def check_consumer_properties(properties: Mapping[str, str], *, is_member: bool) -> None:
    _refuse_of_the_run(properties)
    check_names(NAME, "consumer", properties)
    check_values(NAME, "consumer", properties)
    check_consumer_together(NAME, properties, is_member=is_member)


def _refuse_address(properties: Mapping[str, str]) -> None:
    if "bootstrap.servers" in properties:
        raise PropertyError(NAME, "bootstrap.servers", "the cluster of the run is set by the harness")


def _refuse_of_the_run(properties: Mapping[str, str]) -> None:
    for name in ("bootstrap.servers", "group.id", "auto.offset.reset"):
        if name in properties:
            raise PropertyError(NAME, name, "it follows from the run and from the reader's entry in the workload")


def make_producer(setup: ClientSetup, sink: OutcomeSink) -> JavaProducer:
    return JavaProducer(setup, sink)


def make_consumer(setup: ClientSetup) -> JavaConsumer:
    return JavaConsumer(setup)


class JavaProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        _refuse_address(setup.properties)
        self._sink = sink
        self._topic_numbers = {topic: number for number, topic in enumerate(setup.topics)}
        self._parts: list[bytes] = []
        self._gathered = self._gathered_bytes = 0
        self._metrics: dict[str, float] = {}
        self._effective: dict[str, str] = {}
        self._library = library_of(setup.runtime.get("java.classpath", ""))
        properties = {**setup.properties, "bootstrap.servers": setup.bootstrap_servers}
        self._jvm = Jvm(setup, "p", properties, self._on_frame)

    def connect(self, timeout_s: float) -> None:
        self._effective = self._jvm.connect((), timeout_s)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if self._jvm.pending_bytes + self._gathered_bytes > _PENDING_BYTES_MAX and self._gathered_bytes:
            return False
        parts = self._parts
        parts.append(_RECORD_HEAD.pack(seq, self._topic_numbers[topic], -1 if key is None else len(key)))
        if key is not None:
            parts.append(key)
        parts.append(LENGTH.pack(len(value)))
        parts.append(value)
        self._gathered += 1
        self._gathered_bytes += len(value) + 20
        return True

    def poll(self, timeout_s: float) -> None:
        if self._gathered:
            contents = b"".join(self._parts)
            head = struct.pack("<qi", time.monotonic_ns(), self._gathered)
            self._parts.clear()
            self._gathered = self._gathered_bytes = 0
            self._jvm.write(b"S", head, contents)
        if self._jvm.ended.is_set():
            raise ClientError(f"client {NAME}: the JVM has ended")
        self._jvm.wait(timeout_s)

    def close(self, timeout_s: float) -> None:
        self._jvm.close(timeout_s)

    def metrics(self) -> dict[str, float]:
        return dict(self._metrics)

    def effective(self) -> dict[str, str]:
        return {**self._effective, "client.library": self._library} if self._effective else {}

    def _on_frame(self, kind: int, contents: bytes) -> None:
        if kind == ord(b"D"):
            self._sink.timed(np.frombuffer(contents, dtype=TIMED_OUTCOME))
        elif kind == ord(b"M"):
            words = words_of(contents)
            self._metrics = {name: _number(value) for name, value in zip(words[::2], words[1::2], strict=True)}


class JavaConsumer:
    def __init__(self, setup: ClientSetup) -> None:
        _refuse_of_the_run(setup.properties)
        self._topics = setup.topics
        self._polls: queue.Queue[Polled] = queue.Queue(maxsize=_POLLS_WAITING_MAX)
        self._is_closing = False
        properties = {
            "max.poll.records": str(RECORDS_PER_POLL_MAX),
            **setup.properties,
            "bootstrap.servers": setup.bootstrap_servers,
            "auto.offset.reset": setup.start,
        }
        if setup.group_id is None:
            properties["enable.auto.commit"] = "false"
        else:
            properties["group.id"] = setup.group_id
        self._is_member = setup.group_id is not None
        self._jvm = Jvm(setup, "c", properties, self._on_frame)

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        assigned = () if self._is_member else partitions
        self._jvm.connect([word for topic, partition in assigned for word in (topic, str(partition))], timeout_s)

    def poll(self, timeout_s: float) -> Polled:
        try:
            return self._polls.get(timeout=timeout_s)
        except queue.Empty:
            if self._jvm.ended.is_set():
                raise ClientError(f"client {NAME}: the JVM has ended") from None
            return Polled((), time.monotonic_ns())

    def close(self) -> None:
        self._is_closing = True
        self._jvm.close(_CLOSE_CONSUMER_S)

    def _on_frame(self, kind: int, contents: bytes) -> None:
        """Waits while the queue is full. Then the pipe fills, and the JVM polls no further."""
        if kind != ord(b"R"):
            return
        polled_ns, count = _POLL_HEAD.unpack_from(contents)
        records: list[ReceivedRecord] = []
        position, topics, unpack = _POLL_HEAD.size, self._topics, _POLL_RECORD.unpack_from
        for _ in range(count):
            topic, partition, offset, timestamp_ms, size = unpack(contents, position)
            position += _POLL_RECORD.size
            records.append((topics[topic], partition, offset, contents[position : position + size], timestamp_ms))
            position += size
        polled = Polled(records, polled_ns)
        while not self._is_closing:
            try:
                self._polls.put(polled, timeout=0.05)
                return
            except queue.Full:
                continue


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    return float("nan")

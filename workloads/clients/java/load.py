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
    CONNECT_TIMEOUT_S,
    RECORDS_PER_POLL_MAX,
    TIMED_OUTCOME,
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    PropertyError,
    ReceivedRecord,
    TransactionAborted,
    TransactionUnknown,
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
_STEP = struct.Struct("<qiqii")  # written_ns, -1, number, step, timeout in ms
_BEGIN, _COMMIT, _ABORT = 1, 2, 3
_ABORTED = 3  # how a step has ended; 0 done, 2 unknown
_MAX_BLOCK_MS = "max.block.ms"
_ANSWER_MARGIN_S = 5.0
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
        if setup.transactional_id is not None:
            # Without a limit of its own, one try of a commit takes a minute, which is longer than a caller waits.
            properties = {_MAX_BLOCK_MS: "30000", **properties, "transactional.id": setup.transactional_id}
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
        self._write_gathered()
        if self._jvm.ended.is_set():
            raise ClientError(f"client {NAME}: the JVM has ended")
        self._jvm.wait(timeout_s)

    def _write_gathered(self) -> None:
        if self._gathered:
            contents = b"".join(self._parts)
            head = struct.pack("<qi", time.monotonic_ns(), self._gathered)
            self._parts.clear()
            self._gathered = self._gathered_bytes = 0
            self._jvm.write(b"S", head, contents)

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


class JavaTransactionalProducer(JavaProducer):
    """The steps of a transaction go the way of the records, and their answers the way of the outcomes, so each comes
    after what was before it."""

    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        self._steps = 0
        self._answers: queue.Queue[tuple[int, int, int]] = queue.Queue()  # number of the step, its end, code
        super().__init__(setup, sink)

    def begin(self) -> None:
        self._step(_BEGIN, CONNECT_TIMEOUT_S)

    def commit(self, timeout_s: float) -> None:
        self._step(_COMMIT, timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._step(_ABORT, timeout_s)

    def _step(self, step: int, timeout_s: float) -> None:
        self._write_gathered()
        number, self._steps = self._steps, self._steps + 1
        self._jvm.write(b"S", _STEP.pack(time.monotonic_ns(), -1, number, step, int(timeout_s * 1_000)))
        # A commit may abort after its own time is over, and each try ends with max.block.ms only.
        deadline_s = time.monotonic() + 2 * timeout_s + _ANSWER_MARGIN_S
        while time.monotonic() < deadline_s:
            self._jvm.wait(0)
            try:
                answered, ended, code = self._answers.get(timeout=0.01 if self._jvm.pending_bytes else 0.1)
            except queue.Empty:
                if self._jvm.ended.is_set():
                    raise ClientError(f"client {NAME}: the JVM has ended") from None
                continue
            if answered != number:
                continue  # of a step that nobody waited for until its end
            if ended == _ABORTED:
                raise TransactionAborted("the commit was refused", code)
            if ended:
                raise TransactionUnknown("a step of a transaction was refused, or was not answered in time", code)
            return
        raise TransactionUnknown("the JVM did not say how a step of a transaction ended")

    def _on_frame(self, kind: int, contents: bytes) -> None:
        if kind != ord(b"D"):
            super()._on_frame(kind, contents)
            return
        rows = np.frombuffer(contents, dtype=TIMED_OUTCOME)
        is_step = rows["seq"] < 0
        if not is_step.any():
            self._sink.timed(rows)
            return
        # What is told of records stands before the answer that whoever waits for it goes on by.
        self._sink.timed(rows[~is_step])
        for row in rows[is_step]:
            self._answers.put((-int(row["seq"]) - 1, int(row["status"]), int(row["error"])))


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

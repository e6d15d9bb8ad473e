"""Apache Kafka's own Java client, in a JVM of its own per producer and per consumer, driven over pipes.

Records that are due together go over in one frame; Load.java describes the frames. The times of a send, of its outcome
and of a poll are taken in the JVM with System.nanoTime(), which on Linux is the clock used here. So they do not include
the pipe. If a record waits on its way into the JVM, this is before its `sent_us` and counts as schedule lag.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import select
import struct
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workloads.clients.fates import failed_codes
from workloads.clients.java.build import PROGRAM
from workloads.clients.protocol import (
    RECORDS_PER_POLL_MAX,
    START_TIMEOUT_S,
    TIMED_OUTCOME,
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    PropertyError,
    ReceivedRecord,
    no_such_property,
)
from workloads.clients.values import (
    check_consumer_together,
    check_names,
    check_producer_together,
    check_values,
)

NAME = "java"
# As bin/kafka-run-class.sh has them, with a heap that is bounded for many JVMs on one host.
_JVM_OPTIONS = (
    "-Xms64m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)  # fmt: skip
_PENDING_BYTES_MAX = 1 << 20  # unwritten bytes beyond the pipe; above this the client has no space
_PIPE_BYTES = 1 << 20
_POLLS_WAITING_MAX = 16
_KILL_AFTER_S = 2.0
_RECORD_HEAD = struct.Struct("<qii")
_LENGTH = struct.Struct("<i")
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


_OnFrame = Callable[[int, bytes], None]  # its kind and contents


class _Jvm:
    """One JVM with one client in it. Frames out are queued and written without blocking; frames in come by a thread."""

    def __init__(self, setup: ClientSetup, mode: str, properties: Mapping[str, str], on_frame: _OnFrame) -> None:
        command, classpath = setup.runtime.get("java.command"), setup.runtime.get("java.classpath")
        if not command or not classpath:
            raise ClientError(
                f"client {NAME}: the plan's runtime has no java.command and java.classpath; "
                "the harness sets them (workloads/clients/java/build.py)"
            )
        self._on_frame = on_frame
        self._pending: deque[memoryview] = deque()
        self.pending_bytes = 0
        self._answers: queue.Queue[tuple[int, list[str]]] = queue.Queue()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        try:
            self._process = subprocess.Popen(
                [command, *_JVM_OPTIONS, "-cp", classpath, PROGRAM, "load"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise ClientError(f"client {NAME}: {command} does not start: {error.strerror}") from error
        assert self._process.stdin is not None
        self._stdin = self._process.stdin.fileno()
        os.set_blocking(self._stdin, False)
        with contextlib.suppress(OSError):  # with a smaller pipe there are only more writes
            fcntl.fcntl(self._stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._writable = select.poll()  # select() ends at 1,024 descriptors
        self._writable.register(self._stdin, select.POLLOUT)
        self.ended = threading.Event()
        threading.Thread(target=self._read, name="java-frames", daemon=True).start()
        pairs = [word for item in properties.items() for word in item]
        failed = failed_codes(retries_possible=properties.get("retries") != "0")
        words = [setup.start, ",".join(map(str, failed)), str(len(properties)), *pairs, *setup.topics]
        self.write(b"O", mode.encode() + _packed(words))
        self._await(b"V", START_TIMEOUT_S)

    def connect(self, words: Sequence[str], timeout_s: float) -> dict[str, str]:
        """The settings in force."""
        self.write(b"A", _packed(words))
        told = self._await(b"K", timeout_s)
        return dict(zip(told[::2], told[1::2], strict=True))

    def write(self, kind: bytes, *contents: bytes) -> None:
        size = sum(map(len, contents)) + 1
        for part in (_LENGTH.pack(size) + kind, *contents):
            self._pending.append(memoryview(part))
        self.pending_bytes += size + 4
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes now. ClientError when the JVM is gone."""
        pending = self._pending
        while pending:
            try:
                written = os.write(self._stdin, pending[0])
            except BlockingIOError:
                return
            except OSError as error:
                raise ClientError(f"client {NAME}: the JVM has ended: {self._stderr_tail()}") from error
            self.pending_bytes -= written
            if written == len(pending[0]):
                pending.popleft()
            else:
                pending[0] = pending[0][written:]

    def wait(self, timeout_s: float) -> None:
        """Wait at most this long, and write meanwhile."""
        deadline_s = time.monotonic() + timeout_s
        while self._pending and (left_s := deadline_s - time.monotonic()) > 0:
            self._writable.poll(left_s * 1_000)
            self.flush()
        if (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(left_s)

    def close(self, timeout_s: float) -> None:
        """Ask for the end, wait for it, then kill."""
        with contextlib.suppress(ClientError):
            self.write(b"C", _LENGTH.pack(int(timeout_s * 1_000)))
            deadline_s = time.monotonic() + timeout_s
            while not self.ended.is_set() and time.monotonic() < deadline_s:
                self.wait(0.02)
        self.ended.wait(0.5)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def _await(self, kind: bytes, timeout_s: float) -> list[str]:
        """The words of the frame that is waited for. PropertyError or ClientError says what came instead."""
        deadline_s = time.monotonic() + timeout_s
        try:
            while (left_s := deadline_s - time.monotonic()) > 0:
                self.wait(0)
                try:
                    found, words = self._answers.get(timeout=min(left_s, 0.05))
                except queue.Empty:
                    continue
                if found == kind[0]:
                    return words
                raise self._error_of(words)
            raise ClientError(f"client {NAME}: no answer of the JVM within {timeout_s:g} s: {self._stderr_tail()}")
        except (ClientError, PropertyError):
            self._process.kill()
            self._process.wait()
            raise

    def _error_of(self, words: list[str]) -> Exception:
        kind, name, *rest = words
        if kind == "unknown":
            return no_such_property(NAME, name, rest, "Kafka's client has no such property")
        if kind == "property":
            return PropertyError(NAME, name or "a property", rest[0])
        return ClientError(f"client {NAME}: {rest[0] or self._stderr_tail()}")

    def _read(self) -> None:
        """The body of the thread that takes frames; its end is the end of the JVM's output."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            while head := _read_exactly(stdout, 5):
                (length,) = _LENGTH.unpack_from(head)
                contents = _read_exactly(stdout, length - 1)
                kind = head[4]
                if kind in b"VKE":
                    self._answers.put((kind, _words(contents)))
                elif kind == ord(b"F"):
                    break
                else:
                    self._on_frame(kind, contents)
        finally:
            self.ended.set()
            self._answers.put((0, ["failure", "", ""]))
            stdout.close()

    def _stderr_tail(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 500))
            text = self._stderr.read().decode(errors="replace").strip()
            return text or "it said nothing"
        return "it said nothing"


class JavaProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        _refuse_address(setup.properties)
        self._sink = sink
        self._topic_numbers = {topic: number for number, topic in enumerate(setup.topics)}
        self._parts: list[bytes] = []
        self._gathered = self._gathered_bytes = 0
        self._metrics: dict[str, float] = {}
        self._effective: dict[str, str] = {}
        properties = {**setup.properties, "bootstrap.servers": setup.bootstrap_servers}
        self._jvm = _Jvm(setup, "p", properties, self._on_frame)

    def connect(self, timeout_s: float) -> None:
        self._effective = self._jvm.connect((), timeout_s)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if self._jvm.pending_bytes + self._gathered_bytes > _PENDING_BYTES_MAX and self._gathered_bytes:
            return False
        parts = self._parts
        parts.append(_RECORD_HEAD.pack(seq, self._topic_numbers[topic], -1 if key is None else len(key)))
        if key is not None:
            parts.append(key)
        parts.append(_LENGTH.pack(len(value)))
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
        return {**self._effective, "client.library": "kafka-clients (Java)"} if self._effective else {}

    def _on_frame(self, kind: int, contents: bytes) -> None:
        if kind == ord(b"D"):
            self._sink.timed(np.frombuffer(contents, dtype=TIMED_OUTCOME))
        elif kind == ord(b"M"):
            words = _words(contents)
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
        self._jvm = _Jvm(setup, "c", properties, self._on_frame)

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
        self._jvm.close(_KILL_AFTER_S)

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


def _read_exactly(stream: Any, size: int) -> bytes:
    """All of it, or nothing at the end of the stream."""
    parts: list[bytes] = []
    while size:
        part = stream.read(size)
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _packed(words: Sequence[str]) -> bytes:
    encoded = [word.encode() for word in words]
    return b"".join(part for word in encoded for part in (_LENGTH.pack(len(word)), word))


def _words(contents: bytes) -> list[str]:
    words: list[str] = []
    position = 0
    while position < len(contents):
        (size,) = _LENGTH.unpack_from(contents, position)
        position += 4
        words.append(contents[position : position + size].decode())
        position += size
    return words


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        return float(text)
    return float("nan")

"""One JVM with one client of Apache Kafka in it, driven over pipes; Load.java describes the frames.

Shown by tests/workloads/test_workloads_java.py.
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

from workloads.clients.fates import failed_codes
from workloads.clients.java.bearer import jvm_options, with_login
from workloads.clients.java.build import PROGRAM
from workloads.clients.protocol import START_TIMEOUT_S, ClientError, ClientSetup, PropertyError, no_such_property

NAME = "java"
# As bin/kafka-run-class.sh has them, with a heap that is bounded for many JVMs on one host.
_JVM_OPTIONS = (
    "-Xms64m", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)  # fmt: skip
_PIPE_BYTES = 1 << 20
_KILL_AFTER_S = 2.0
LENGTH = struct.Struct("<i")

OnFrame = Callable[[int, bytes], None]  # its kind and contents


class Jvm:
    """One JVM with one client in it. Frames out are queued and written without blocking; frames in come by a thread."""

    def __init__(self, setup: ClientSetup, mode: str, properties: Mapping[str, str], on_frame: OnFrame) -> None:
        command, classpath = setup.runtime.get("java.command"), setup.runtime.get("java.classpath")
        if not command or not classpath:
            raise ClientError(
                f"client {NAME}: the plan's runtime has no java.command and java.classpath; "
                "the harness sets them (workloads/clients/java/build.py)"
            )
        properties = with_login(properties)
        self._on_frame = on_frame
        self._pending: deque[memoryview] = deque()
        self.pending_bytes = 0
        self._answers: queue.Queue[tuple[int, list[str]]] = queue.Queue()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        try:
            self._process = subprocess.Popen(
                [command, *_JVM_OPTIONS, *jvm_options(properties), "-cp", classpath, PROGRAM, "load"],
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
        self.write(b"O", mode.encode() + packed(words))
        self._await(b"V", START_TIMEOUT_S)

    def connect(self, words: Sequence[str], timeout_s: float) -> dict[str, str]:
        """The settings in force."""
        self.write(b"A", packed(words))
        told = self._await(b"K", timeout_s)
        return dict(zip(told[::2], told[1::2], strict=True))

    def write(self, kind: bytes, *contents: bytes) -> None:
        size = sum(map(len, contents)) + 1
        for part in (LENGTH.pack(size) + kind, *contents):
            self._pending.append(memoryview(part))
        self.pending_bytes += size + 4
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes now. ClientError when the JVM is gone."""
        pending = self._pending
        if pending and self._stdin < 0:  # the number of a closed descriptor may be another file's by now
            raise ClientError(f"client {NAME}: the client is closed")
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
        """Waits at most this long, and writes while it waits."""
        deadline_s = time.monotonic() + timeout_s
        while self._pending and (left_s := deadline_s - time.monotonic()) > 0:
            self._writable.poll(left_s * 1_000)
            self.flush()
        if (left_s := deadline_s - time.monotonic()) > 0:
            time.sleep(left_s)

    def close(self, timeout_s: float) -> None:
        """Ask for the end, wait for it, then kill."""
        with contextlib.suppress(ClientError):
            self.write(b"C", LENGTH.pack(int(timeout_s * 1_000)))
            deadline_s = time.monotonic() + timeout_s
            while not self.ended.is_set() and time.monotonic() < deadline_s:
                self.wait(0.02)
        self.ended.wait(0.5)
        assert self._process.stdin is not None
        self._stdin = -1
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
                (length,) = LENGTH.unpack_from(head)
                contents = _read_exactly(stdout, length - 1)
                kind = head[4]
                if kind in b"VKE":
                    self._answers.put((kind, words_of(contents)))
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


def packed(words: Sequence[str]) -> bytes:
    encoded = [word.encode() for word in words]
    return b"".join(part for word in encoded for part in (LENGTH.pack(len(word)), word))


def words_of(contents: bytes) -> list[str]:
    words: list[str] = []
    position = 0
    while position < len(contents):
        (size,) = LENGTH.unpack_from(contents, position)
        position += 4
        words.append(contents[position : position + size].decode())
        position += size
    return words

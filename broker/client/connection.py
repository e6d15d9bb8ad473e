"""One connection to one broker: bytes of requests out, answers in, in the order of the requests.

Owns: the socket and its buffers. core/conversation.py decides what is sent. This module decides nothing about retries.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from broker.client import native
from broker.client.core.conversation import Conversation, Pending
from broker.wire.encoder import Buffer
from broker.wire.framing import FrameReader
from broker.wire.messages import Message

_SENDMSG_BUFFERS_MAX = 256  # IOV_MAX is 1024 on Linux; more buffers a call bring nothing
_RECEIVE_HINT_BYTES = 32 * 1024


class ConnectionClosedError(Exception):
    """The peer closed the connection."""


class ConnectionConfig(Protocol):
    @property
    def client_id(self) -> str: ...
    @property
    def send_buffer_bytes(self) -> int: ...
    @property
    def receive_buffer_bytes(self) -> int: ...


class Connection:
    """Invariant: `pending` holds requests that wait for an answer, `_silent` requests that only wait to be written."""

    def __init__(
        self,
        node: int,
        sock: socket.socket,
        address: str,
        client_id: str,
        deadline_ms: int,
        correlation_ids: Iterator[int],
    ) -> None:
        self.node = node
        self.address = address
        self.clock = time.monotonic
        self.is_connecting = True
        self.is_ready = False
        self.conversation = Conversation(client_id, correlation_ids)
        self.pending = self.conversation.pending
        self._silent: deque[Pending] = deque()
        self._socket = sock
        self.descriptor = sock.fileno()
        self._setup_deadline_ms = deadline_ms
        self._reader = FrameReader()
        self._out: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0

    @classmethod
    def open(
        cls, node: int, host: str, port: int, config: ConnectionConfig, deadline_ms: int, correlation_ids: Iterator[int]
    ) -> Connection:
        """Begin to connect; raises OSError if that fails at once.

        `correlation_ids` is shared by all connections of a client, as in Java. So these ids order the client's requests
        by time.
        """
        family, address = native.resolve(host, port)[0]
        sock = native.new_socket(family)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _set_buffer_sizes(sock, config.send_buffer_bytes, config.receive_buffer_bytes)
            with contextlib.suppress(BlockingIOError):  # under way: the poll tells when it is done
                sock.connect(address)
        except OSError:
            sock.close()
            raise
        return cls(node, sock, f"{host}:{port}", config.client_id, deadline_ms, correlation_ids)

    @property
    def wants_write(self) -> bool:
        return self.is_connecting or bool(self._out)

    @property
    def next_deadline_ms(self) -> int:
        if not self.is_ready:
            return self._setup_deadline_ms
        return self.pending[0].deadline_ms if self.pending else 2**62

    def finish_connect(self) -> None:
        """The socket became writable: connected, or OSError. Asks for the broker's versions."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "cannot connect")
        self.is_connecting = False
        self._queue(self.conversation.greet(self, self._setup_deadline_ms))

    def on_versions(self, message: Message) -> bool:
        """True when the connection is ready. False if the question must first be asked in its oldest version."""
        self.is_ready = self.conversation.on_greeted(message)
        if not self.is_ready:
            self._queue(self.conversation.greet(self, self._setup_deadline_ms, version=0))
        return self.is_ready

    def enqueue(self, pending: Pending, message: Message) -> None:
        self._queue(self.conversation.ask(pending, message))
        pending.end_bytes = self._queued_bytes
        pending.sent_at_s = self.clock()
        if not pending.expects_answer:
            self._silent.append(pending)

    def _queue(self, buffers: list[Buffer]) -> None:
        self._out.extend(map(memoryview, buffers))
        self._queued_bytes += sum(map(len, buffers))

    def flush(self) -> tuple[int, list[Pending]]:
        """Write what the kernel takes: (bytes written, requests without an answer that are out now). Raises OSError."""
        if self.is_connecting:
            return 0, []
        before = self._written_bytes
        while self._out:
            try:
                count = self._socket.sendmsg(list(itertools.islice(self._out, _SENDMSG_BUFFERS_MAX)))
            except BlockingIOError:
                break
            self._written_bytes += count
            self._drop_written(count)
        return self._written_bytes - before, self._finish_silent()

    def _drop_written(self, count: int) -> None:
        while count:
            first = self._out[0]
            if len(first) > count:
                self._out[0] = first[count:]
                return
            count -= len(first)
            self._out.popleft()

    def _finish_silent(self) -> list[Pending]:
        finished: list[Pending] = []
        while self._silent and self._silent[0].end_bytes <= self._written_bytes:
            finished.append(self._silent.popleft())
        return finished

    def receive(self) -> Iterator[tuple[Pending, Message]]:
        """One read, and all whole answers in it. Raises OSError, ConnectionClosedError, RemoteProtocolError.

        Answers that were returned before an error count.
        """
        view = self._reader.writable(_RECEIVE_HINT_BYTES)
        try:
            count = self._socket.recv_into(view)
        except BlockingIOError:
            return
        if count == 0:
            raise ConnectionClosedError("closed by the broker")
        self._reader.written(count)
        while (frame := self._reader.next_frame()) is not None:
            yield self.conversation.take(frame)

    def close(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """(contexts handed over whole and unanswered, contexts not handed over whole)."""
        self._socket.close()
        mine = [each for each in (*self.pending, *self._silent) if each.context is not self]
        unanswered = tuple(each.context for each in mine if each.end_bytes <= self._written_bytes)
        unsent = tuple(each.context for each in mine if each.end_bytes > self._written_bytes)
        self.pending.clear()
        self._silent.clear()
        self._out.clear()
        return unanswered, unsent


def _set_buffer_sizes(sock: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    """-1 leaves the system's choice, as in Kafka."""
    if send_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

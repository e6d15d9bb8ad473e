"""One connection to one broker: bytes of requests out, answers in, in the order they were asked.

Owns: the socket, its buffers, the ApiVersions handshake. Decides nothing about retries. A broker answers the requests
of a connection in order, so an answer with an unexpected correlation id is a broken peer.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.client import native
from broker.wire.apis import ApiKey, negotiate
from broker.wire.codec import decode_response, decode_response_correlation_id, encode_request
from broker.wire.encoder import Buffer
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.framing import FrameReader
from broker.wire.messages import Message, request

if TYPE_CHECKING:
    from broker.client.network import NetworkConfig

_SOFTWARE_NAME = "kafka-harness-reference"
_SOFTWARE_VERSION = "1"
_API_VERSIONS_VERSION = 3
_SENDMSG_BUFFERS_MAX = 256  # IOV_MAX is 1024 on Linux; more buffers a call bring nothing
_RECEIVE_HINT_BYTES = 32 * 1024
_CORRELATION_MODULUS = 2**31


class ConnectionClosedError(Exception):
    """The peer closed the connection."""


class Pending:
    """A request on its way: `end_bytes` is the position in the outgoing stream after its last byte."""

    __slots__ = (
        "api_key",
        "context",
        "correlation_id",
        "deadline_ms",
        "end_bytes",
        "expects_answer",
        "sent_at_s",
        "version",
    )

    def __init__(self, api_key: ApiKey, version: int, context: object, expects_answer: bool, deadline_ms: int) -> None:
        self.api_key = api_key
        self.version = version
        self.context = context
        self.expects_answer = expects_answer
        self.deadline_ms = deadline_ms
        self.correlation_id = 0
        self.end_bytes = 0
        self.sent_at_s = 0.0


class Connection:
    """Invariant: `pending` holds what waits for an answer, `_silent` what only waits to be written."""

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
        self.pending: deque[Pending] = deque()
        self._silent: deque[Pending] = deque()
        self._socket = sock
        self.descriptor = sock.fileno()
        self._client_id = client_id
        self._setup_deadline_ms = deadline_ms
        self._reader = FrameReader()
        self._out: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0
        self._correlation_ids = correlation_ids
        self._offered: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}  # finalized level by name (KIP-584)
        self._versions: dict[tuple[ApiKey, int], int | None] = {}

    @classmethod
    def open(
        cls, node: int, host: str, port: int, config: NetworkConfig, deadline_ms: int, correlation_ids: Iterator[int]
    ) -> Connection:
        """Begin to connect; raises OSError if that fails at once.

        `correlation_ids` is shared by all connections of a client, as in Java: they then order its requests by time.
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
        self._ask_versions(_API_VERSIONS_VERSION)

    def on_versions(self, message: Message) -> bool:
        """True when the connection is ready; False if the question has to be asked in the oldest form first."""
        if message.error_code == ErrorCode.unsupported_version and message.__version__ > 0:
            self._ask_versions(0)
            return False
        if message.error_code != ErrorCode.none:
            raise RemoteProtocolError(f"ApiVersions answered with {message.error_code.name}")
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}
        finalized = getattr(message, "finalized_features", None) or ()
        self.features = {each.name: each.max_version_level for each in finalized}
        self.is_ready = True
        return True

    def version(self, api_key: ApiKey, highest: int) -> int | None:
        key = (api_key, highest)
        if key not in self._versions:
            self._versions[key] = negotiate(api_key, self._offered, highest)
        return self._versions[key]

    def enqueue(self, pending: Pending, message: Message) -> None:
        pending.correlation_id = next(self._correlation_ids) % _CORRELATION_MODULUS
        buffers: list[Buffer] = encode_request(
            pending.api_key, pending.version, pending.correlation_id, self._client_id or None, message
        )
        self._out.extend(map(memoryview, buffers))
        self._queued_bytes += sum(map(len, buffers))
        pending.end_bytes = self._queued_bytes
        pending.sent_at_s = self.clock()
        (self.pending if pending.expects_answer else self._silent).append(pending)

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

        What was handed out before an error counts. A request is no longer `pending` only once its answer is decoded:
        if that fails, it must be told as lost with the connection.
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
            pending = self._first_pending(decode_response_correlation_id(frame))
            message = self._decode(pending, frame)
            self.pending.popleft()
            yield pending, message

    def _decode(self, pending: Pending, frame: memoryview) -> Message:
        if pending.api_key is ApiKey.API_VERSIONS and bytes(frame[4:6]) == b"\x00\x23":
            # A broker that does not know our version answers in version 0 (KIP-511), with error 35.
            return decode_response(pending.api_key, 0, frame)[1] if pending.version == 0 else _Unsupported
        return decode_response(pending.api_key, pending.version, frame)[1]

    def _first_pending(self, correlation_id: int) -> Pending:
        if not self.pending or self.pending[0].correlation_id != correlation_id:
            raise RemoteProtocolError(f"an answer with correlation id {correlation_id} that nothing waits for")
        return self.pending[0]

    def _ask_versions(self, version: int) -> None:
        message = request(
            ApiKey.API_VERSIONS,
            version,
            client_software_name=_SOFTWARE_NAME,
            client_software_version=_SOFTWARE_VERSION,
        )
        self.enqueue(Pending(ApiKey.API_VERSIONS, version, self, True, self._setup_deadline_ms), message)

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


class _Unsupported:
    """Stands for "ask again with version 0"."""

    error_code = ErrorCode.unsupported_version
    __version__ = 1


def _set_buffer_sizes(sock: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    """-1 leaves the system's choice, as in Kafka."""
    if send_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

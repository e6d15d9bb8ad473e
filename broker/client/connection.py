"""One connection to one broker. It writes the bytes of requests, and reads the answers in the order of the requests.

Owns: the socket (or the TLS over it, tls.py) and its buffers. core/conversation.py decides what is sent, and
core/authentication.py how this client authenticates. This module decides nothing about retries.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from broker.client import native
from broker.client.core.authentication import NewAuthentication, SaslRequest
from broker.client.core.conversation import Conversation, Pending
from broker.client.core.errors import ConnectionClosedError
from broker.wire.apis import ApiKey
from broker.wire.encoder import Buffer
from broker.wire.framing import FrameReader
from broker.wire.messages import Message

if TYPE_CHECKING:
    import ssl

    from broker.client.tls import TlsTransport

_SENDMSG_BUFFERS_MAX = 256  # IOV_MAX is 1024 on Linux; more buffers in one call bring nothing
_RECEIVE_HINT_BYTES = 32 * 1024
_TLS_RECEIVE_HINT_BYTES = 128 * 1024  # room for one TLS record stays free in it


class ConnectionConfig(Protocol):
    @property
    def client_id(self) -> str: ...
    @property
    def send_buffer_bytes(self) -> int: ...
    @property
    def receive_buffer_bytes(self) -> int: ...


class Transport(Protocol):
    """The calls that a connection needs from a socket. Each raises BlockingIOError instead of waiting."""

    def sendmsg(self, buffers: Iterable[Buffer], /) -> int: ...
    def recv_into(self, view: memoryview, /) -> int: ...
    def close(self) -> None: ...


class Connection:
    """Invariants: `pending` holds requests that wait for an answer, `_silent` requests that only wait to be written,
    `_held` requests that wait for the end of a re-authentication. `_held` is not empty only during a re-authentication.
    The callers bound it, as they bound the requests in flight."""

    def __init__(
        self,
        node: int,
        sock: socket.socket,
        address: str,
        client_id: str,
        deadline_ms: int,
        correlation_ids: Iterator[int],
        authenticate: NewAuthentication | None = None,
        tls: TlsTransport | None = None,
    ) -> None:
        self.node = node
        self.address = address
        self.clock = time.monotonic
        self.is_connecting = True
        self.is_ready = False
        self.throttled_until_ms = 0  # the broker wants no request before (KIP-219); 0: it does not say so
        self.conversation = Conversation(client_id, correlation_ids)
        self.pending = self.conversation.pending
        self._silent: deque[Pending] = deque()
        self._authentication = None if authenticate is None else authenticate(self.conversation.offered)
        self._held: deque[tuple[Pending, Message]] = deque()
        self._socket = sock
        self._tls = tls
        self._transport: Transport = sock if tls is None else tls
        self._receive_hint_bytes = _RECEIVE_HINT_BYTES if tls is None else _TLS_RECEIVE_HINT_BYTES
        self.descriptor = sock.fileno()
        self._setup_deadline_ms = deadline_ms
        self._sasl_deadline_ms = deadline_ms
        self._reader = FrameReader()
        self._out: deque[memoryview] = deque()
        self._queued_bytes = 0
        self._written_bytes = 0

    @classmethod
    def open(
        cls,
        node: int,
        host: str,
        port: int,
        config: ConnectionConfig,
        deadline_ms: int,
        correlation_ids: Iterator[int],
        authenticate: NewAuthentication | None = None,
        tls_context: ssl.SSLContext | None = None,
    ) -> Connection:
        """Begin to connect; raises OSError if that fails at once.

        `correlation_ids` is shared by all connections of a client, as in Java. So these ids order the client's requests
        by time. `authenticate` makes the authentication of this connection. None: it has none.
        """
        family, address = native.resolve(host, port)[0]
        sock = native.new_socket(family)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _set_buffer_sizes(sock, config.send_buffer_bytes, config.receive_buffer_bytes)
            with contextlib.suppress(BlockingIOError):  # the connect is under way: the poll tells when it is done
                sock.connect(address)
            tls = None if tls_context is None else _tls_over(sock, tls_context, host)
        except (OSError, ValueError) as error:  # ValueError: TLS does not accept this text as a host name
            sock.close()
            raise error if isinstance(error, OSError) else OSError(str(error)) from error
        return cls(node, sock, f"{host}:{port}", config.client_id, deadline_ms, correlation_ids, authenticate, tls)

    @property
    def is_secured(self) -> bool:
        return self._tls is not None

    @property
    def wants_write(self) -> bool:
        if self._tls is not None and not self.is_connecting:
            return self._tls.wants_write(bool(self._out))
        return self.is_connecting or bool(self._out)

    @property
    def next_deadline_ms(self) -> int:
        if not self.is_ready:
            return self._setup_deadline_ms
        return self.pending[0].deadline_ms if self.pending else 2**62

    def finish_connect(self) -> None:
        """The socket became writable: it is connected, or OSError is raised. Begins TLS, and asks which versions the
        broker speaks."""
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, "cannot connect")
        self.is_connecting = False
        if self._tls is not None:
            self._tls.begin()
        self._queue(self.conversation.greet(self, self._setup_deadline_ms))

    def on_own_answer(self, pending: Pending, message: Message, now_ms: int) -> bool:
        """Take the answer to a request of the connection itself (its context is this connection). Returns True if the
        connection has become ready with this answer.

        ApiVersions may have to be asked again in its oldest version. Authentication follows, if it is configured.
        Raises AuthenticationError.
        """
        authentication = self._authentication
        if pending.api_key == ApiKey.API_VERSIONS:
            if not self.conversation.on_greeted(message):
                self._queue(self.conversation.greet(self, self._setup_deadline_ms, version=0))
                return False
            if authentication is not None:
                self._ask_sasl(authentication.begin())
                return False
        else:
            assert authentication is not None, "nobody else asks in our name"
            following = authentication.on_answer(message, now_ms)
            if following is not None:
                self._ask_sasl(following)
                return False
        was_ready, self.is_ready = self.is_ready, True
        self._release_held()
        return not was_ready

    def _ask_sasl(self, sasl: SaslRequest) -> None:
        pending = Pending(sasl.api_key, sasl.version, self, True, self._sasl_deadline_ms)
        self._queue(self.conversation.ask(pending, sasl.message))
        pending.end_bytes = self._queued_bytes

    def _release_held(self) -> None:
        while self._held and not self.throttled_until_ms:
            self._enqueue_now(*self._held.popleft())

    def throttle(self, until_ms: int) -> None:
        """New requests wait until `end_throttle`. The broker reads nothing meanwhile, so a request that was sent would
        only meet its time limit."""
        self.throttled_until_ms = max(self.throttled_until_ms, until_ms)

    def end_throttle(self, now_ms: int) -> None:
        self.throttled_until_ms = 0
        held = list(self._held)
        self._held.clear()
        for pending, message in held:
            self.enqueue(pending, message, now_ms)

    def enqueue(self, pending: Pending, message: Message, now_ms: int) -> None:
        """If the session is about to end (KIP-368), it is renewed first. New requests wait for the renewal; answers
        still arrive. The time of a request counts from the end of a throttle."""
        if self.throttled_until_ms:
            pending.deadline_ms += max(0, self.throttled_until_ms - now_ms)
            self._hold(pending, message)
            return
        authentication = self._authentication
        if authentication is None:
            self._enqueue_now(pending, message)
            return
        if not authentication.is_under_way and now_ms >= authentication.again_at_ms:
            self._sasl_deadline_ms = pending.deadline_ms
            self._ask_sasl(authentication.begin())
        if authentication.is_under_way:
            self._hold(pending, message)
        else:
            self._enqueue_now(pending, message)

    def _hold(self, pending: Pending, message: Message) -> None:
        pending.end_bytes = 2**62  # no byte of this request is written yet
        self._held.append((pending, message))

    def _enqueue_now(self, pending: Pending, message: Message) -> None:
        self._queue(self.conversation.ask(pending, message))
        pending.end_bytes = self._queued_bytes
        pending.sent_at_s = self.clock()
        if not pending.expects_answer:
            self._silent.append(pending)

    def _queue(self, buffers: list[Buffer]) -> None:
        self._out.extend(map(memoryview, buffers))
        self._queued_bytes += sum(map(len, buffers))

    def flush(self) -> tuple[int, list[Pending]]:
        """Write what the kernel takes: Returns (bytes written, requests that expect no answer and are written
        completely now). Raises OSError."""
        if self.is_connecting:
            return 0, []
        before = self._written_bytes
        if self._tls is not None:
            self._tls.push()
        while self._out:
            try:
                count = self._transport.sendmsg(list(itertools.islice(self._out, _SENDMSG_BUFFERS_MAX)))
            except BlockingIOError:
                break
            self._written_bytes += count
            self._drop_written(count)
        is_out = self._tls is None or self._tls.is_drained
        return self._written_bytes - before, self._finish_silent() if is_out else []

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
        """Read once, and yield all complete answers. Raises OSError, ConnectionClosedError, RemoteProtocolError, and
        AuthenticationError if TLS is refused.

        Answers that were yielded before an error are valid.
        """
        view = self._reader.writable(self._receive_hint_bytes)
        try:
            count = self._transport.recv_into(view)
        except BlockingIOError:
            return
        if count == 0:
            raise ConnectionClosedError("closed by the broker")
        self._reader.written(count)
        while (frame := self._reader.next_frame()) is not None:
            yield self.conversation.take(frame)

    def close(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """Returns (contexts of requests that were written completely and have no answer, contexts of requests that were
        not written completely)."""
        self._transport.close()
        held = [pending for pending, _ in self._held]
        mine = [each for each in (*self.pending, *self._silent, *held) if each.context is not self]
        unanswered = tuple(each.context for each in mine if each.end_bytes <= self._written_bytes)
        unsent = tuple(each.context for each in mine if each.end_bytes > self._written_bytes)
        self.pending.clear()
        self._silent.clear()
        self._held.clear()
        self._out.clear()
        return unanswered, unsent


def _tls_over(sock: socket.socket, context: ssl.SSLContext, host: str) -> TlsTransport:
    from broker.client.tls import TlsTransport  # imported here, so that a client with plain text does not pay for it

    return TlsTransport(sock, context, host)


def _set_buffer_sizes(sock: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    """-1 keeps the size that the operating system chose, as in Kafka."""
    if send_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
    if receive_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)

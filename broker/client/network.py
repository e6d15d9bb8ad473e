"""Non-blocking connections to brokers: one per node, pipelined requests, answers matched in order.

Owns: sockets, framing, the ApiVersions handshake, connection and request timeouts, reconnect backoff, and the time that
a broker asks a client to wait (KIP-219). It knows no topic and no batch. One thread at a time may use it (the sender
thread, or the caller of a consumer or admin). Only `wake` may be called from any thread. Views in an `Answered` message
are valid until the next `poll`.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import secrets
import select
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from broker.client import native
from broker.client.connection import Connection, ConnectionConfig
from broker.client.core.authentication import Authentication, Offered
from broker.client.core.backoff import backoff_ms
from broker.client.core.conversation import Pending
from broker.client.core.errors import AuthenticationError, ConnectionClosedError
from broker.client.core.metadata import BrokerAddress
from broker.client.core.security_config import SecurityConfig
from broker.client.security import Security
from broker.security.sasl_client import Credentials
from broker.wire.addresses import parse_address
from broker.wire.apis import ApiKey
from broker.wire.errors import RemoteProtocolError
from broker.wire.messages import Message, to_ms

_BOOTSTRAP_ID_FIRST = -1000
_POLL_ERRORS = select.POLLERR | select.POLLHUP | select.POLLNVAL


class NetworkConfig(ConnectionConfig, Protocol):
    @property
    def bootstrap_servers(self) -> tuple[str, ...]: ...
    @property
    def reconnect_backoff_ms(self) -> int: ...
    @property
    def reconnect_backoff_max_ms(self) -> int: ...
    @property
    def socket_connection_setup_timeout_ms(self) -> int: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def security(self) -> SecurityConfig: ...


@dataclass(frozen=True, slots=True)
class Connected:
    """The versions of the broker are known, so requests may be sent."""

    node: int


@dataclass(frozen=True, slots=True)
class Lost:
    """`unanswered` are the contexts of requests that were handed to the kernel completely, `unsent` those of all other
    requests. With TLS, data that was encrypted counts as handed over. `refusal` is set if the authentication failed on
    either side. If the node is needed again, a new attempt still follows after the usual backoff."""

    node: int
    unanswered: tuple[object, ...]
    unsent: tuple[object, ...]
    reason: str
    refusal: AuthenticationError | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    node: int
    context: Any  # the context that `send` got; the caller knows its type
    message: Message
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Sent:
    """The last byte of a request that expects no answer was handed to the kernel."""

    node: int
    context: Any


NetworkEvent: TypeAlias = Connected | Lost | Answered | Sent


@dataclass(slots=True)
class _Backoff:
    attempts: int = 0
    not_before_ms: int = 0


class Network:
    def __init__(self, config: NetworkConfig, rng: random.Random, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._security = Security(config.security)
        self._random = rng
        self._now_ms = now_ms
        self._bootstrap = {
            _BOOTSTRAP_ID_FIRST - index: parse_address(server) for index, server in enumerate(config.bootstrap_servers)
        }
        self._addresses: dict[int, tuple[str, int]] = dict(self._bootstrap)
        self._brokers: set[int] = set()  # the brokers of the last Metadata answer
        self._connections: dict[int, Connection] = {}
        self._by_descriptor: dict[int, Connection] = {}
        self._backoffs: dict[int, _Backoff] = {}
        self._throttled: dict[int, Connection] = {}  # The key is the node: its broker wants no request for a while.
        self._suspects: set[int] = set()  # nodes that lost a request and have answered none since
        self._poll = native.new_poll()
        self._wake_receiver, self._wake_sender = native.socket_pair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._poll.register(self._wake_receiver.fileno(), select.POLLIN)
        self._masks: dict[int, int] = {}
        self._correlation_ids = itertools.count()
        self._events: list[NetworkEvent] = []
        self.bytes_out_total = 0

    # -- nodes ----------------------------------------------------------------------------------------------------

    def update_nodes(self, brokers: Iterable[BrokerAddress]) -> None:
        """Take the brokers of a Metadata answer. If a broker has left or its address has changed, its connection is
        closed, with all requests in flight."""
        fresh = {broker.broker_id: (broker.host, broker.port) for broker in brokers}
        for node in [node for node in self._connections if node >= 0 and fresh.get(node) != self._addresses.get(node)]:
            self.close_node(node, "the broker left the metadata or moved")
        self._addresses = {**self._bootstrap, **fresh}
        self._brokers = set(fresh)

    def name_node(self, broker: BrokerAddress) -> None:
        """Adds one broker for requests to this very broker. This does not make `any_ready` choose it, so other
        questions do not wait behind its requests. If its address has changed, its connection is closed, with all
        requests in flight."""
        address = (broker.host, broker.port)
        if self._addresses.get(broker.broker_id, address) != address:
            self.close_node(broker.broker_id, "the broker moved")
        self._addresses[broker.broker_id] = address

    def is_ready(self, node: int) -> bool:
        connection = self._connections.get(node)
        return connection is not None and connection.is_ready

    def connect(self, node: int) -> None:
        """Begins to connect, unless an attempt is under way or the backoff is not over."""
        if node in self._connections or node not in self._addresses:
            return
        now_ms = self._now_ms()
        if now_ms < self._backoffs.setdefault(node, _Backoff()).not_before_ms:
            return
        host, port = self._addresses[node]
        deadline_ms = now_ms + self._config.socket_connection_setup_timeout_ms
        try:
            connection = Connection.open(
                node,
                host,
                port,
                self._config,
                deadline_ms,
                self._correlation_ids,
                None if self._security.credentials is None else partial(self._authenticate, self._security.credentials),
                self._security.context,
            )
        except OSError as error:
            self._back_off(node)
            self._events.append(Lost(node, (), (), f"{host}:{port}: {error}"))
            return
        self._connections[node] = connection
        self._by_descriptor[connection.descriptor] = connection
        self._masks[connection.descriptor] = select.POLLIN | select.POLLOUT
        self._poll.register(connection.descriptor, select.POLLIN | select.POLLOUT)

    def _authenticate(self, credentials: Credentials, offered: Offered) -> Authentication:
        return Authentication(
            credentials, offered, new_nonce=lambda: secrets.token_urlsafe(24), spread=self._random.random()
        )

    def any_ready(self) -> int | None:
        """A node for a question that any node can answer: the ready node with the fewest requests. If no node is ready,
        a connection is begun and the result is None.

        A node that lost a request is asked after the others until it answers a request. It may be cut off from its
        peers, and then its answers stay out of date. Addresses of the bootstrap list are asked when no known broker can
        be reached.
        """
        known, listed = self._brokers, set(self._bootstrap)
        for group in (known - self._suspects, listed - self._suspects, known & self._suspects, listed):
            connections = [self._connections[node] for node in group if node in self._connections]
            if ready := [each for each in connections if each.is_ready]:
                return min(ready, key=lambda each: (each.throttled_until_ms, len(each.pending))).node
            if connections or self._connect_one_of(sorted(group)):
                return None
        return None

    def _connect_one_of(self, nodes: list[int]) -> bool:
        self._random.shuffle(nodes)
        for node in nodes:
            self.connect(node)
            if node in self._connections:
                return True
        return False

    def close_node(self, node: int, reason: str, refusal: AuthenticationError | None = None) -> None:
        connection = self._connections.pop(node, None)
        if connection is None:
            return
        self._throttled.pop(node, None)
        self._poll.unregister(connection.descriptor)
        del self._by_descriptor[connection.descriptor]
        del self._masks[connection.descriptor]
        unanswered, unsent = connection.close()
        if unanswered:
            self._suspects.add(node)
        self._back_off(node)
        where = f"broker {node} at {connection.address}"
        told = None if refusal is None else AuthenticationError(f"{where}: {refusal.reason}")
        self._events.append(Lost(node, unanswered, unsent, f"{where}: {reason}", told))

    def close(self) -> None:
        for node in list(self._connections):
            self.close_node(node, "closed")
        self._wake_receiver.close()
        self._wake_sender.close()

    # -- requests -------------------------------------------------------------------------------------------------

    def version(self, node: int, api_key: ApiKey, highest: int) -> int | None:
        """The version to use with this ready node. None if the node does not offer the API."""
        return self._connections[node].conversation.version(api_key, highest)

    def feature(self, node: int, name: str) -> int:
        """The finalized level of a feature, as this ready node told it. 0 if the node does not know the feature."""
        connection = self._connections.get(node)
        return 0 if connection is None else connection.conversation.features.get(name, 0)

    def send(
        self,
        node: int,
        api_key: ApiKey,
        version: int,
        message: Message,
        context: object,
        *,
        expects_answer: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Queues a request for a ready node and tries to write it."""
        connection = self._connections[node]
        now_ms = self._now_ms()
        wait_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        pending = Pending(api_key, version, context, expects_answer, now_ms + wait_ms)
        connection.enqueue(pending, message, now_ms)
        self._flush(connection)

    def wake(self) -> None:
        """Ends the `poll` under way, or else the next one. May be called from any thread."""
        # the pipe is full: a wake-up is pending already; or closed: nobody waits any more
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"\x00")

    def poll(self, timeout_ms: int) -> list[NetworkEvent]:
        """Moves bytes for at most `timeout_ms`. Returns earlier if something happened."""
        now_ms = self._now_ms()
        wait_ms = 0 if self._events else max(0, min(timeout_ms, self._next_deadline_ms(now_ms) - now_ms))
        for descriptor, mask in self._poll.poll(wait_ms):
            connection = self._by_descriptor.get(descriptor)
            if connection is None:
                self._drain_wake_ups(descriptor)
            else:
                self._on_io(connection, mask)
        self._check_deadlines()
        if self._throttled:
            self._end_throttles()
        events, self._events = self._events, []
        return events

    # -- private --------------------------------------------------------------------------------------------------

    def _drain_wake_ups(self, descriptor: int) -> None:
        if descriptor == self._wake_receiver.fileno():
            with contextlib.suppress(BlockingIOError):
                self._wake_receiver.recv(4096)

    def _on_io(self, connection: Connection, mask: int) -> None:
        try:
            if connection.is_connecting:
                if mask & (select.POLLOUT | _POLL_ERRORS):
                    connection.finish_connect()
                    self._flush(connection)
                return
            if mask & (select.POLLIN | _POLL_ERRORS):
                self._receive(connection)
            # After TLS has read, it may have something to write: the end of the handshake, or a message of TLS itself.
            if (mask & select.POLLOUT or connection.is_secured) and connection.node in self._connections:
                self._flush(connection)
        except AuthenticationError as error:
            self.close_node(connection.node, error.reason, error)
        except (OSError, ConnectionClosedError, RemoteProtocolError) as error:
            self.close_node(connection.node, f"{type(error).__name__}: {error}")

    def _receive(self, connection: Connection) -> None:
        for pending, message in connection.receive():
            if pending.context is connection:
                if connection.on_own_answer(pending, message, self._now_ms()):
                    self._backoffs[connection.node] = _Backoff()
                    self._events.append(Connected(connection.node))
                else:
                    self._flush(connection)
            else:
                self._suspects.discard(connection.node)
                # an answer of any API; a few have no such field
                if (wait := getattr(message, "throttle_time", None)) and (wait_ms := to_ms(wait)) > 0:
                    # bounded: if the broker still does not read then, the request meets its time limit
                    connection.throttle(self._now_ms() + min(wait_ms, self._config.request_timeout_ms))
                    self._throttled[connection.node] = connection
                latency_ms = (connection.clock() - pending.sent_at_s) * 1000
                self._events.append(Answered(connection.node, pending.context, message, latency_ms))

    def _flush(self, connection: Connection) -> None:
        try:
            written, finished = connection.flush()
        except OSError as error:
            self.close_node(connection.node, f"{type(error).__name__}: {error}")
            return
        self.bytes_out_total += written
        self._events.extend(Sent(connection.node, pending.context) for pending in finished)
        mask = select.POLLIN | (select.POLLOUT if connection.wants_write else 0)
        if mask != self._masks[connection.descriptor]:
            self._masks[connection.descriptor] = mask
            self._poll.modify(connection.descriptor, mask)

    def _check_deadlines(self) -> None:
        now_ms = self._now_ms()
        for connection in list(self._connections.values()):
            if now_ms >= connection.next_deadline_ms:
                what = "no answer in time" if connection.is_ready else "not connected in time"
                self.close_node(connection.node, what)

    def _end_throttles(self) -> None:
        now_ms = self._now_ms()
        for node, connection in list(self._throttled.items()):
            if now_ms >= connection.throttled_until_ms:
                del self._throttled[node]
                connection.end_throttle(now_ms)
                self._flush(connection)

    def _next_deadline_ms(self, now_ms: int) -> int:
        deadlines = [connection.next_deadline_ms for connection in self._connections.values()]
        deadlines += [each.not_before_ms for each in self._backoffs.values() if each.not_before_ms > now_ms]
        deadlines += [each.throttled_until_ms for each in self._throttled.values()]
        return min(deadlines, default=now_ms + 3_600_000)

    def _back_off(self, node: int) -> None:
        backoff = self._backoffs.setdefault(node, _Backoff())
        backoff.attempts += 1
        first_ms, longest_ms = self._config.reconnect_backoff_ms, self._config.reconnect_backoff_max_ms
        backoff.not_before_ms = self._now_ms() + backoff_ms(backoff.attempts, first_ms, longest_ms, self._random)

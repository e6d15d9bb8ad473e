"""The listening side: one socket for each listener, the connections on them, and the way of requests to their handlers.

These limits can be changed at run time: connections in total (max.connections), from one address
(max.connections.per.ip) and per second (max.connection.creation.rate; if the rate is higher, a new connection is not
read for some time). Idle connections are closed (connections.max.idle.ms). queued.max.request.bytes bounds the memory
of large requests (memory.py). harness.unread.answer.bytes bounds the memory of answers that clients do not read
(unread_answers.py). Descriptors that files need are never given to connections (descriptors.py).

Clients may use the listener of the brokers, and have the same limits there. A connection on it counts as a client's
until it is known as a broker's (peers.py). A broker must always get in: beyond the limits some connections are open on
trial. The first request of such a connection must show that it is a broker's, else it is closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from broker.node.net.authentication import Authenticator
from broker.node.net.connection import Connection
from broker.node.net.memory import RequestMemory
from broker.node.net.principal import ANONYMOUS, Principal
from broker.node.net.rate_limited_log import SparseWarnings
from broker.node.net.rate_window import RateWindow
from broker.node.net.requests import Request
from broker.node.net.signing_keys import SigningKeys
from broker.node.net.tls import Contexts
from broker.node.net.tls_listener import Spawn, TlsListener
from broker.node.net.unread_answers import Answering, UnreadAnswers
from broker.node.process.clock import monotonic_ms
from broker.node.process.descriptors import descriptors_for_connections
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.security import ListenerSecurity, SaslSettings, SecurityError, security_of
from broker.security.scram import FindCredential
from broker.wire.apis import Listener

PEER_UNREAD_BYTES_MAX = 256 << 20  # Answers to brokers may take this much: about 25 fetches of a follower.
# Arriving requests of brokers may take this much. They are small, at most as large as a piece of a snapshot.
PEER_REQUEST_BYTES_MAX = 256 << 20
STALLED_REQUEST_S = 2.0  # so long a request may receive no byte while others wait for its memory
SLOW_REQUEST_S = 30.0  # Kafka's request.timeout.ms: after this time the client has given up
# descriptors that clients cannot use, because they are reserved for brokers: a few for each broker
PEER_CONNECTIONS = 64
TRIALS_MAX = PEER_CONNECTIONS // 2  # connections on trial; a further one ends the oldest
# a sweep comes after each quarter of the limit; a connection is closed after more than this number of silent sweeps in
# a row
IDLE_SWEEPS = 4


class Server:
    def __init__(
        self,
        *,
        config: NodeConfig,
        logger: Logger,
        dispatch: Callable[[Request[Any]], None],
        spawn: Spawn,
        find_credential: FindCredential,
        is_broker: Callable[[Request[Any]], bool],
    ) -> None:
        """`is_broker` tells whether another broker has sent a request."""
        self._is_broker = is_broker
        self._config, self._logger, self._dispatch, self._spawn = config, logger, dispatch, spawn
        self._find_credential = find_credential
        self._authenticators: dict[str, Authenticator] = {}  # The key is the listener's name.
        self._listening: dict[str, asyncio.Server | TlsListener] = {}  # The key is the listener's name.
        self._tls: dict[str, TlsListener] = {}  # the TLS listeners among them
        self._connections: dict[Connection, None] = {}  # in order of arrival
        self._by_host: Counter[str] = Counter()
        self._trials: dict[Connection, str] = {}  # in order of arrival, with the limit that was reached
        self._unjudged: set[Connection] = set()  # on the brokers' listener, without a request so far
        # The budgets of clients and of brokers are separate, so a client cannot keep the cluster from running.
        self._memory = RequestMemory(limit_bytes=config.network.queued_max_request_bytes, on_wait=self._memory_is_short)
        self._peer_memory = RequestMemory(limit_bytes=PEER_REQUEST_BYTES_MAX, on_wait=self._memory_is_short)
        self._unread = UnreadAnswers(limit_bytes=config.own.harness_unread_answer_bytes, on_end=self._unread_ended)
        self._peer_unread = UnreadAnswers(limit_bytes=PEER_UNREAD_BYTES_MAX, on_end=self._unread_ended)
        self._memory_timer: asyncio.TimerHandle | None = None
        self._refusals = SparseWarnings(logger, "connection_refused")
        self._openings = RateWindow(
            count=config.network.quota_window_num, size_ms=config.network.quota_window_size_seconds * 1000
        )

    def reconfigure(self, config: NodeConfig) -> None:
        """Takes new limits, certificates and users. They hold for new connections."""
        self._config = config
        for name in config.listening.listeners:
            try:
                self._reconfigure(name, security_of(config, name))
            except SecurityError as error:
                self._logger.warning("security_kept", listener=name, cause=repr(str(error)))

    def _reconfigure(self, name: str, security: ListenerSecurity) -> None:
        if security.tls is not None and name in self._tls:
            self._tls[name].contexts.reconfigure(security.tls)
        if security.sasl is not None and name in self._authenticators:
            self._authenticators[name].settings = security.sasl

    def _kind(self, name: str) -> Listener:
        if name == self._config.listening.controller_listener:
            return Listener.CONTROLLER
        return Listener.INTER_BROKER if name == self._config.listening.internal_listener else Listener.CLIENT

    async def open(self) -> None:
        """Binds all listeners. Each refuses connections until it is served. Raises OSError if an address is in use,
        SecurityError for a wrong certificate."""
        for name in sorted(self._config.listening.listeners):
            security = security_of(self._config, name)
            if security.sasl is not None:
                self._authenticators[name] = self._authenticator(security.sasl)
            if security.tls is None:
                self._listening[name] = await self._bind_plain(name)
            else:
                self._listening[name] = await self._bind_tls(name, Contexts(name, security.tls, self._logger))

    async def serve(self, *kinds: Listener) -> None:
        """Accepts connections at the bound listeners of these kinds."""
        for name, listening in self._listening.items():
            if self._kind(name) in kinds:
                await listening.start_serving()
                protocol = security_of(self._config, name).protocol.value
                self._logger.info(
                    "listening", listener=name, address=self._config.listening.listeners[name], protocol=protocol
                )

    def _authenticator(self, settings: SaslSettings) -> Authenticator:
        tokens, keys = settings.tokens, None
        if tokens.jwks_url and "OAUTHBEARER" in settings.mechanisms:
            keys = SigningKeys(tokens.jwks_url, refresh_ms=tokens.refresh_ms, logger=self._logger)
            self._spawn(keys.run())
        warnings = SparseWarnings(self._logger, "authentication_failed")
        return Authenticator(settings=settings, find=self._find_credential, keys=keys, warnings=warnings)

    async def _bind_plain(self, name: str) -> asyncio.Server:
        address = self._config.listening.listeners[name]
        return await asyncio.get_running_loop().create_server(
            partial(self._factory(name), ANONYMOUS),
            address.host,
            address.port,
            backlog=self._config.network.socket_listen_backlog_size,
            reuse_address=True,
            start_serving=False,
        )

    async def _bind_tls(self, name: str, contexts: Contexts) -> TlsListener:
        kind = self._kind(name)
        self._tls[name] = listener = TlsListener(
            name=name,
            contexts=contexts,
            make=self._factory(name),
            admits=lambda peer: self._admits_handshake(kind, peer),
            spawn=self._spawn,
            logger=self._logger,
            backlog=self._config.network.socket_listen_backlog_size,
        )
        await listener.bind(self._config.listening.listeners[name])
        return listener

    def _factory(self, name: str) -> Callable[[Principal], Connection]:
        kind = self._kind(name)

        def make(principal: Principal) -> Connection:
            return Connection(
                listener=kind,
                listener_name=name,
                dispatch=self._dispatch,
                logger=self._logger,
                request_bytes_max=self._config.network.socket_request_max_bytes,
                on_open=self._opened,
                on_close=self._closed,
                memory=self._peer_memory if kind is Listener.CONTROLLER else self._memory,
                unread=self._peer_unread if kind is Listener.CONTROLLER else self._unread,
                authenticator=self._authenticators.get(name),
                judge=self._judge if kind is Listener.INTER_BROKER else None,
                principal=principal,
            )

        return make

    def _opened(self, connection: Connection) -> bool:
        """Returns False if the connection is refused."""
        kind, host = connection.listener, connection.peer_host
        limit = self._reached_limit(kind, host, len(self._connections), 0)
        if limit is not None and not self._may_try(kind):
            self._tell_refusal(limit, host)
            return False
        if kind is Listener.CLIENT:
            self._slow_down(connection)
        elif kind is Listener.INTER_BROKER:
            self._unjudged.add(connection)
            if limit is not None:
                self._try(connection, limit)
        self._connections[connection] = None
        self._by_host[host] += 1
        return True

    def _admits_handshake(self, kind: Listener, host: str) -> bool:
        """As in Kafka, connections that are in their handshake count like others."""
        under_way = sum(each.handshakes for each in self._tls.values())
        of_host = sum(each.handshakes_of(host) for each in self._tls.values())
        limit = self._reached_limit(kind, host, len(self._connections) + under_way, of_host)
        if limit is None or self._may_try(kind):
            return True
        self._tell_refusal(limit, host)
        return False

    def _tell_refusal(self, limit: str, host: str) -> None:
        self._refusals.tell(limit=limit, open=len(self._connections), peer=host)

    def _reached_limit(self, kind: Listener, host: str, count: int, handshakes_of_host: int) -> str | None:
        """The limit that one more connection from this host would exceed."""
        config, descriptors = self._config, descriptors_for_connections()
        if kind is Listener.CONTROLLER:
            return "descriptors" if count >= descriptors else None
        if count >= min(config.network.max_connections, descriptors - PEER_CONNECTIONS):
            return "max.connections" if count >= config.network.max_connections else "descriptors"
        of_host = self._by_host[host] + handshakes_of_host
        return "max.connections.per.ip" if of_host >= config.network.max_connections_per_ip else None

    def _may_try(self, kind: Listener) -> bool:
        """Whether a connection beyond the limits may show that it is a broker's."""
        return kind is Listener.INTER_BROKER and len(self._connections) < descriptors_for_connections()

    def _try(self, connection: Connection, limit: str) -> None:
        if len(self._trials) >= TRIALS_MAX:
            oldest = next(iter(self._trials))
            self._tell_refusal(self._trials.pop(oldest), oldest.peer_host)
            oldest.abort()
        self._trials[connection] = limit

    def _judge(self, connection: Connection, request: Request[Any]) -> bool:
        """Sees the requests on the brokers' listener, until the connection is known as a broker's. False: the
        connection must end."""
        if self._is_broker(request):
            connection.become_peer(self._peer_memory, self._peer_unread)
            self._unjudged.discard(connection)
            self._trials.pop(connection, None)
            return True
        limit = self._trials.pop(connection, None)
        if limit is not None:
            self._tell_refusal(limit, connection.peer_host)
            return False
        if connection in self._unjudged:
            self._unjudged.discard(connection)
            self._slow_down(connection)
        return True

    def _unread_ended(self, connection: Answering, size_bytes: int) -> None:
        peer = connection.peer_host if isinstance(connection, Connection) else ""
        self._logger.warning("answers_unread", peer=peer, bytes=size_bytes, cause=repr("no memory left for answers"))

    def _memory_is_short(self) -> None:
        if self._memory_timer is None:
            loop = asyncio.get_running_loop()
            self._memory_timer = loop.call_later(STALLED_REQUEST_S / 2, self._end_stalled_requests)

    def _end_stalled_requests(self) -> None:
        """While others wait for memory, closes connections whose request has stopped arriving or takes too long."""
        self._memory_timer = None
        now_s = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            if not connection.is_waited_for:
                continue
            silent_s = now_s - max(connection.received_s, connection.taken_s)
            if silent_s > STALLED_REQUEST_S or now_s - connection.taken_s > SLOW_REQUEST_S:
                self._logger.warning("request_too_slow", peer=connection.peer_host, silent_s=round(silent_s, 1))
                connection.abort()
        if self._memory.waiting or self._peer_memory.waiting:
            self._memory_is_short()

    def _slow_down(self, connection: Connection) -> None:
        now_ms, limit = monotonic_ms(), self._config.network.max_connection_creation_rate
        self._openings.add(1, now_ms)
        rate = self._openings.per_second(now_ms)
        if limit > 0 and rate > limit:
            connection.throttle(round((rate - limit) / limit * 1000))

    def _closed(self, connection: Connection) -> None:
        self._unjudged.discard(connection)
        self._trials.pop(connection, None)
        if self._connections.pop(connection, False) is None:
            self._by_host[connection.peer_host] -= 1
            if not self._by_host[connection.peer_host]:
                del self._by_host[connection.peer_host]

    async def run_idle_sweeps(self) -> None:
        """Runs until cancelled. Closes connections that have been silent for connections.max.idle.ms and wait for no
        answer."""
        limit_ms = self._config.network.connections_max_idle_ms
        while limit_ms > 0:
            await asyncio.sleep(limit_ms / IDLE_SWEEPS / 1000)
            for connection in list(self._connections):
                if connection.note_silence() > IDLE_SWEEPS:
                    # aborted and not closed, so that answers which it has not read cannot delay the end
                    connection.abort()

    async def close(self) -> None:
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        for listening in self._listening.values():
            listening.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

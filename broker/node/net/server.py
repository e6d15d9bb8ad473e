"""The listening side: one socket per listener, connections on them, requests to their handlers.

Bounds, changeable at run time: connections in all (max.connections), from one address (max.connections.per.ip) and per
second (max.connection.creation.rate, beyond which a new one is not read for a while); idle ones are closed
(connections.max.idle.ms). queued.max.request.bytes bounds the memory of large requests (memory.py), and
harness.unread.answer.bytes that of answers which clients do not read (unread.py). Descriptors that files need are never
given to connections (descriptors.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from broker.node.net.connection import Connection
from broker.node.net.memory import RequestMemory
from broker.node.net.quotas import RateWindow
from broker.node.net.requests import Request
from broker.node.net.unread import Answering, UnreadAnswers
from broker.node.process.clock import monotonic_ms
from broker.node.process.descriptors import descriptors_for_connections
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.wire.apis import Listener

PEER_UNREAD_BYTES_MAX = 256 << 20  # of answers to brokers: some 25 of a follower's fetches
PEER_REQUEST_BYTES_MAX = 256 << 20  # of brokers, arriving at a time: theirs are small, a snapshot's piece at most
STALLED_REQUEST_S = 2.0  # without a byte, while others wait for its memory
SLOW_REQUEST_S = 30.0  # Kafka's request.timeout.ms: its client has given up
PEER_CONNECTIONS = 64  # descriptors that clients leave to the brokers: a few for each of them
REFUSALS_TOLD_EVERY_MS = 1_000  # a line for each would fill the disk
IDLE_SWEEPS = 4  # a connection that was silent for so many looks, a quarter of the limit apart, is closed


class Server:
    def __init__(self, *, config: NodeConfig, logger: Logger, dispatch: Callable[[Request[Any]], None]) -> None:
        self._config, self._logger, self._dispatch = config, logger, dispatch
        self._servers: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}  # in order of arrival
        self._by_host: Counter[str] = Counter()
        # The budgets of clients and of brokers are separate, so a client cannot keep the cluster from running.
        self._memory = RequestMemory(limit_bytes=config.queued_max_request_bytes, on_wait=self._memory_is_short)
        self._peer_memory = RequestMemory(limit_bytes=PEER_REQUEST_BYTES_MAX, on_wait=self._memory_is_short)
        self._unread = UnreadAnswers(limit_bytes=config.harness_unread_answer_bytes, on_end=self._unread_ended)
        self._peer_unread = UnreadAnswers(limit_bytes=PEER_UNREAD_BYTES_MAX, on_end=self._unread_ended)
        self._memory_timer: asyncio.TimerHandle | None = None
        self._refusals = 0  # since the last line about them
        self._refusals_told_ms = -REFUSALS_TOLD_EVERY_MS
        self._openings = RateWindow(count=config.quota_window_num, size_ms=config.quota_window_size_seconds * 1000)

    def reconfigure(self, config: NodeConfig) -> None:
        """New limits; they hold for the connections to come."""
        self._config = config

    def _kind(self, name: str) -> Listener:
        if name == self._config.controller_listener:
            return Listener.CONTROLLER
        return Listener.INTER_BROKER if name == self._config.internal_listener else Listener.CLIENT

    async def open(self, names: set[str]) -> None:
        """Bind these listeners. Raises OSError when an address is taken."""
        loop = asyncio.get_running_loop()
        for name in sorted(names):
            address = self._config.listeners[name]
            server = await loop.create_server(
                self._factory(name),
                address.host,
                address.port,
                backlog=self._config.socket_listen_backlog_size,
                reuse_address=True,
            )
            self._servers.append(server)
            self._logger.info("listening", listener=name, address=address)

    def _factory(self, name: str) -> Callable[[], Connection]:
        kind = self._kind(name)

        def make() -> Connection:
            return Connection(
                listener=kind,
                listener_name=name,
                dispatch=self._dispatch,
                logger=self._logger,
                request_bytes_max=self._config.socket_request_max_bytes,
                on_open=self._opened,
                on_close=self._closed,
                memory=self._memory if kind is Listener.CLIENT else self._peer_memory,
                unread=self._unread if kind is Listener.CLIENT else self._peer_unread,
            )

        return make

    def _opened(self, connection: Connection) -> bool:
        """False: refused. For connections of other brokers only the file descriptors are a limit. As in Kafka, these
        connections come first, and a part of the descriptors is reserved for them."""
        config, host, count = self._config, connection.peer_host, len(self._connections)
        descriptors = descriptors_for_connections()
        if count >= descriptors:
            self._refuse(connection, "descriptors")
            return False
        if connection.listener is Listener.CLIENT:
            if count >= min(config.max_connections, descriptors - PEER_CONNECTIONS):
                self._refuse(connection, "max.connections" if count >= config.max_connections else "descriptors")
                return False
            if self._by_host[host] >= config.max_connections_per_ip:
                self._refuse(connection, "max.connections.per.ip")
                return False
            self._slow_down(connection)
        self._connections[connection] = None
        self._by_host[host] += 1
        return True

    def _refuse(self, connection: Connection, limit: str) -> None:
        self._refusals += 1
        now_ms = monotonic_ms()
        if now_ms - self._refusals_told_ms < REFUSALS_TOLD_EVERY_MS:
            return
        facts = {"limit": limit, "open": len(self._connections), "refused": self._refusals}
        self._logger.warning("connection_refused", **facts, peer=connection.peer_host)
        self._refusals, self._refusals_told_ms = 0, now_ms

    def _unread_ended(self, connection: Answering, size_bytes: int) -> None:
        peer = connection.peer_host if isinstance(connection, Connection) else ""
        self._logger.warning("answers_unread", peer=peer, bytes=size_bytes, cause=repr("no memory left for answers"))

    def _memory_is_short(self) -> None:
        if self._memory_timer is None:
            loop = asyncio.get_running_loop()
            self._memory_timer = loop.call_later(STALLED_REQUEST_S / 2, self._end_stalled_requests)

    def _end_stalled_requests(self) -> None:
        """While others wait for memory, a request that stopped arriving or takes too long gives up its place."""
        self._memory_timer = None
        now_s = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            if not connection.holds_memory or not self._memory_of(connection).waiting:
                continue
            silent_s = now_s - max(connection.received_s, connection.taken_s)
            if silent_s > STALLED_REQUEST_S or now_s - connection.taken_s > SLOW_REQUEST_S:
                self._logger.warning("request_too_slow", peer=connection.peer_host, silent_s=round(silent_s, 1))
                connection.abort()
        if self._memory.waiting or self._peer_memory.waiting:
            self._memory_is_short()

    def _memory_of(self, connection: Connection) -> RequestMemory:
        return self._memory if connection.listener is Listener.CLIENT else self._peer_memory

    def _slow_down(self, connection: Connection) -> None:
        now_ms, limit = monotonic_ms(), self._config.max_connection_creation_rate
        self._openings.add(1, now_ms)
        rate = self._openings.per_second(now_ms)
        if limit > 0 and rate > limit:
            connection.throttle(round((rate - limit) / limit * 1000))

    def _closed(self, connection: Connection) -> None:
        if self._connections.pop(connection, False) is None:
            self._by_host[connection.peer_host] -= 1
            if not self._by_host[connection.peer_host]:
                del self._by_host[connection.peer_host]

    async def run_idle_sweeps(self) -> None:
        """Until cancelled: close what has been silent for connections.max.idle.ms and waits for no answer."""
        limit_ms = self._config.connections_max_idle_ms
        while limit_ms > 0:
            await asyncio.sleep(limit_ms / IDLE_SWEEPS / 1000)
            for connection in list(self._connections):
                if connection.note_silence() > IDLE_SWEEPS:
                    connection.abort()  # it may have left answers unread: nobody waits for that

    async def close(self) -> None:
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

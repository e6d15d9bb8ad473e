"""The listening side: one socket per listener, connections on them, requests to their handlers.

Bounds, changeable at run time: connections in all (max.connections), from one address (max.connections.per.ip) and per
second (max.connection.creation.rate, beyond which a new one is not read for a while); idle ones are closed
(connections.max.idle.ms). queued.max.request.bytes bounds the memory of large requests (memory.py).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from broker.node.clock import monotonic_ms
from broker.node.config import NodeConfig
from broker.node.connection import Connection, Request
from broker.node.logs import Logger
from broker.node.memory import RequestMemory
from broker.node.quotas import RateWindow
from broker.wire.apis import Listener

IDLE_SWEEPS = 4  # a connection that was silent for so many looks, a quarter of the limit apart, is closed


class Server:
    def __init__(self, *, config: NodeConfig, logger: Logger, dispatch: Callable[[Request], None]) -> None:
        self._config, self._logger, self._dispatch = config, logger, dispatch
        self._servers: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}  # in order of arrival
        self._by_host: Counter[str] = Counter()
        self._memory = RequestMemory(limit_bytes=config.queued_max_request_bytes)
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
                memory=self._memory,
            )

        return make

    def _opened(self, connection: Connection) -> bool:
        """False: refused. The brokers' own connections count, and are never refused: as in Kafka, theirs come first."""
        config, host = self._config, connection.peer_host
        if connection.listener is Listener.CLIENT:
            if len(self._connections) >= config.max_connections:
                self._refuse(connection, "max.connections")
                return False
            if self._by_host[host] >= config.max_connections_per_ip:
                self._refuse(connection, "max.connections.per.ip")
                return False
            self._slow_down(connection)
        self._connections[connection] = None
        self._by_host[host] += 1
        return True

    def _refuse(self, connection: Connection, limit: str) -> None:
        self._logger.warning("connection_refused", limit=limit, open=len(self._connections), peer=connection.peer_host)

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
                connection.silent_sweeps = 0 if connection.is_waiting else connection.silent_sweeps + 1
                if connection.silent_sweeps > IDLE_SWEEPS:
                    connection.close()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

"""The listening side: one socket per listener, connections on them, requests to their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.node.config import NodeConfig
from broker.node.connection import Connection, Request
from broker.node.logs import Logger
from broker.wire.apis import Listener

LISTEN_BACKLOG = 512


class Server:
    def __init__(self, *, config: NodeConfig, logger: Logger, dispatch: Callable[[Request], None]) -> None:
        self._config, self._logger, self._dispatch = config, logger, dispatch
        self._servers: list[asyncio.Server] = []
        self._connections: dict[Connection, None] = {}  # in order of arrival

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
                self._factory(name), address.host, address.port, backlog=LISTEN_BACKLOG, reuse_address=True
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
            )

        return make

    def _opened(self, connection: Connection) -> bool:
        if len(self._connections) >= self._config.max_connections:
            self._logger.warning("connection_refused", open=len(self._connections))
            return False
        self._connections[connection] = None
        return True

    def _closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        await asyncio.sleep(0)

"""One proxy of the embedded server: its listener, its toxics, its connections.

A dial to the upstream has a limit and never holds up other clients. The API's collection owns the proxies.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import sys
from typing import Any

from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.kafka.tap import KafkaSettings
from chaos.toxiproxy.link import UPSTREAM, Connection, Endpoint
from chaos.toxiproxy.tls import UpstreamTls
from chaos.toxiproxy.toxic import Toxic

DIAL_TIMEOUT_MS = 10_000
CONNECTIONS_MAX = 4096  # per proxy; further clients are turned away
BACKLOG = 512


class Proxy:
    def __init__(
        self,
        *,
        name: str,
        listen: str,
        upstream: str,
        kafka: KafkaSettings,
        rng: random.Random,
        tls: UpstreamTls | None = None,
    ) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.tls = tls
        self.kafka = kafka
        self.toxics: list[Toxic] = []
        self._rng = rng
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[Connection] = set()
        self._dials: dict[Endpoint, asyncio.Task[None]] = {}
        self._connection_count = 0

    @property
    def is_enabled(self) -> bool:
        return self._server is not None

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.is_enabled,
            # Toxiproxy lists one stream after the other.
            "toxics": [toxic.to_json() for toxic in sorted(self.toxics, key=lambda toxic: toxic.stream != UPSTREAM)],
        }
        if self.kafka.is_logging_asked:
            shown["kafka_log"] = True
        if self.kafka.rewrites:
            shown["kafka_addresses"] = {
                format_address(*real): format_address(*shown_as) for real, shown_as in self.kafka.rewrites.items()
            }
        if self.tls is not None:
            shown["upstream_tls"] = self.tls.to_json()
        return shown

    async def start(self) -> None:
        """Listen; raises ApiError 400 for an address that is none, 500 for one that cannot be had."""
        if self._server is not None:
            return
        host, port = split_address("listen", self.listen)
        try:
            listener = _bind(host, port)
        except socket.gaierror as error:
            raise ApiError(400, f"listen tcp {self.listen}: {error.strerror}") from error
        except OSError as error:
            reason = "bind: address already in use" if error.errno == errno.EADDRINUSE else str(error)
            raise ApiError(500, f"listen tcp {self.listen}: {reason}") from error
        self.listen = format_address(*listener.getsockname()[:2])
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Endpoint(self._accept), sock=listener, backlog=BACKLOG)

    def stop(self) -> None:
        """Close listener and connections: later clients are refused."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for task in list(self._dials.values()):
            task.cancel()
        for endpoint in list(self._dials):
            endpoint.abort(with_reset=False)
        self._dials.clear()
        for connection in list(self._connections):
            connection.abort()

    def find_toxic(self, name: str) -> Toxic | None:
        return next((toxic for toxic in self.toxics if toxic.name == name), None)

    def add_toxic(self, toxic: Toxic) -> None:
        self.toxics.append(toxic)
        if toxic.spec.is_kafka:
            self._list_kafka_toxics()
            return
        for connection in list(self._connections):
            connection.direction(toxic).add_toxic(toxic)

    def update_toxic(self, toxic: Toxic, *, redraw: bool) -> None:
        for connection in list(self._connections):
            connection.direction(toxic).update_toxic(toxic, redraw=redraw)

    def remove_toxic(self, toxic: Toxic) -> None:
        self.toxics.remove(toxic)
        self._list_kafka_toxics()
        for connection in list(self._connections):
            connection.direction(toxic).remove_toxic(toxic)

    def _list_kafka_toxics(self) -> None:
        self.kafka.toxics = [toxic for toxic in self.toxics if toxic.spec.is_kafka]

    def _accept(self, client: Endpoint) -> None:
        if self._server is None or len(self._connections) + len(self._dials) >= CONNECTIONS_MAX:
            client.abort(with_reset=False)
            return
        task = asyncio.get_running_loop().create_task(self._dial(client))
        self._dials[client] = task

    async def _dial(self, client: Endpoint) -> None:
        server = Endpoint(is_tls=self.tls is not None)
        host, port = split_address("upstream", self.upstream)
        secured: dict[str, Any] = {}  # Any: asyncio's own keyword arguments
        if self.tls is not None:
            secured = {"ssl": self.tls.context(), "server_hostname": self.tls.server_name or host}
        try:
            async with asyncio.timeout(DIAL_TIMEOUT_MS / 1000):
                await asyncio.get_running_loop().create_connection(lambda: server, host, port, **secured)
        except OSError as error:  # TimeoutError and ssl.SSLError are such
            if self.tls is not None:  # a certificate that is not trusted looks like a dead broker otherwise
                print(f"event=dial_failed proxy={self.name} upstream={self.upstream} cause={error}", file=sys.stderr)
            client.abort(with_reset=False)
            return
        except asyncio.CancelledError:
            server.abort(with_reset=False)
            raise
        finally:
            self._dials.pop(client, None)
        self._connection_count += 1
        connection = Connection(
            number=self._connection_count,
            client=client,
            server=server,
            toxics=[toxic for toxic in self.toxics if not toxic.spec.is_kafka],
            kafka=self.kafka,
            rng=self._rng,
            on_end=self._connections.discard,
        )
        if not connection.is_ended:
            self._connections.add(connection)


def split_address(field: str, address: str) -> tuple[str, int]:
    """host:port; raises ApiError 400 for anything else."""
    host, separator, port_text = address.rpartition(":")
    host = host.strip("[]")
    if not separator or not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65535:
        raise ApiError(400, f"{field} must be host:port, got {address!r}")
    return host, int(port_text)


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or "127.0.0.1", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener

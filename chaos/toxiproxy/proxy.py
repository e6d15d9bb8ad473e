"""One proxy of the embedded server: its listener, its toxics, its connections.

A dial to the upstream has a time limit and never delays other clients. `Api` owns the proxies.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import resource
import socket
import sys
from typing import Any

from broker.door.addresses import AddressError, format_address, parse_address
from chaos.toxiproxy.endpoint import Endpoint
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.kafka.exchange_log import Watch
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.turns import names_of
from chaos.toxiproxy.link import Connection
from chaos.toxiproxy.listen_address import ListenAddressError, bind, resolve
from chaos.toxiproxy.metrics import ProxyMetrics, Route
from chaos.toxiproxy.pump import Pump
from chaos.toxiproxy.tls import ListenTls, UpstreamTls
from chaos.toxiproxy.toxic import AttributeValue, Toxic

DIAL_TIMEOUT_MS = 10_000
CONNECTIONS_MAX = 4096  # per proxy; further clients are refused
BACKLOG = 512
DESCRIPTORS_PER_PROXY = 2  # the listener, and the copy of it that accepts
DESCRIPTORS_OF_API = 320  # Its connections (http.py) and some files need them.
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
FILLERS = 4  # connections of our own that fill the listener's queue; the last ones hang like all others


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
        listen_tls: ListenTls | None = None,
        metrics: ProxyMetrics | None = None,
        pump: Pump | None = None,
    ) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.tls = tls
        self.listen_tls = listen_tls
        self.kafka = kafka
        self.toxics: list[Toxic] = []
        self._rng = rng
        self._metrics = metrics
        self._pump = pump
        self._listener: socket.socket | None = None  # listens as long as the proxy is enabled
        self._server: asyncio.AbstractServer | None = None  # accepts from a copy of the listener
        self._fillers: list[socket.socket] = []
        self._connections: set[Connection] = set()
        self._dials: dict[Endpoint, asyncio.Task[None]] = {}
        self._connection_count = 0

    @property
    def is_enabled(self) -> bool:
        return self._listener is not None

    def to_json(self) -> dict[str, object]:
        shown: dict[str, object] = {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.is_enabled,
            # Toxiproxy lists one stream after the other.
            "toxics": [toxic.to_json() for toxic in sorted(self.toxics, key=lambda toxic: not toxic.is_upstream)],
        }
        if self.kafka.is_logging_asked:
            shown["kafka_log"] = True
        if self.kafka.rewrites:
            shown["kafka_addresses"] = {
                format_address(*real): format_address(*shown_as) for real, shown_as in self.kafka.rewrites.items()
            }
        if self.tls is not None:
            shown["upstream_tls"] = self.tls.to_json()
        if self.listen_tls is not None:
            shown["listen_tls"] = self.listen_tls.to_json()
        return shown

    async def start(self) -> None:
        """Listen. Raises ApiError 500 if the address is not valid or not available."""
        if self._listener is not None:
            return
        try:
            address = await resolve(self.listen)
        except ListenAddressError as error:
            raise ApiError(500, f"listen tcp: {error}") from error
        try:
            listener = bind(address)
        except OSError as error:
            call = "socket" if error.errno in _NO_DESCRIPTORS else "bind"
            raise ApiError(500, f"listen tcp {address}: {call}: {_why_not(error)}") from error
        asked, self.listen = self.listen, format_address(*listener.getsockname()[:2])
        self._listener = listener
        try:
            await self.settle()
        except ApiError:  # a proxy that cannot accept must not stay
            self.stop()
            self.listen = asked
            raise

    async def differs(self, *, listen: str, upstream: str) -> bool:
        """Whether these addresses differ from the present ones. Raises ApiError 500 if the address is not valid."""
        try:
            return str(await resolve(listen)) != self.listen or upstream != self.upstream
        except ListenAddressError as error:
            raise ApiError(500, str(error)) from error

    async def secure(self, *, tls: UpstreamTls | None, listen_tls: ListenTls | None) -> None:
        """Set TLS for new connections. Open connections continue. None: unchanged. Raises ApiError 500.

        A new certificate comes with a new context. With the old one, clients could resume their sessions and would
        never see the certificate.
        """
        self.tls = tls or self.tls
        if listen_tls is None:
            return
        self.listen_tls = listen_tls
        if self._server is not None:  # the listener itself stays open, so nobody is refused in between
            self._server.close()
            self._server = None
            await self.settle()

    async def settle(self) -> None:
        """Accept, or stop accepting, as the toxics demand. Raises ApiError 500 if there are no descriptors left."""
        if self._listener is None:
            return
        holds = next((toxic for toxic in self.toxics if toxic.spec.stops_accepting), None)
        try:
            if holds is not None and not self._fillers:
                self._stop_accepting(self._listener, ends_open=bool(holds.number("end_open")))
            elif holds is None and self._server is None:
                self._close_fillers()
                await self._begin_accepting(self._listener)
        except OSError as error:
            self._close_fillers()
            raise ApiError(500, f"accept on {self.listen}: {_why_not(error)}") from error

    async def _begin_accepting(self, listener: socket.socket) -> None:
        copy, loop = listener.dup(), asyncio.get_running_loop()
        is_tls = self.listen_tls is not None
        secured: dict[str, Any] = {}  # Any: asyncio's own keyword arguments
        try:
            if self.listen_tls is not None:
                secured = {"ssl": self.listen_tls.context(), "ssl_handshake_timeout": DIAL_TIMEOUT_MS / 1000}
            self._server = await loop.create_server(
                lambda: Endpoint(self._accept, is_tls=is_tls), sock=copy, backlog=BACKLOG, **secured
            )
        except OSError:
            copy.close()
            raise

    def _stop_accepting(self, listener: socket.socket, *, ends_open: bool) -> None:
        """The listener keeps listening, but its queue is full and nobody empties it. So the kernel drops further
        SYNs."""
        if self._server is not None:
            self._server.close()
            self._server = None
        listener.listen(0)
        for _ in range(FILLERS):
            filler = socket.socket(listener.family, socket.SOCK_STREAM)
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
            self._fillers.append(filler)
        if ends_open:
            self._end_connections(with_reset=True)

    def _close_fillers(self) -> None:
        while self._fillers:
            self._fillers.pop().close()

    def stop(self) -> None:
        """Close the listener and the connections. Later clients are refused."""
        if self._listener is None:
            return
        if self._server is not None:
            self._server.close()
            self._server = None
        self._listener.close()
        self._listener = None
        self._close_fillers()
        self._end_connections(with_reset=False)

    def end(self) -> None:
        """Stop for good. Its toxics are there no more."""
        self.stop()
        for toxic in list(self.toxics):
            self.remove_toxic(toxic)

    def _end_connections(self, *, with_reset: bool) -> None:
        for task in list(self._dials.values()):
            task.cancel()
        for endpoint in list(self._dials):
            endpoint.abort(with_reset=with_reset)
        self._dials.clear()
        for connection in list(self._connections):
            if with_reset:
                connection.reset()
            else:
                connection.abort()

    def find_toxic(self, name: str) -> Toxic | None:
        return next((toxic for toxic in self.toxics if toxic.name == name), None)

    def add_toxic(self, toxic: Toxic) -> None:
        self.toxics.append(toxic)
        if toxic.spec.is_kafka:
            self.kafka.turns.hold(names_of(toxic))
            self._list_kafka_toxics()
            return
        for connection in list(self._connections):
            connection.direction(toxic).add_toxic(toxic)

    def update_toxic(self, toxic: Toxic, *, toxicity: float, attributes: dict[str, AttributeValue]) -> None:
        redraw, held = toxicity != toxic.toxicity, names_of(toxic)
        toxic.toxicity, toxic.attributes = toxicity, attributes
        if toxic.spec.is_kafka:
            self.kafka.turns.hold(names_of(toxic))
            self.kafka.turns.drop(held)
        for connection in list(self._connections):
            connection.direction(toxic).update_toxic(toxic, redraw=redraw)

    def remove_toxic(self, toxic: Toxic) -> None:
        self.toxics.remove(toxic)
        if toxic.spec.is_kafka:
            self.kafka.turns.drop(names_of(toxic))
        self._list_kafka_toxics()
        for connection in list(self._connections):
            connection.direction(toxic).remove_toxic(toxic)

    def _list_kafka_toxics(self) -> None:
        self.kafka.toxics = [toxic for toxic in self.toxics if toxic.spec.is_kafka]
        self._read_frames()
        for connection in list(self._connections):
            connection.tap.toxics_changed()

    def log_kafka(self, is_asked: bool) -> None:
        if is_asked and not self.kafka.is_logging_asked:
            self.kafka.wire_log.resume()
        self.kafka.is_logging_asked = is_asked
        self._read_frames()

    def watch(self, watch: Watch | None) -> None:
        """Write the exchanges that begin from now on into the exchange log. None: those of now on are not."""
        self.kafka.watch = watch
        self._read_frames()

    def _read_frames(self) -> None:
        """If Kafka frames are wanted from now on, no byte may pass the taps of open connections unread."""
        if self.kafka.wants_frames():
            for connection in self._connections:
                connection.leave_pump()

    def _accept(self, client: Endpoint) -> None:
        is_full = len(self._connections) + len(self._dials) >= CONNECTIONS_MAX
        if self._server is None or is_full or not _has_descriptors(client):
            client.abort(with_reset=False)
            return
        # For its client the connection has begun, so these toxics have acted on it even if they go while we dial.
        task = asyncio.get_running_loop().create_task(self._dial(client, self._of_connections()))
        self._dials[client] = task

    def _of_connections(self) -> list[Toxic]:
        return [toxic for toxic in self.toxics if not toxic.spec.is_kafka]

    async def _dial(self, client: Endpoint, began_with: list[Toxic]) -> None:
        server = Endpoint(is_tls=self.tls is not None)
        secured: dict[str, Any] = {}  # Any: asyncio's own keyword arguments
        try:
            host, port = parse_address(self.upstream, allow_zero=True)
            if self.tls is not None:
                secured = {"ssl": self.tls.context(), "server_hostname": self.tls.server_name or host}
            async with asyncio.timeout(DIAL_TIMEOUT_MS / 1000):
                await asyncio.get_running_loop().create_connection(lambda: server, host, port, **secured)
        except AddressError:  # any text may be the upstream, and then nobody answers
            client.abort(with_reset=False)
            return
        except OSError as error:  # TimeoutError and ssl.SSLError are such
            # Without this line, an untrusted certificate or a lack of descriptors would look like a dead broker.
            if self.tls is not None or error.errno in _NO_DESCRIPTORS:
                print(f"event=dial_failed proxy={self.name} upstream={self.upstream} cause={error}", file=sys.stderr)
            client.abort(with_reset=False)
            return
        except asyncio.CancelledError:
            server.abort(with_reset=False)
            raise
        finally:
            self._dials.pop(client, None)
        self._connection_count += 1
        present = self._of_connections()
        gone = [toxic for toxic in began_with if not any(toxic is each for each in present)]
        connection = Connection(
            number=self._connection_count,
            client=client,
            server=server,
            toxics=[*gone, *present],
            kafka=self.kafka,
            rng=self._rng,
            on_end=self._ended,
            pump=self._pump,
        )
        for toxic in gone:
            connection.direction(toxic).remove_toxic(toxic)
        if connection.is_ended:
            return
        self._connections.add(connection)
        if self._metrics is not None:
            for each in (connection.upstream, connection.downstream):
                self._metrics.begin(Route(each.stream, self.listen, self.name, self.upstream), each.traffic)

    def _ended(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            if self._metrics is not None:
                self._metrics.end(connection.upstream.traffic)
                self._metrics.end(connection.downstream.traffic)


def _has_descriptors(client: Endpoint) -> bool:
    """Whether this client may stay. The last descriptors are reserved for the API, because a caller that heals must be
    served. The kernel gives the lowest free number, so the number of a new connection shows how many are in use."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = client.transport.get_extra_info("socket") if client.transport is not None else None
    return limit < 0 or found is None or found.fileno() < limit - min(DESCRIPTORS_OF_API, limit // 4)


def _why_not(error: OSError) -> str:
    if error.errno in _NO_DESCRIPTORS:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"too many open files: this server may have {limit} (ulimit -n); each proxy takes {DESCRIPTORS_PER_PROXY}, "
            "each connection through one another 2"
        )
    if error.errno is not None:  # Go's texts begin in lower case
        text = os.strerror(error.errno)
        return f"{text[:1].lower()}{text[1:]}"
    return str(error)

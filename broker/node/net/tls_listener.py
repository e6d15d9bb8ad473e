"""A listening socket whose connections begin with a TLS handshake.

Handshakes are bounded in time and number. If too many are under way, the oldest one is ended. A normal client needs
milliseconds, and clients that never finish must not block it. A failed handshake has no effect on other connections.
Shown by tests/broker_node/test_node_tls.py.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TypeAlias

from broker.node.net.principal import ANONYMOUS, Principal
from broker.node.net.rate_limited_log import SparseWarnings
from broker.node.net.tls import Contexts
from broker.node.net.tls_stream import Inner, TlsStream
from broker.node.process.logs import Logger
from broker.node.settings.values import Address
from broker.security.distinguished_names import rfc2253
from broker.security.mapping_rules import NoRuleError

HANDSHAKE_TIMEOUT_S = 10.0
HANDSHAKES_MAX = 256
SHUTDOWN_TIMEOUT_S = 5.0  # The closing message of TLS has this long, after everything else was sent.
ACCEPT_PAUSE_S = 0.1  # the pause after an accept that failed, for example because there are no descriptors

# Makes the protocol that gets the decrypted bytes, for the principal of the peer.
MakeInner: TypeAlias = Callable[[Principal], Inner]
# an address in Kafka's form -> whether one more connection from it is allowed
Admits: TypeAlias = Callable[[str], bool]
Spawn: TypeAlias = Callable[[Coroutine[object, object, None]], "asyncio.Task[None]"]


class TlsListener:
    def __init__(
        self,
        *,
        name: str,
        contexts: Contexts,
        make: MakeInner,
        admits: Admits,
        spawn: Spawn,
        logger: Logger,
        backlog: int,
    ) -> None:
        self._name, self.contexts, self._backlog = name, contexts, backlog
        self._make, self._admits, self._spawn = make, admits, spawn
        self._failures = SparseWarnings(logger, "handshake_failed")
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[asyncio.Task[None], str] = {}  # in order of arrival, with the peer's address

    async def bind(self, address: Address) -> None:
        """Raises OSError if the address is in use."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, place in {(each[0], each[4]): None for each in found}:
            bound = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # because IPv4 has its own socket
            bound.setblocking(False)
            bound.bind(place)

    async def start_serving(self) -> None:
        """Raises OSError if another socket has begun to listen at the address meanwhile."""
        for listening in self._sockets:
            listening.listen(self._backlog)
            self._accepting.append(self._spawn(self._accept(listening)))

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError as error:
                self._failures.tell(listener=self._name, peer="", cause=repr(f"accept: {error}"))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            self._begin(accepted, f"/{peer[0]}")

    def _begin(self, accepted: socket.socket, peer: str) -> None:
        if not self._admits(peer):
            accepted.close()
            return
        if len(self._handshakes) >= HANDSHAKES_MAX:
            oldest = next(iter(self._handshakes))
            self._tell(self._handshakes.pop(oldest), f"more than {HANDSHAKES_MAX} handshakes are under way")
            oldest.cancel()
        accepted.setblocking(False)
        with suppress(OSError):
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._spawn(self._shake_hands(accepted, peer))
        self._handshakes[task] = peer
        task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _shake_hands(self, accepted: socket.socket, peer: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: TlsStream(self._opened),
                accepted,
                ssl=await self.contexts.current(),
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except Exception as error:  # caught, because a failed task ends the broker, and no peer may cause that
            self._tell(peer, str(error) or type(error).__name__)

    def _opened(self, transport: asyncio.BaseTransport) -> Inner | None:
        """Returns None if the peer has a certificate that no rule maps to a name."""
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return self._make(ANONYMOUS)
        try:
            name = self.contexts.settings.mapper.name_of(rfc2253(certificate["subject"]))
        except (NoRuleError, ValueError) as error:
            peer = transport.get_extra_info("peername")
            self._tell(f"/{peer[0]}" if peer else "", str(error))
            return None
        return self._make(Principal("User", name))

    def _tell(self, peer: str, cause: str) -> None:
        self._failures.tell(listener=self._name, peer=peer, cause=repr(cause))

    @property
    def handshakes(self) -> int:
        """How many handshakes are under way."""
        return len(self._handshakes)

    def handshakes_of(self, peer: str) -> int:
        """How many handshakes with this address are under way. At most HANDSHAKES_MAX are searched."""
        return sum(each == peer for each in self._handshakes.values())

    def close(self) -> None:
        for task in (*self._accepting, *self._handshakes):
            task.cancel()
        for listening in self._sockets:
            listening.close()

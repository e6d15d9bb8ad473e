"""One socket of a proxied connection, as the event loop's transport serves it. `chaos.toxiproxy.link` joins two."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Protocol, cast

_LINGER_RST = struct.pack("ii", 1, 0)


class Reader(Protocol):
    """Takes what is read from a socket."""

    def feed(self, data: bytes) -> None: ...

    def feed_end(self) -> None: ...


class Owner(Protocol):
    """Is told what happens to a socket."""

    def endpoint_lost(self, endpoint: Endpoint) -> None: ...

    def endpoint_writable(self, endpoint: Endpoint) -> None: ...


class Endpoint(asyncio.Protocol):
    """One socket. One direction begins here and reads from it. The other direction ends here and writes to it."""

    def __init__(self, on_made: Callable[[Endpoint], None] | None = None, *, is_tls: bool = False) -> None:
        self.transport: asyncio.Transport | None = None
        self.reads_into: Reader | None = None
        self.connection: Owner | None = None
        self.is_lost = False
        self.is_writable = True  # whether more may be written now; `wait_writable` waits for it
        self._on_made = on_made
        self._is_tls = is_tls  # TLS has no half-close, so the end of one direction ends both
        # uvloop starts to read after connection_made, even if reading was paused before. So at most one read comes
        # too early.
        self._early: list[bytes | None] = []
        self._is_eof_written = False
        self._writable = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()  # until both sides are connected
        if self._on_made:
            self._on_made(self)

    def begin(self, reads_into: Reader) -> None:
        """Both sides are connected, so bytes may pass."""
        self.reads_into = reads_into
        early, self._early = self._early, []
        for data in early:
            if data is None:
                reads_into.feed_end()
            else:
                reads_into.feed(data)
        self.set_reading(True)

    def data_received(self, data: bytes) -> None:
        if self.reads_into is not None:
            self.reads_into.feed(data)
        else:
            self._early.append(data)
            self.set_reading(False)

    def eof_received(self) -> bool:
        if self.reads_into:
            self.reads_into.feed_end()
        else:
            self._early.append(None)
        return not self._is_tls  # the other direction continues

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._set_writable()
        if self.connection:
            self.connection.endpoint_lost(self)

    def pause_writing(self) -> None:
        self.is_writable = False
        self._writable.clear()

    def resume_writing(self) -> None:
        self._set_writable()
        if self.connection:
            self.connection.endpoint_writable(self)

    def _set_writable(self) -> None:
        self.is_writable = True
        self._writable.set()

    async def wait_writable(self) -> None:
        if not self.is_writable:
            await self._writable.wait()

    def write(self, data: bytes) -> None:
        if data and self.transport and not self._is_eof_written and not self.transport.is_closing():
            self.transport.write(data)

    def write_eof(self) -> None:
        if self.transport and not self._is_eof_written and not self.transport.is_closing():
            self._is_eof_written = True
            if self._is_tls:
                self.transport.close()
                return
            with contextlib.suppress(OSError, RuntimeError):
                self.transport.write_eof()

    def close(self) -> None:
        if self.transport:
            self.transport.close()

    def abort(self, *, with_reset: bool) -> None:
        if self.transport is None:
            return
        sock = self.transport.get_extra_info("socket")
        if with_reset and sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RST)
        self.transport.abort()

    def descriptor(self, *, to_write: bool) -> int | None:
        """The number of the socket, if bytes may pass beside the transport. None with TLS, from the close on, and to
        write while the transport itself still has bytes to send, or has sent the end."""
        if self.transport is None or self._is_tls or self.is_lost or self.transport.is_closing():
            return None
        if to_write and (self._is_eof_written or self.transport.get_write_buffer_size()):
            return None
        number: int = self.transport.get_extra_info("socket").fileno()
        return number

    def set_reading(self, is_reading: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        with contextlib.suppress(RuntimeError):
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

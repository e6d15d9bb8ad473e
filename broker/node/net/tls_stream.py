"""The layer between TLS and a connection. For the connection it is a transport, for TLS it is a protocol.

A TLS transport accepts all data that it is given, encrypts it at once and holds it. It does not tell how much it holds
or when that is too much: data in the socket's own transport below it is not counted. So a connection's answers are
given to it in pieces, and only while it is not blocked. The rest waits here, where it is counted and can be discarded.
Shown by tests/broker_node/test_node_tls_stream.py and, with a real process, tests/broker_node/test_node_tls.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, cast

Buffer: TypeAlias = bytes | bytearray | memoryview

PIECE_BYTES = 64 * 1024  # given to TLS in one call
HIGH_BYTES = 64 * 1024  # above this size the connection is told to wait, as a plain transport does
LOW_BYTES = 16 * 1024
TURN_PIECES = 32  # encrypted in one turn of the event loop: this takes about 2 ms


class Inner(Protocol):
    """The part of a connection that takes bytes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsStream(asyncio.BufferedProtocol, asyncio.Transport):
    """`opened` is called with the TLS transport after the handshake. It returns the connection that gets the bytes; if
    it returns None, the transport is closed."""

    def __init__(self, opened: Callable[[asyncio.BaseTransport], Inner | None]) -> None:
        asyncio.Transport.__init__(self)
        self._opened = opened
        self._inner: Inner | None = None
        self._below: asyncio.Transport | None = None
        self._pieces: deque[memoryview] = deque()
        self._size_bytes = 0  # size of the pieces
        self._is_blocked = False  # TLS takes no more data now
        self._is_told = False  # the connection was told to wait
        self._is_closing = False
        self._is_pump_due = False

    # -- the protocol for TLS -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
        self._below.set_write_buffer_limits(high=PIECE_BYTES, low=LOW_BYTES)
        self._inner = self._opened(transport)
        if self._inner is None:
            self._below.abort()
        else:
            self._inner.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._throw_away()
        self._is_closing = True
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(bytearray(PIECE_BYTES)) if self._inner is None else self._inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._inner is not None:
            self._inner.buffer_updated(nbytes)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._pump()

    # -- the transport for the connection -----------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # the same signature as in asyncio
        return default if self._below is None else self._below.get_extra_info(name, default)

    def write(self, data: Buffer) -> None:
        if self._is_closing:
            return
        view = memoryview(data)
        self._size_bytes += len(view)
        for start in range(0, len(view), PIECE_BYTES):
            self._pieces.append(view[start : start + PIECE_BYTES])
        self._pump()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        return self._size_bytes + (0 if self._below is None else self._below.get_write_buffer_size())

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Closes when the peer has read everything. If it never does, the idle sweep ends the connection."""
        self._is_closing = True
        if not self._pieces and self._below is not None:
            self._below.close()

    def abort(self) -> None:
        self._is_closing = True
        self._throw_away()
        below, self._below = self._below, None
        if below is not None:
            below.abort()

    def pause_reading(self) -> None:
        if self._below is not None:
            self._below.pause_reading()

    def resume_reading(self) -> None:
        if self._below is not None:
            self._below.resume_reading()

    # -- private ------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Gives TLS as much as it takes now. The rest follows in the next turn, or when TLS takes more."""
        for _ in range(TURN_PIECES):
            if self._is_blocked or not self._pieces or self._below is None:
                break
            piece = self._pieces.popleft()
            self._size_bytes -= len(piece)
            self._below.write(piece)
        else:
            if self._pieces and not self._is_blocked and not self._is_pump_due:
                self._is_pump_due = True
                asyncio.get_running_loop().call_soon(self._pump_again)
        if self._is_closing and not self._pieces and self._below is not None:
            self._below.close()
        self._tell()

    def _pump_again(self) -> None:
        self._is_pump_due = False
        self._pump()

    def _tell(self) -> None:
        size_bytes = self._size_bytes
        if self._inner is None:
            return
        if size_bytes > HIGH_BYTES and not self._is_told:
            self._is_told = True
            self._inner.pause_writing()
        elif size_bytes <= LOW_BYTES and self._is_told:
            self._is_told = False
            self._inner.resume_writing()

    def _throw_away(self) -> None:
        self._pieces.clear()
        self._size_bytes = 0

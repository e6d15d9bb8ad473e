"""The pump: moves the bytes of busy links without toxics from socket to socket, beside the event loop's transports.

With hundreds of busy connections the calls of a transport and a protocol cost more than the work for each chunk. So the
pump has an epoll of its own, which the event loop watches as one descriptor. In one turn it reads a chunk from each of
the sockets that are ready, and sends it at once. It needs no object for the chunk and keeps no bytes.

It does only the simple case: a whole chunk came in and went out. In all other cases it gives the direction back to
its link with the bytes that were not sent: the receiver is slow, an end or an error is there. The link and its
transports decide what happens then. So there is one place for back-pressure, half-close and reset.

Descriptors are numbers here, and the number of a closed socket is soon another's. Three rules keep a byte from getting
into a wrong connection:

1. A link takes its directions out of the pump before it closes one of its sockets, and when one is lost.
2. Within the turn nothing is called that could close a socket. Directions are given back after all chunks of the turn.
3. What comes after the turn uses no event of it.

Shown by tests/chaos/test_chaos_toxiproxy_pump.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from chaos.toxiproxy.kafka.frames import FrameSplitter
from chaos.toxiproxy.metrics import Traffic

AFTER_CHUNKS: Final = 4  # to enter and to leave costs as much as some chunks save
CHUNK_BYTES_MAX: Final = 256 << 10
# In a turn, so the API waits for at most 16 MiB, some milliseconds. The kernel puts the sockets that it told of behind
# those that still wait, so all have their turns.
SOCKETS_MAX: Final = 64
_WANTED: Final = select.EPOLLIN | select.EPOLLRDHUP


class Why(Enum):
    """Why a direction is given back."""

    FULL = "the receiver did not take all"
    ENDING = "the sender closed its side, or an error waits to be read"
    BROKEN = "the sender's socket is broken"


@dataclass(slots=True, kw_only=True, eq=False)
class Passage:
    """One direction in the pump. `give_back` gets the bytes that were read and not sent. `traffic` does not count them
    as sent."""

    source: int
    destination: int
    traffic: Traffic
    frames: FrameSplitter
    give_back: Callable[[Why, bytes], None]


class Pump:
    def __init__(self, after_chunks: int = AFTER_CHUNKS) -> None:
        self.after_chunks = after_chunks
        self._epoll = select.epoll()
        self._passages: dict[int, Passage] = {}  # The key is the source's descriptor.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._chunk = memoryview(bytearray(CHUNK_BYTES_MAX))

    @property
    def passage_count(self) -> int:
        return len(self._passages)

    def add(self, passage: Passage) -> None:
        """From now on the pump reads the source. Nobody else may, until `remove`, or until the passage is given back
        and removed."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._epoll.fileno(), self.turn)
        self._epoll.register(passage.source, _WANTED)
        self._passages[passage.source] = passage

    def remove(self, passage: Passage) -> None:
        if self._passages.get(passage.source) is passage:
            del self._passages[passage.source]
            with contextlib.suppress(OSError):  # the socket is closed, so the kernel forgot it itself
                self._epoll.unregister(passage.source)

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._epoll.fileno())
        self._loop = None
        self._passages.clear()
        self._epoll.close()

    def turn(self) -> None:
        """One chunk of each socket that is ready, at most SOCKETS_MAX of them."""
        given_back: list[tuple[Passage, Why, bytes]] = []
        passages, chunk, buffers = self._passages, self._chunk, [self._chunk]
        read, write, is_in = os.readv, os.write, select.EPOLLIN
        for source, events in self._epoll.poll(0, SOCKETS_MAX):
            passage = passages[source]
            if events != is_in:
                given_back.append((passage, Why.ENDING, b""))
                continue
            try:
                size = read(source, buffers)
            except BlockingIOError:
                continue
            except OSError:
                given_back.append((passage, Why.BROKEN, b""))
                continue
            if not size:
                given_back.append((passage, Why.ENDING, b""))
                continue
            data = chunk[:size]
            traffic, frames = passage.traffic, passage.frames
            traffic.received_bytes += size
            if not frames.is_opaque:
                frames.skim(data)
            try:
                sent = write(passage.destination, data)
            except OSError:  # no room, or an error that the transport will find when it sends the rest
                sent = 0
            traffic.sent_bytes += sent
            if sent < size:
                given_back.append((passage, Why.FULL, bytes(data[sent:])))
        for passage, why, left in given_back:
            passage.give_back(why, left)

"""One proxied connection: two sockets, two directions, each with its chain of toxics; back-pressure and half-close.

Without toxics bytes go directly from one transport to the other. With hundreds of busy connections this path is most of
what the server does outside of the kernel, so it looks at few objects. With toxics, bytes wait in a bounded queue of
their direction. One task takes them from there and pushes them through the slots. `chaos.toxiproxy.proxy` makes and
ends connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.tap import KafkaTap
from chaos.toxiproxy.metrics import Traffic
from chaos.toxiproxy.toxic import Sink, Slot, Toxic

PENDING_BYTES_MAX = 1 << 20  # per direction; beyond it, the sender is not read until half of it is sent
CLIENT_LINGER_MS = 1000  # how long a client whose response was dropped may take to close its side
UPSTREAM, DOWNSTREAM = "upstream", "downstream"
_LINGER_RST = struct.pack("ii", 1, 0)


class Endpoint(asyncio.Protocol):
    """One socket. One direction begins here and reads from it. The other direction ends here and writes to it."""

    def __init__(self, on_made: Callable[[Endpoint], None] | None = None, *, is_tls: bool = False) -> None:
        self.transport: asyncio.Transport | None = None
        self.reads_into: Direction | None = None
        self.connection: Connection | None = None
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

    def begin(self, reads_into: Direction) -> None:
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

    def set_reading(self, is_reading: bool) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        with contextlib.suppress(RuntimeError):
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


class Direction:
    """One direction: bytes go from `source` to `destination` through the toxics of one stream."""

    def __init__(self, connection: Connection, stream: str, source: Endpoint, destination: Endpoint) -> None:
        self.stream = stream
        self.traffic = Traffic()
        self.slots: list[Slot] = []
        self.is_finished = False
        self._connection = connection
        self._tap = connection.tap
        self._is_upstream = stream == UPSTREAM
        self._source = source
        self._destination = destination
        self._pending: deque[bytes | None] = deque()  # None is the end
        self._pending_bytes = 0
        self._is_pushing = False
        self._is_source_paused = False
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def feed(self, data: bytes) -> None:
        self.traffic.received_bytes += len(data)
        if not self._is_upstream:
            data = self._tap.backward(data)
        self.enqueue(data)

    def feed_end(self) -> None:
        self.enqueue(None)

    def enqueue(self, data: bytes | None) -> None:
        if self.slots:
            self._drop_removed()
        if data and not self.slots and not self._pending and not self._is_pushing:
            self._deliver(data)
            if not self._destination.is_writable:
                self._pause_source()
            return
        if data == b"":
            return
        self._pending.append(data)
        self._pending_bytes += len(data) if data else 0
        if self._pending_bytes > PENDING_BYTES_MAX:
            self._pause_source()
        self._arrived.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def destination_writable(self) -> None:
        if self._pending_bytes <= PENDING_BYTES_MAX // 2:
            self._resume_source()

    def add_toxic(self, toxic: Toxic) -> None:
        slot = Slot(toxic, _End(self), self._connection, self._connection.rng)
        self.slots.append(slot)
        self._chain()

    def update_toxic(self, toxic: Toxic, *, redraw: bool) -> None:
        for slot in self.slots:
            if slot.toxic is toxic:
                slot.update(redraw=redraw)

    def remove_toxic(self, toxic: Toxic) -> None:
        for slot in self.slots:
            if slot.toxic is toxic:
                slot.remove()
        self._drop_removed()

    def stop(self) -> None:
        if self._task:
            self._task.cancel()
        for slot in self.slots:
            slot.stop()
        self._pending.clear()

    async def push_out(self, data: bytes) -> None:
        """The end of the chain: write to the destination."""
        self._deliver(data)
        await self._destination.wait_writable()

    def finish_out(self) -> None:
        if not (self._is_upstream and self._tap.is_cut):
            self._destination.write_eof()  # after an end the broker would not send the responses that the tap waits for
        self.is_finished = True
        self._connection.direction_finished()

    def _deliver(self, data: bytes) -> None:
        if self._is_upstream:
            data = self._tap.forward(data)
        self.traffic.sent_bytes += len(data)
        self._destination.write(data)

    def _drop_removed(self) -> None:
        """Take a removed toxic out of the chain once it holds no bytes. So bytes keep their order."""
        if any(slot.is_removed and slot.is_idle() for slot in self.slots):
            for slot in self.slots:
                if slot.is_removed and slot.is_idle():
                    slot.stop()
            self.slots = [slot for slot in self.slots if not (slot.is_removed and slot.is_idle())]
            self._chain()

    def _chain(self) -> None:
        end: Sink = _End(self)
        for slot in reversed(self.slots):
            slot.next = end
            end = slot

    async def _run(self) -> None:
        while True:
            while not self._pending:
                self._is_pushing = False
                self._arrived.clear()
                await self._arrived.wait()
            self._is_pushing = True
            self._drop_removed()
            data = self._pending.popleft()
            head: Sink = self.slots[0] if self.slots else _End(self)
            if data is None:
                await head.finish()
                continue
            self._pending_bytes -= len(data)
            await head.push(data)
            if self._pending_bytes <= PENDING_BYTES_MAX // 2:
                self._resume_source()

    def _pause_source(self) -> None:
        if not self._is_source_paused:
            self._is_source_paused = True
            self._source.set_reading(False)

    def _resume_source(self) -> None:
        if self._is_source_paused:
            self._is_source_paused = False
            self._source.set_reading(True)


class _End:
    """The last sink of a chain: the destination's socket."""

    __slots__ = ("_direction",)

    def __init__(self, direction: Direction) -> None:
        self._direction = direction

    async def push(self, data: bytes) -> None:
        await self._direction.push_out(data)

    async def finish(self) -> None:
        self._direction.finish_out()


class Connection:
    """A connection with both directions. `on_end` is called once, when the connection has ended."""

    def __init__(
        self,
        *,
        number: int,
        client: Endpoint,
        server: Endpoint,
        toxics: list[Toxic],
        kafka: KafkaSettings,
        rng: random.Random,
        on_end: Callable[[Connection], None],
    ) -> None:
        self.rng = rng
        self._client = client
        self._server = server
        self._on_end = on_end
        self.is_ended = False
        self._is_drained = False
        self.tap = KafkaTap(kafka, number, self, rng)
        self.upstream = Direction(self, UPSTREAM, client, server)
        self.downstream = Direction(self, DOWNSTREAM, server, client)
        client.connection = server.connection = self
        for toxic in toxics:
            self.direction(toxic).add_toxic(toxic)
        if client.is_lost or server.is_lost:
            self.abort()
            return
        client.begin(self.upstream)
        server.begin(self.downstream)

    def direction(self, toxic: Toxic) -> Direction:
        return self.upstream if toxic.is_upstream else self.downstream

    def close(self) -> None:
        """Send what was written, then close both sides."""
        self._end()
        self._client.close()
        self._server.close()

    def abort(self) -> None:
        """Close both sides at once. Bytes that were not sent yet are lost."""
        self._end()
        self._client.abort(with_reset=False)
        self._server.abort(with_reset=False)

    def reset(self) -> None:
        self._end()
        self._client.abort(with_reset=True)
        self._server.abort(with_reset=True)

    def emit(self, data: bytes) -> None:
        self.downstream.enqueue(data)

    def forward_late(self, data: bytes) -> None:
        self.upstream.traffic.sent_bytes += len(data)
        self._server.write(data)

    def cut_client(self) -> None:
        """The client gets the bytes that were sent to it, then the end. What it sends from now on is discarded."""
        self.downstream.enqueue(None)

    def drained(self) -> None:
        """Give the client a moment to read the end. A close with unread data of the client would be a reset."""
        self._is_drained = True
        self._server.close()
        if self._client.is_lost or self.upstream.is_finished:
            self.close()
        else:
            self.call_later_ms(CLIENT_LINGER_MS, self.close)

    def call_later_ms(self, delay_ms: float, action: Callable[[], None]) -> Callable[[], object]:
        loop = asyncio.get_running_loop()
        if delay_ms > 0:
            delay_ms = math.ceil(delay_ms) + 1  # uvloop cuts times to milliseconds; nothing may be sent too early
        return loop.call_later(delay_ms / 1000, action).cancel

    def direction_finished(self) -> None:
        if self.upstream.is_finished and self.downstream.is_finished and (self._is_drained or not self.tap.is_cut):
            self.close()

    def endpoint_lost(self, endpoint: Endpoint) -> None:
        if self.tap.is_cut and endpoint is self._client and not self._is_drained:
            return  # the tap still waits for responses of the broker
        if self.tap.is_cut and endpoint is self._server and self._is_drained:
            return  # the client is still reading
        self.close()

    def endpoint_writable(self, endpoint: Endpoint) -> None:
        (self.downstream if endpoint is self._client else self.upstream).destination_writable()

    def _end(self) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        self.tap.closed()
        self.upstream.stop()
        self.downstream.stop()
        self._on_end(self)

"""One proxied connection: two sockets, two directions, each with its chain of toxics; back-pressure and half-close.

Without toxics bytes go directly from one transport to the other. A direction that has done this for a while enters the
pump, which moves bytes from socket to socket beside the transports (`chaos.toxiproxy.pump`). It leaves the pump before
a toxic is added, before Kafka frames are read, and when anything else happens than that all bytes could be sent. With
toxics, bytes wait in a bounded queue of their direction. One task takes them from there and pushes them through the
slots. `chaos.toxiproxy.proxy` makes and ends connections.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable

from chaos.toxiproxy.endpoint import Endpoint
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.tap import KafkaTap
from chaos.toxiproxy.metrics import Traffic
from chaos.toxiproxy.pump import Passage, Pump, Why
from chaos.toxiproxy.toxic import Sink, Slot, Toxic

PENDING_BYTES_MAX = 1 << 20  # per direction; beyond it, the sender is not read until half of it is sent
CLIENT_LINGER_MS = 1000  # how long a client whose response was dropped may take to close its side
UPSTREAM, DOWNSTREAM = "upstream", "downstream"


class Direction:
    """One direction: bytes go from `source` to `destination` through the toxics of one stream."""

    def __init__(
        self, connection: Connection, stream: str, source: Endpoint, destination: Endpoint, pump: Pump | None
    ) -> None:
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
        self._is_source_stalled = False  # the tap wants no more of it for now
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._pump = pump  # None: this direction does not enter it, or not again
        self._passage: Passage | None = None  # while it is in the pump
        self._chunks_until_pump = 0 if pump is None else pump.after_chunks

    def feed(self, data: bytes) -> None:
        self.traffic.received_bytes += len(data)
        if not self._is_upstream:
            data = self._tap.backward(data)
        self.enqueue(data)

    def feed_end(self) -> None:
        self.enqueue(None)

    def enqueue(self, data: bytes | None) -> None:
        if self._passage is not None:
            self.leave_pump()
        if self.slots:
            self._drop_removed()
        if data and not self.slots and not self._pending and not self._is_pushing:
            self._deliver(data)
            if not self._destination.is_writable:
                self._pause_source()
            elif self._pump is not None:
                self._chunks_until_pump -= 1
                if self._chunks_until_pump <= 0:
                    self._enter_pump(self._pump)
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

    def leave_pump(self) -> None:
        """From now on the transports move the bytes again, and what is read goes through `feed`."""
        if self._pump is not None and self._passage is not None:
            self._pump.remove(self._passage)
            self._passage = None
            self._chunks_until_pump = self._pump.after_chunks
            self._source.set_reading(not self._is_source_stalled)

    def stall_source(self, is_stalled: bool) -> None:
        """While it is stalled, the source is not read, whether or not there is space for what it sends."""
        self._is_source_stalled = is_stalled
        self._source.set_reading(not (is_stalled or self._is_source_paused))

    def add_toxic(self, toxic: Toxic) -> None:
        self.leave_pump()
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
        self.leave_pump()
        self._pump = None
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

    def _enter_pump(self, pump: Pump) -> None:
        source, destination = self._source.descriptor(to_write=False), self._destination.descriptor(to_write=True)
        if source is None or destination is None or self.slots or not self._tap.passes_unread():
            return
        passage = Passage(
            source=source,
            destination=destination,
            traffic=self.traffic,
            frames=self._tap.frames(is_upstream=self._is_upstream),
            give_back=self._given_back,
        )
        try:
            pump.add(passage)
        except OSError:  # the kernel watches no more sockets for this user (fs.epoll.max_user_watches)
            self._pump = None
            return
        self._passage = passage
        self._source.set_reading(False)

    def _given_back(self, why: Why, left: bytes) -> None:
        """The pump could not do all. The transport reads on, and finds the end or the error itself."""
        if self._passage is None:
            return  # the connection ended in the same turn of the pump
        self.leave_pump()
        if why is Why.BROKEN:  # the error was read already, and a socket tells it only once
            self._source.abort(with_reset=False)
        elif why is Why.ENDING:
            self._pump = None
        elif left:
            self.traffic.sent_bytes += len(left)
            self._destination.write(left)
            if not self._destination.is_writable:
                self._pause_source()

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
            self._source.set_reading(not self._is_source_stalled)


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
        pump: Pump | None = None,
    ) -> None:
        self.rng = rng
        self._client = client
        self._server = server
        self._on_end = on_end
        self.is_ended = False
        self._is_drained = False
        self.tap = KafkaTap(kafka, number, self, rng)
        self.upstream = Direction(self, UPSTREAM, client, server, pump)
        self.downstream = Direction(self, DOWNSTREAM, server, client, pump)
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

    def read_client(self, is_reading: bool) -> None:
        self.upstream.stall_source(not is_reading)

    def read_broker(self, is_reading: bool) -> None:
        self.downstream.stall_source(not is_reading)

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

    def leave_pump(self) -> None:
        self.upstream.leave_pump()
        self.downstream.leave_pump()

    def endpoint_lost(self, endpoint: Endpoint) -> None:
        self.leave_pump()  # the number of the lost socket will be another's
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

"""The simulated network: TCP connections between hosts, with delays, broken connections, and links cut one way.

As with TCP, a connection delivers bytes in order, in pieces of any size, or breaks. Bytes on a cut link wait, as if
they were sent again and again. They arrive when the link heals, unless the connection has ended before. A host without
power answers nothing. Connections of a killed process are reset.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from broker.sim.loop import SimLoop
from broker.sim.scheduler import Scheduler

SPLIT_SHARE = 0.05  # share of the writes that arrive in two pieces
PAUSED_BYTES_MAX = 1 << 24  # may wait for a receiver that does not read; no sender here exceeds it


class Process(Protocol):
    """The process to which the endpoint belongs: a loop or a client."""

    host: str

    @property
    def is_dead(self) -> bool: ...
    def run_callback(self, run: Callable[[], object]) -> None: ...


class Endpoint(Protocol):
    """One end of a connection, as the network uses it."""

    process: Process
    stream: Stream | None

    def connected(self) -> None: ...
    def refused(self, error: OSError) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def end_received(self, error: OSError | None) -> None: ...


class Stream:
    """One direction of a connection: what `source` writes comes to `target`."""

    __slots__ = ("is_over", "last_arrival_us", "lost_from_us", "name", "reverse", "source", "stalled", "target")

    def __init__(self, name: str, source: Endpoint, target: Endpoint) -> None:
        self.name, self.source, self.target = name, source, target
        self.last_arrival_us = 0
        self.lost_from_us: float = math.inf  # bytes that were written from this time on never left the host
        self.is_over = False  # an end or a reset is on its way, or has arrived
        self.stalled: list[Callable[[], None]] | None = None  # what a slow proxy on the way still holds
        self.reverse: Stream = self


@dataclass(slots=True, kw_only=True)
class Link:
    """The link from one host to another. Delays are in microseconds."""

    is_cut: bool = False
    delay_min_us: int = 50
    delay_max_us: int = 1_500
    held: list[Callable[[], None]] = field(default_factory=list)  # deliveries that wait for the link to heal


class Network:
    def __init__(self, *, scheduler: Scheduler, rng: random.Random) -> None:
        self._scheduler, self._rng = scheduler, rng
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[int, tuple[SimLoop, Callable[[], asyncio.BaseProtocol]]] = {}
        self._port_hosts: dict[int, str] = {}  # also of hosts that are down
        self._streams: dict[Stream, None] = {}
        self.dead_hosts: set[str] = set()  # these have no power and answer nothing

    def own_port(self, port: int, host: str) -> None:
        self._port_hosts[port] = host

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link())

    # -- faults ------------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        self.link(source, target).is_cut = True

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.is_cut = False
        held, link.held = link.held, []
        for deliver in held:
            deliver()

    def heal_all(self) -> None:
        for source, target in list(self._links):
            self.heal(source, target)
            self._links[(source, target)] = Link(held=self._links[(source, target)].held)

    def break_connections(self, one: str, other: str) -> int:
        """Reset every connection between two hosts. Data on the way is lost. Returns how many there were."""
        broken = 0
        for stream in list(self._streams):
            hosts = {stream.source.process.host, stream.target.process.host}
            if hosts == {one, other} and not stream.is_over:
                self._lose(stream, OSError("connection reset by the network"))
                broken += 1
        return broken

    def stall(self, source: str, target: str, duration_us: int) -> int:
        """Hold the data of the present connections from one host to the other, as a proxy with a full buffer does.

        New connections are not held. Held bytes arrive in the end, even if their sender has ended. So a request of an
        earlier life or epoch arrives after those of later ones. Returns how many connections are held.
        """
        held = 0
        for stream in list(self._streams):
            hosts = (stream.source.process.host, stream.target.process.host)
            if hosts == (source, target) and not stream.is_over and stream.stalled is None:
                stream.stalled = []
                self._scheduler.after(duration_us, lambda stream=stream: self._release(stream))  # type: ignore[misc]
                held += 1
        return held

    def release(self, source: str, target: str) -> None:
        """Deliver now what `stall` holds."""
        for stream in list(self._streams):
            if (stream.source.process.host, stream.target.process.host) == (source, target):
                self._release(stream)

    def _release(self, stream: Stream) -> None:
        waiting, stream.stalled = stream.stalled or [], None
        for set_off in waiting:
            set_off()

    def process_died(self, process: Process, *, with_power: bool) -> None:
        """A process has died, so its ports are free. Peers get a reset if the host's kernel still runs. What the
        process wrote in the event in which it died is lost, because the checkers read only between events and never saw
        the state behind those bytes."""
        for port, (loop, _) in list(self._listeners.items()):
            if loop is process:
                del self._listeners[port]
        for stream in list(self._streams):
            if stream.source.process is not process:
                continue
            stream.lost_from_us = self._scheduler.now_us
            # Without power a peer's next bytes are lost. When the host is back, it answers them with a reset.
            if with_power:
                self.end(stream, OSError("connection reset by peer"))

    def _lose(self, stream: Stream, error: OSError) -> None:
        for each in (stream, stream.reverse):
            each.is_over = True
            self._streams.pop(each, None)
            target = each.target
            target.process.run_callback(lambda target=target: target.end_received(error))  # type: ignore[misc]

    # -- listening and connecting ------------------------------------------------------------------------------------

    def listen(self, loop: SimLoop, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        if port in self._listeners:
            raise OSError(f"port {port} is in use")
        self._listeners[port] = (loop, factory)

    def stop_listening(self, port: int) -> None:
        self._listeners.pop(port, None)

    async def connect(
        self, loop: SimLoop, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport = SimTransport(self, loop, factory())
        transport.waiter = loop.create_future()
        self.dial(transport, port)
        try:
            await transport.waiter
        except asyncio.CancelledError:
            transport.abort()
            raise
        return transport, transport.protocol

    def dial(self, endpoint: Endpoint, port: int) -> None:
        """Open a connection. `connected` or `refused` is called later, or neither if a link is cut."""
        here, there = endpoint.process.host, self._port_hosts[port]

        def arrive() -> None:
            if there in self.dead_hosts:
                return
            listener = self._listeners.get(port)
            if listener is None:
                self._carry(there, here, self._run_in(endpoint, lambda: endpoint.refused(ConnectionRefusedError())))
                return
            loop, make = listener
            loop.run_callback(lambda: self._accept(endpoint, loop, make, port))

        self._carry(here, there, arrive)

    def _accept(self, client: Endpoint, loop: SimLoop, make: Callable[[], asyncio.BaseProtocol], port: int) -> None:
        server = SimTransport(self, loop, make())
        name = f"{client.process.host}-{loop.host}:{port}"
        out, back = Stream(name, client, server), Stream(f"{name}-back", server, client)
        out.reverse, back.reverse = back, out
        server.stream = back
        self._streams[out] = self._streams[back] = None

        def established() -> None:
            if back in self._streams:  # otherwise the connection has ended already; an end on its way arrives later
                client.stream = out
                client.connected()

        self._transfer(back, self._run_in(client, established))
        server.connected()

    # -- carrying ----------------------------------------------------------------------------------------------------

    def _delay_us(self, link: Link) -> int:
        return self._rng.randint(link.delay_min_us, link.delay_max_us)

    def _carry(self, here: str, there: str, arrive: Callable[[], None]) -> None:
        link = self.link(here, there)

        def set_off() -> None:
            self._scheduler.after(self._delay_us(link), arrive)

        if link.is_cut:
            link.held.append(set_off)
        else:
            set_off()

    def _run_in(self, endpoint: Endpoint, run: Callable[[], None]) -> Callable[[], None]:
        return lambda: endpoint.process.run_callback(run)

    def _transfer(self, stream: Stream, arrive: Callable[[], None]) -> None:
        """Deliver in order, never before bytes that were sent earlier."""
        link = self.link(stream.source.process.host, stream.target.process.host)

        def set_off() -> None:
            when_us = max(self._scheduler.now_us + self._delay_us(link), stream.last_arrival_us + 1)
            stream.last_arrival_us = when_us
            self._scheduler.at(when_us, arrive)

        if stream.stalled is not None:
            stream.stalled.append(set_off)
        elif link.is_cut or link.held:
            link.held.append(set_off)
        else:
            set_off()

    def send(self, stream: Stream, data: bytes) -> None:
        if stream.is_over:
            return
        self._scheduler.note(stream.name, data)
        pieces = [data]
        if len(data) > 1 and self._rng.random() < SPLIT_SHARE:
            middle = self._rng.randrange(1, len(data))
            pieces = [data[:middle], data[middle:]]
        sent_us = self._scheduler.now_us
        for piece in pieces:
            self._transfer(stream, lambda piece=piece: self._arrived(stream, piece, sent_us))  # type: ignore[misc]

    def _arrived(self, stream: Stream, data: bytes, sent_us: int) -> None:
        target = stream.target
        if stream not in self._streams or sent_us >= stream.lost_from_us:
            return
        if target.process.is_dead:
            # After a restart the host does not know the connection, so it answers with a reset.
            if target.process.host not in self.dead_hosts and not stream.reverse.is_over:
                self.end(stream.reverse, OSError("connection reset by peer"))
            return
        target.process.run_callback(lambda: target.data_received(data))

    def end(self, stream: Stream, error: OSError | None) -> None:
        """The source closes the connection (None) or resets it. The target notices this after everything that was sent
        before."""
        if stream.is_over:
            return
        stream.is_over = True

        def arrive() -> None:
            self._streams.pop(stream, None)
            stream.target.process.run_callback(lambda: stream.target.end_received(error))

        self._transfer(stream, arrive)


class SimTransport(asyncio.Transport):
    """The end of a connection in a loop, between the network and an asyncio protocol."""

    def __init__(self, network: Network, loop: SimLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self.process: Process = loop
        self.stream: Stream | None = None
        self.protocol: Any = protocol  # Any: a BufferedProtocol, whose callbacks asyncio does not type on the base
        self.waiter: asyncio.Future[None] | None = None
        self._network, self._loop = network, loop
        self._is_closed = False
        self._is_paused = False
        self._unread: list[bytes] = []
        self._end: tuple[OSError | None] | None = None

    # -- from the network --------------------------------------------------------------------------------------------

    def connected(self) -> None:
        if self._is_closed:
            if self.stream is not None:
                self._network.end(self.stream, OSError("connection reset by peer"))
            return
        self.protocol.connection_made(self)
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def refused(self, error: OSError) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_exception(error)

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._unread.append(data)
        self._feed()

    def end_received(self, error: OSError | None) -> None:
        self._end = (error,)
        if error is not None:
            self._unread.clear()
        self._feed()

    def _feed(self) -> None:
        while self._unread and not self._is_paused and not self._is_closed:
            data = self._unread.pop(0)
            room = self.protocol.get_buffer(-1)
            count = min(len(room), len(data))
            room[:count] = data[:count]
            if count < len(data):
                self._unread.insert(0, data[count:])
            self.protocol.buffer_updated(count)
        assert sum(map(len, self._unread)) <= PAUSED_BYTES_MAX, "a sender ignores that nobody reads"
        if self._end is not None and not self._unread and not self._is_closed:
            self._finish(self._end[0], is_reset=True)

    # -- asyncio.Transport -------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines([data])

    def writelines(self, list_of_data: Any) -> None:
        if not self._is_closed and self.stream is not None:
            self._network.send(self.stream, b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._unread or self._end is not None:
            self._loop.call_soon(self._feed)

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._finish(None, is_reset=False)

    def abort(self) -> None:
        self._finish(None, is_reset=True)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return  # there is no limit, because a run sends little

    def get_write_buffer_size(self) -> int:
        return 0  # written data has left at once

    def _finish(self, error: OSError | None, *, is_reset: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self.stream is not None:
            self._network.end(self.stream, OSError("connection reset by peer") if is_reset else None)
            self._loop.call_soon(self.protocol.connection_lost, error)

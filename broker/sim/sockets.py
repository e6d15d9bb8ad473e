"""Sockets and poll of a simulated client process. They replace those of broker.client.native.

`Machine` is the process. It has a clock, its sockets, and one thread. The thread runs a step whenever a socket becomes
ready or the time of its poll is over. The client's own Network and Connection use it unchanged.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

from broker.client import native
from broker.sim.loop import SimLoop
from broker.sim.network import Network, Process, Stream
from broker.sim.scheduler import Event, Scheduler

_FIRST_DESCRIPTOR = 10_000


class Machine:
    """One client process. `step` runs at each `wake`, and when the time of a `look_after` has come."""

    def __init__(self, *, scheduler: Scheduler, network: Network, loop: SimLoop, step: Callable[[], None]) -> None:
        self.scheduler, self.network, self.loop, self._step = scheduler, network, loop, step
        self.poll_wait_ms: float | None = None
        self.sockets: dict[int, SimSocket] = {}
        self._next_descriptor = _FIRST_DESCRIPTOR
        self._due: Event | None = None
        self._due_us = 0

    def new_descriptor(self) -> int:
        self._next_descriptor += 1
        return self._next_descriptor

    def wake(self) -> None:
        self._look_at(self.scheduler.now_us)

    def look_after(self, delay_ms: float) -> None:
        self._look_at(self.scheduler.now_us + int(delay_ms * 1000) + 1)

    def _look_at(self, when_us: int) -> None:
        if self._due is not None:
            if self._due_us <= when_us:
                return
            self._due.cancel()
        self._due_us = when_us
        self._due = self.scheduler.at(when_us, self._run)

    def _run(self) -> None:
        self._due = None
        self.loop.run_callback(self._step)

    @contextlib.contextmanager
    def as_native(self) -> Iterator[None]:
        """Within this context, the client's code gets simulated sockets of this machine."""
        saved = {name: getattr(native, name) for name in ("new_poll", "new_socket", "socket_pair", "resolve")}
        native.new_poll = lambda: SimPoll(self)
        native.new_socket = lambda family: SimSocket(self)  # type: ignore[assignment,return-value]  # only what Connection calls
        native.socket_pair = lambda: (SimSocket(self), _WakeSocket(self))  # type: ignore[assignment,return-value]
        native.resolve = lambda host, port: [(socket.AF_INET, (host, port))]
        try:
            yield
        finally:
            for name, value in saved.items():
                setattr(native, name, value)


class SimSocket:
    """A non-blocking TCP socket."""

    def __init__(self, machine: Machine) -> None:
        self.process: Process = machine.loop
        self.stream: Stream | None = None
        self._machine = machine
        self._descriptor = machine.new_descriptor()
        self._received = bytearray()
        self._error: OSError | None = None
        self._is_connecting = False
        self._is_closed = False
        self._has_ended = False
        machine.sockets[self._descriptor] = self

    # -- from the network --------------------------------------------------------------------------------------------

    def connected(self) -> None:
        if self._is_closed:
            if self.stream is not None:
                self._machine.network.end(self.stream, OSError("connection reset by peer"))
            return
        self._is_connecting = False
        self._machine.wake()

    def refused(self, error: OSError) -> None:
        self._is_connecting = False
        self._error = error
        self._machine.wake()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._machine.wake()

    def end_received(self, error: OSError | None) -> None:
        self._has_ended = True
        if error is not None:
            self._error, self._received = error, bytearray()
        self._machine.wake()

    # -- as the client's connection uses it --------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._descriptor

    def setblocking(self, flag: bool) -> None:
        return

    def setsockopt(self, *option: Any) -> None:
        return

    def connect(self, address: tuple[str, int]) -> None:
        self._is_connecting = True
        self._machine.network.dial(self, address[1])
        raise BlockingIOError

    def getsockopt(self, level: int, option: int) -> int:
        return 111 if self._error is not None else 0

    def sendmsg(self, buffers: list[memoryview]) -> int:
        if self._error is not None:
            raise self._error
        if self.stream is None:
            raise BlockingIOError
        data = b"".join(buffers)
        self._machine.network.send(self.stream, data)
        return len(data)

    def recv_into(self, view: memoryview) -> int:
        if not self._received:
            if self._error is not None:
                raise self._error
            if self._has_ended:
                return 0
            raise BlockingIOError
        count = min(len(view), len(self._received))
        view[:count] = self._received[:count]
        del self._received[:count]
        return count

    def recv(self, size: int) -> bytes:
        raise BlockingIOError

    def close(self) -> None:
        self._is_closed = True
        self._machine.sockets.pop(self._descriptor, None)
        if self.stream is not None:
            self._machine.network.end(self.stream, OSError("connection reset by peer"))

    def ready_mask(self, wanted: int) -> int:
        mask = 0
        if wanted & select.POLLIN and (self._received or self._has_ended):
            mask |= select.POLLIN
        if wanted & select.POLLOUT and self.stream is not None and not self._is_connecting:
            mask |= select.POLLOUT
        return mask | (select.POLLERR if self._error is not None else 0)


class _WakeSocket(SimSocket):
    """The sending end of the wake-up pair. A write makes the machine run its step at once."""

    def send(self, data: bytes) -> int:
        self._machine.wake()
        return len(data)


class SimPoll:
    """A poll that never blocks. It tells the machine how long its caller would have slept."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._wanted: dict[int, int] = {}

    def register(self, descriptor: int, mask: int) -> None:
        self._wanted[descriptor] = mask

    def modify(self, descriptor: int, mask: int) -> None:
        self._wanted[descriptor] = mask

    def unregister(self, descriptor: int) -> None:
        del self._wanted[descriptor]

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        ready = []
        for descriptor, wanted in self._wanted.items():
            found = self._machine.sockets.get(descriptor)
            mask = 0 if found is None else found.ready_mask(wanted)
            if mask:
                ready.append((descriptor, mask))
        self._machine.poll_wait_ms = 0 if ready else timeout_ms
        return ready

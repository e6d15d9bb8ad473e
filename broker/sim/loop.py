"""An asyncio event loop for one life of one simulated process, driven by the scheduler.

It offers what broker.node uses: callbacks, timers, tasks, futures, connections and servers. Its clock runs at its own
rate, as the clocks of hosts do. When the process is killed, the loop is dead and runs nothing any more. If the process
is paused (SIGSTOP), callbacks that become due run after the pause. If it is busy, they wait too: `spend_us` within a
callback moves the clock, and whatever arrives before that time waits, in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol

from broker.sim.scheduler import Event, Scheduler

# asyncio types these with Any: callbacks and their arguments may be anything.

_current: list[SimLoop] = []  # the last one is the loop whose callback runs now; clocks are read from it


class Wires(Protocol):
    """The part of the network (network.py) that a loop uses."""

    async def connect(
        self, loop: SimLoop, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]: ...
    def listen(self, loop: SimLoop, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> None: ...
    def stop_listening(self, port: int) -> None: ...


class SimHandle:
    """A callback of a loop. It has the methods of a TimerHandle that are used."""

    __slots__ = ("_args", "_callback", "_context", "_event", "_is_cancelled", "_loop", "_when_s")

    def __init__(
        self,
        loop: SimLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
        when_s: float,
    ) -> None:
        self._loop, self._callback, self._args = loop, callback, args
        self._context = context if context is not None else contextvars.copy_context()
        self._when_s = when_s
        self._event: Event | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        self._is_cancelled = True  # also stops a callback that is due and waits for a busy loop
        if self._event is not None:
            self._event.cancel()

    def cancelled(self) -> bool:
        return self._is_cancelled

    def when(self) -> float:
        return self._when_s

    def run(self) -> None:
        self._loop.run_callback(self._run)

    def _run(self) -> None:
        if not self._is_cancelled:
            self._context.run(self._callback, *self._args)


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(
        self,
        *,
        scheduler: Scheduler,
        network: Wires,
        host: str,
        clock_offset_us: int = 0,
        clock_rate: float = 1.0,
        on_event: Callable[[SimLoop], None] = lambda loop: None,
    ) -> None:
        self.host = host
        self.is_dead = False
        self._paused_until_us = 0  # SIGSTOP
        self.held_us = 0  # the longest time that one callback has kept this loop busy
        self.waited_us = 0  # the longest time that a callback has waited for others of this loop
        self._busy_until_us = 0
        self._waiting: deque[tuple[int, Callable[[], object]]] = deque()  # (due since, callback)
        self._is_drain_due = False
        self.failure: BaseException | None = None  # an exception that nobody caught
        self._scheduler, self._network = scheduler, network
        self._offset_us, self._rate = clock_offset_us, clock_rate
        self._on_event = on_event
        self._tasks: list[asyncio.Task[Any]] = []

    # -- the clock ---------------------------------------------------------------------------------------------------

    def time_ns(self) -> int:
        return int((self._offset_us + self._scheduler.now_us * self._rate) * 1000)

    def time(self) -> float:
        return self.time_ns() / 1e9

    # -- running -----------------------------------------------------------------------------------------------------

    def run_callback(self, run: Callable[[], object]) -> None:
        """Run the callback as one event of this process. It waits while the process is paused or busy. If the process
        is dead, nothing happens."""
        if self.is_dead:
            return
        now_us = self._scheduler.now_us
        if self._waiting or now_us < self._busy_until_us or now_us < self._paused_until_us:
            self._waiting.append((now_us, run))
            self._drain_later()
            return
        self._run_now(run)

    def _run_now(self, run: Callable[[], object]) -> None:
        scheduler = self._scheduler
        began_us = scheduler.now_us
        _current.append(self)
        asyncio._set_running_loop(self)
        try:
            run()
        except Exception as error:  # nothing else catches it, as in a real loop; here it ends the run
            self.failure = self.failure or error
        finally:
            asyncio._set_running_loop(None)
            _current.pop()
            if scheduler.now_us != began_us:
                self._busy_until_us = scheduler.now_us
                self.held_us = max(self.held_us, scheduler.now_us - began_us)
                scheduler.now_us = began_us
        self._on_event(self)

    def pause(self, duration_us: int) -> None:
        """Pause the process, like SIGSTOP. If it is paused already, the later end counts."""
        self._paused_until_us = max(self._paused_until_us, self._scheduler.now_us + duration_us)

    def resume(self) -> None:
        """End the pause. Callbacks that waited for this run now."""
        self._paused_until_us = min(self._paused_until_us, self._scheduler.now_us)
        self._is_drain_due = False
        if self._waiting:
            self._drain_later()

    def _drain_later(self) -> None:
        if not self._is_drain_due:
            self._is_drain_due = True
            self._scheduler.at(max(self._busy_until_us, self._paused_until_us), self._drain)

    def _drain(self) -> None:
        """Run the callbacks that waited, in order, until the loop is busy again."""
        self._is_drain_due = False
        while self._waiting and not self.is_dead:
            now_us = self._scheduler.now_us
            if now_us < self._busy_until_us or now_us < self._paused_until_us:
                self._drain_later()
                return
            due_us, run = self._waiting.popleft()
            self.waited_us = max(self.waited_us, now_us - max(due_us, self._paused_until_us))
            self._run_now(run)

    @contextlib.contextmanager
    def off_loop(self) -> Iterator[list[int]]:
        """Time that is spent in this context is that of another thread, so this loop is not busy. Yields a list. After
        the context it holds this time."""
        began_us, spent = self._scheduler.now_us, list[int]()
        try:
            yield spent
        finally:
            spent.append(self._scheduler.now_us - began_us)
            self._scheduler.now_us = began_us

    def kill(self) -> None:
        """From now on nothing of this process runs. Unfinished coroutines are kept until `dispose`."""
        self.is_dead = True

    def dispose(self) -> None:
        """After the run: end the coroutines of a dead process silently."""
        self.is_dead = True
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # there is no public setting for it
                coroutine = task.get_coro()
                if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()  # it never began, so this runs no code of it
        self._tasks.clear()

    def call_soon(  # type: ignore[override]  # a handle of our own
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        return self._schedule(0, callback, args, context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        # Rounded up, because a timer that fired too early by this clock would only be set again.
        delay_us = int(max(0.0, delay) * 1e6 / self._rate) + 1
        return self._schedule(delay_us, callback, args, context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _schedule(
        self,
        delay_us: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> SimHandle:
        handle = SimHandle(self, callback, args, context, self.time() + delay_us / 1e6)
        handle._event = self._scheduler.after(delay_us, handle.run)
        return handle

    # -- tasks and futures -------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name)
        self._tasks.append(task)
        if len(self._tasks) > 500:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not self.is_dead:
            self.failure = self.failure or error

    # -- network -----------------------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._network.connect(self, protocol_factory, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> SimServer:
        server = SimServer(port, lambda: self._network.listen(self, port, protocol_factory), self._network)
        if start_serving:
            await server.start_serving()
        return server


class SimServer:
    def __init__(self, port: int, listen: Callable[[], None], network: Wires) -> None:
        self._port, self._listen, self._network = port, listen, network

    async def start_serving(self) -> None:
        self._listen()

    def close(self) -> None:
        self._network.stop_listening(self._port)

    async def wait_closed(self) -> None:
        return


def read_ns() -> int:
    """The monotonic clock of the process whose callback runs now."""
    return _current[-1].time_ns()


WALL_OFFSET_NS = 1_700_000_000 * 10**9  # a date in 2023; any other would do


def read_wall_ns() -> int:
    loop = _current[-1]
    return WALL_OFFSET_NS + loop.time_ns() + loop._scheduler.wall_ahead_us * 1000


def spend_us(duration_us: int) -> None:
    """The process whose callback runs now works for this long. Outside of a callback this does nothing, because then
    the checkers read."""
    if _current:
        _current[-1]._scheduler.now_us += duration_us

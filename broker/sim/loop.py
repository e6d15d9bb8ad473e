"""An asyncio event loop for one life of one simulated process, driven by the scheduler.

It offers what broker.node uses: callbacks, timers, tasks, futures, connections and servers. Its clock runs at its own
rate, as the clocks of hosts do. When the process is killed the loop is dead: nothing of it runs any more. A paused
process (SIGSTOP) runs later what came due meanwhile.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.sim.scheduler import Event, Scheduler

if TYPE_CHECKING:
    from broker.sim.network import Network

# What asyncio asks of a loop is typed there with Any: callbacks and their arguments are anybody's.

_current: list[SimLoop] = []  # the loop whose callback runs now: its clock is the one to read


class SimHandle:
    """A callback of a loop. A TimerHandle as far as anybody uses it."""

    __slots__ = ("_args", "_callback", "_context", "_event", "_loop", "_when_s")

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

    def cancel(self) -> None:
        if self._event is not None:
            self._event.cancel()

    def cancelled(self) -> bool:
        return self._event is not None and self._event.is_cancelled

    def when(self) -> float:
        return self._when_s

    def run(self) -> None:
        self._loop.run_callback(lambda: self._context.run(self._callback, *self._args))


class SimLoop(asyncio.AbstractEventLoop):
    def __init__(
        self,
        *,
        scheduler: Scheduler,
        network: Network,
        host: str,
        clock_offset_us: int = 0,
        clock_rate: float = 1.0,
        on_event: Callable[[SimLoop], None] = lambda loop: None,
    ) -> None:
        self.host = host
        self.is_dead = False
        self.paused_until_us = 0
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
        """As one event of this process. Does nothing once it is dead; waits while it is paused."""
        if self.is_dead:
            return
        if self._scheduler.now_us < self.paused_until_us:
            self._scheduler.at(self.paused_until_us, lambda: self.run_callback(run))
            return
        _current.append(self)
        asyncio._set_running_loop(self)
        try:
            run()
        except Exception as error:  # as a real loop: nobody else catches it; here it ends the run
            self.failure = self.failure or error
        finally:
            asyncio._set_running_loop(None)
            _current.pop()
        self._on_event(self)

    def kill(self) -> None:
        """Nothing of this process happens any more. Unfinished coroutines are kept until `dispose`."""
        self.is_dead = True

    def dispose(self) -> None:
        """After the run: end the coroutines of a dead process without a word."""
        self.is_dead = True
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # there is no public way to say so
                coroutine = task.get_coro()
                if inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                    coroutine.close()  # it never began: nothing of it runs
        self._tasks.clear()

    def call_soon(  # type: ignore[override]  # a handle of our own
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        return self._schedule(0, callback, args, context)

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there is one thread

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> SimHandle:
        # Rounded up: a timer that fires before its time by this clock would only be set again.
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
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> SimServer:
        self._network.listen(self, port, protocol_factory)
        return SimServer(self._network, port)


class SimServer:
    def __init__(self, network: Network, port: int) -> None:
        self._network, self._port = network, port

    def close(self) -> None:
        self._network.stop_listening(self._port)

    async def wait_closed(self) -> None:
        return


def read_ns() -> int:
    """The monotonic clock of the process whose callback runs now."""
    return _current[-1].time_ns()


WALL_OFFSET_NS = 1_700_000_000 * 10**9  # a date in 2023: any will do


def read_wall_ns() -> int:
    return WALL_OFFSET_NS + _current[-1].time_ns()

"""A simulated client process with threads: calls of the reference client that block wait in virtual time.

Each thread is a greenlet. When the client polls sockets, waits for an event or takes a lock, control returns to this
module. The thread continues once its sockets are ready, its event is set, or its time is over. So the client runs
unchanged: `Producer` and `Consumer` with their own threads, not only their cores. One thread runs at a time and stops
only where it waits. The seed decides the order. Shown by tests/broker_sim/test_sim_threads.py.
"""

from __future__ import annotations

import contextlib
import logging
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet

from broker.client import native, producer
from broker.mutants import Patch
from broker.sim.loop import SimLoop, read_ns, read_wall_ns
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.sockets import Machine, SimPoll, SimSocket

# A poll that does not want to wait takes this long. Otherwise a loop of them would never let time pass.
LEAST_WAIT_MS = 0.05
TURNS_MAX = 10_000  # turns of all threads in one event, and polls in a row that do not wait; more is an endless loop


class _Waiting:
    __slots__ = ("due_us", "is_ready")

    def __init__(self, is_ready: Callable[[], bool], due_us: int | None) -> None:
        self.is_ready, self.due_us = is_ready, due_us


class Threads:
    """The threads of one process, on its machine. `dispose` ends them. The threads of a killed process just stop."""

    def __init__(self, *, scheduler: Scheduler, network: Network, loop: SimLoop) -> None:
        self._scheduler, self._loop = scheduler, loop
        self.machine = Machine(scheduler=scheduler, network=network, loop=loop, step=self._step)
        self._waiting: dict[greenlet, _Waiting] = {}  # in the order of their start
        self._hub: greenlet | None = None
        self._is_over = False
        self.failure: BaseException | None = None

    def start(self, run: Callable[[], None]) -> native.Event:
        """Like native.start_thread. The thread begins in the machine's next step."""
        ended = native.Event()

        def guarded() -> None:
            try:
                run()
            except GreenletExit:
                raise
            except BaseException as error:  # nobody joins the thread, so the failure is kept for the run
                self.failure = self.failure or error
            finally:
                ended.set()

        thread = greenlet(guarded)
        self._waiting[thread] = _Waiting(lambda: True, None)
        self.machine.wake()
        return ended

    def begin(self, run: Callable[[], None]) -> None:
        """Start the first thread of the process."""
        self._loop.run_callback(lambda: self._begin(run))

    def _begin(self, run: Callable[[], None]) -> None:
        with self._as_native():
            self.start(run)

    def wait(self, is_ready: Callable[[], bool], timeout_ms: float | None) -> bool:
        """Let the present thread wait. False: the time was over first."""
        due_us = None if timeout_ms is None else self._scheduler.now_us + int(timeout_ms * 1000) + 1
        if self._is_over:
            raise GreenletExit
        hub = self._hub
        assert hub is not None, "only a thread of this process can wait"
        self._waiting[getcurrent()] = _Waiting(is_ready, due_us)
        hub.switch()
        return is_ready()

    def _step(self) -> None:
        """Run every thread that can continue, until none can."""
        self._hub = getcurrent()
        with self._as_native():
            for _ in range(TURNS_MAX):
                thread = self._next()
                if thread is None:
                    break
                del self._waiting[thread]
                thread.parent = self._hub
                thread.switch()
            else:
                raise RuntimeError("the threads of a client never wait")
        self._hub = None
        due = [each.due_us for each in self._waiting.values() if each.due_us is not None]
        if due:
            self.machine.look_after(max(0, min(due) - self._scheduler.now_us) / 1000)

    def _next(self) -> greenlet | None:
        now_us = self._scheduler.now_us
        for thread, waiting in self._waiting.items():
            if (waiting.due_us is not None and waiting.due_us <= now_us) or waiting.is_ready():
                return thread
        return None

    def dispose(self) -> None:
        """After the run: end the threads silently."""
        self._loop.dispose()
        self._is_over = True
        logging.disable(logging.CRITICAL)
        try:
            with self._as_native():
                for thread in list(self._waiting):
                    self._hub = getcurrent()
                    thread.parent = self._hub
                    with contextlib.suppress(BaseException):  # whatever it raises, because the run is over
                        thread.throw(GreenletExit)
        finally:
            logging.disable(logging.NOTSET)
            self._waiting.clear()

    @contextlib.contextmanager
    def _as_native(self) -> Iterator[None]:
        """Within this context, everything that the client gets from the operating system is simulated."""
        patch = Patch()
        machine = self.machine
        patch.set(native, "new_poll", lambda: _Poll(self))
        patch.set(native, "new_socket", lambda family: SimSocket(machine))
        patch.set(native, "socket_pair", lambda: _wake_pair(machine))
        patch.set(native, "resolve", lambda host, port: [(socket.AF_INET, (host, port))])
        patch.set(native, "new_lock", lambda: _Lock(self))
        patch.set(native, "thread_id", lambda: id(getcurrent()))
        patch.set(native, "start_thread", self.start)
        patch.set(producer, "monotonic", lambda: read_ns() / 1e9)
        patch.set(producer, "time", lambda: read_wall_ns() / 1e9)
        try:
            yield
        finally:
            patch.undo()


class _Lock:
    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._is_locked = False
        self._waiters = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_locked and (not blocking or not self._wait(timeout)):
            return False
        self._is_locked = True
        return True

    def _wait(self, timeout_s: float) -> bool:
        timeout_ms = None if timeout_s < 0 else timeout_s * 1000
        self._waiters += 1
        try:
            return self._threads.wait(lambda: not self._is_locked, timeout_ms)
        finally:
            self._waiters -= 1

    def release(self) -> None:
        self._is_locked = False
        if self._waiters:
            self._threads.machine.wake()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *details: object) -> None:
        self.release()


class _Poll(SimPoll):
    def __init__(self, threads: Threads) -> None:
        super().__init__(threads.machine)
        self._threads = threads
        self._unwaited = 0

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        ready = super().poll(0)
        if ready:
            self._unwaited += 1
            if self._unwaited > TURNS_MAX:
                raise RuntimeError(f"a thread of a client polls what it never serves: {ready}")
            return ready
        self._unwaited = 0
        wait_ms = None if timeout_ms is None or timeout_ms < 0 else max(timeout_ms, LEAST_WAIT_MS)
        self._threads.wait(self._is_ready, wait_ms)
        return super().poll(0)

    def _is_ready(self) -> bool:
        return bool(super().poll(0))


class _Receiver(SimSocket):
    """The receiving end of a wake-up pair."""

    is_woken = False

    def recv(self, size: int) -> bytes:
        if not self.is_woken:
            raise BlockingIOError
        self.is_woken = False
        return b"\0"

    def ready_mask(self, wanted: int) -> int:
        return wanted & select.POLLIN if self.is_woken else 0


class _Sender(SimSocket):
    def __init__(self, machine: Machine, receiver: _Receiver) -> None:
        super().__init__(machine)
        self._receiver = receiver

    def send(self, data: bytes) -> int:
        self._receiver.is_woken = True
        self._machine.wake()
        return len(data)


def _wake_pair(machine: Machine) -> tuple[Any, Any]:
    """The two ends of a wake-up pair. Any: they are not real sockets, but have the methods that Network calls."""
    receiver = _Receiver(machine)
    return receiver, _Sender(machine, receiver)

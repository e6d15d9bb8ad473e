"""Ctrl-C and SIGTERM as a flag that every wait of a run checks. A second signal does not wait.

The first signal lets the run undo its faults, stop its processes and write down what it has. A third one ends the
process at once. The kernel then kills the children, and `harness clean` undoes the rest from the leases.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from harness.errors import ExitCode

_IMPATIENT_AFTER: Final = 3


class StopFlag:
    """Set once, never cleared."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.signals = 0

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Sleep, but not through a signal. True when the run is to stop."""
        # Event.wait in the main thread is interrupted by signal handlers and resumes: slices keep it responsive.
        deadline = time.monotonic() + timeout_s
        while not self._event.is_set():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._event.wait(min(left, 0.2))
        return True

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.signals += 1
        self._event.set()
        if self.signals == 1:
            _tell(b"\nstopping: faults are undone and processes ended (again twice to give up)\n")
        if self.signals >= _IMPATIENT_AFTER:
            os._exit(int(ExitCode.INTERRUPTED))


def _tell(line: bytes) -> None:
    """From a signal handler, which interrupts the main thread anywhere, also while it heals. So it must not raise: a
    Ctrl-C also ends the `tee` that read our stderr. And it must not wait for a terminal that was stopped."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # AttributeError: there is no stderr (`2>&-`)
        descriptor = sys.stderr.fileno()
        waiting = select.poll()
        waiting.register(descriptor, select.POLLOUT)
        if waiting.poll(0):
            os.write(descriptor, line)


class Patience:
    """Whether a last step of a run must break off: `limit_s` after the run was stopped, or at another signal."""

    def __init__(self, flag: StopFlag, limit_s: float) -> None:
        self._flag, self._limit_s = flag, limit_s
        self._stopped_s: float | None = None
        self._signals = 0

    def is_over(self) -> bool:
        if not self._flag.is_set():
            return False
        if self._stopped_s is None:
            self._stopped_s, self._signals = time.monotonic(), self._flag.signals
        return self._flag.signals > self._signals or time.monotonic() - self._stopped_s > self._limit_s


@contextmanager
def signals_set(flag: StopFlag) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP set the flag while inside."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, flag.on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

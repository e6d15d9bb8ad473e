"""The clocks of a broker: monotonic milliseconds for decisions, and the wall clock for timestamps that clients see.

Only this module of the node reads the clocks, so that the simulation can replace them by virtual ones. Timers are those
of the event loop.
"""

from __future__ import annotations

import asyncio
import mmap
import time
from collections.abc import Callable
from pathlib import Path

_read_ns: Callable[[], int] = time.monotonic_ns
_read_wall_ns: Callable[[], int] = time.time_ns


def monotonic_ms() -> int:
    return _read_ns() // 1_000_000


def monotonic_ns() -> int:
    return _read_ns()


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return _read_wall_ns() // 1_000_000


def use_clocks(read_ns: Callable[[], int], read_wall_ns: Callable[[], int]) -> None:
    """From now on the whole process reads these clocks."""
    global _read_ns, _read_wall_ns
    _read_ns, _read_wall_ns = read_ns, read_wall_ns


def set_wrong_by(control: Path) -> None:
    """From now on the wall clock is wrong by an offset, as on a host whose clock was stepped.

    The first int64 of the mapped file is the offset in nanoseconds. It is read each time the clock is read. The
    monotonic clock stays right, as on such a host. Raises OSError.
    """
    with control.open("rb") as file:
        offset_ns = memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)).cast("q")
    read_ns, read_wall_ns = clocks()
    use_clocks(read_ns, lambda: read_wall_ns() + offset_ns[0])


def clocks() -> tuple[Callable[[], int], Callable[[], int]]:
    """The clocks that are in use now. A caller keeps them to restore them later."""
    return _read_ns, _read_wall_ns


def call_later(delay_ms: int, call: Callable[[], None]) -> None:
    """Calls it from the running event loop after this time. If the loop ends before, it is not called."""
    asyncio.get_running_loop().call_later(delay_ms / 1000, call)

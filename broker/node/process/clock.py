"""The clocks of a broker: monotonic milliseconds for decisions, wall clock for what clients see as a timestamp.

The one place of the node that reads them, so that the simulation can put virtual ones in their place. Timers are the
event loop's.
"""

from __future__ import annotations

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
    """Read these from now on, in the whole process."""
    global _read_ns, _read_wall_ns
    _read_ns, _read_wall_ns = read_ns, read_wall_ns


def set_wrong_by(control: Path) -> None:
    """From now on the wall clock is wrong by an offset, as on a host whose clock was stepped.

    The first int64 of the mapped file is the offset in nanoseconds. It is read at each look at the clock. The monotonic
    clock stays right, as on such a host. Raises OSError.
    """
    with control.open("rb") as file:
        offset_ns = memoryview(mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)).cast("q")
    read_ns, read_wall_ns = clocks()
    use_clocks(read_ns, lambda: read_wall_ns() + offset_ns[0])


def clocks() -> tuple[Callable[[], int], Callable[[], int]]:
    """Those in use, to put them back."""
    return _read_ns, _read_wall_ns

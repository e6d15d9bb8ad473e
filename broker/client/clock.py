"""The clock of the client's decisions: monotonic milliseconds. Only record timestamps come from the wall clock.

The simulation puts a virtual clock in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_read_ns: Callable[[], int] = time.monotonic_ns


def now_ms() -> int:
    return _read_ns() // 1_000_000


def use_clock(read_ns: Callable[[], int]) -> None:
    """From now on the whole process reads this clock."""
    global _read_ns
    _read_ns = read_ns


def source() -> Callable[[], int]:
    """The clock that is in use now. A caller keeps it to restore it later."""
    return _read_ns

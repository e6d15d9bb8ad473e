"""The clock of the client's decisions: monotonic milliseconds. Record timestamps alone come from the wall clock.

The simulation puts a virtual clock in its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_read_ns: Callable[[], int] = time.monotonic_ns


def now_ms() -> int:
    return _read_ns() // 1_000_000


def use_clock(read_ns: Callable[[], int]) -> None:
    """Read this one from now on, in the whole process."""
    global _read_ns
    _read_ns = read_ns


def source() -> Callable[[], int]:
    """The one in use, to put it back."""
    return _read_ns

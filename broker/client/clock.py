"""The client's clocks: monotonic milliseconds for decisions, wall-clock milliseconds for record timestamps only."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def wall_offset_ms() -> int:
    """Add to `now_ms` to get the time since 1970. Taken anew now and then: the wall clock may be set."""
    return time.time_ns() // 1_000_000 - now_ms()

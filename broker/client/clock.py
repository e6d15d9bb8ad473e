"""The clock of the client's decisions: monotonic milliseconds. Record timestamps alone come from the wall clock."""

from __future__ import annotations

import time


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000

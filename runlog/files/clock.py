"""The run's clock: microseconds of the host's monotonic clock since the run began."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClock:
    """Microseconds since the run's start on CLOCK_MONOTONIC, the one clock of the host."""

    t0_monotonic_ns: int

    @classmethod
    def starting_now(cls) -> RunClock:
        return cls(t0_monotonic_ns=time.monotonic_ns())

    def now_us(self) -> int:
        return (time.monotonic_ns() - self.t0_monotonic_ns) // 1_000

    def to_us(self, mono_ns: int) -> int:
        return (mono_ns - self.t0_monotonic_ns) // 1_000

    def to_mono_ns(self, t_us: int) -> int:
        return self.t0_monotonic_ns + t_us * 1_000

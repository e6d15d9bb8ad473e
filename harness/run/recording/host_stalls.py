"""Short stretches of time in which the host stood still while a cell runs. Reads only /proc/stat and the clock.

A thread that only sleeps looks twenty times a second. It shares nothing with brokers and load but the processor, and it
does not wait for them. So when it wakes up late, or other guests took the processor meanwhile, the host is the witness
and not a figure of the cell. Which stretches are the host's is decided in runlog.quality.noise: this module only writes
down what it saw. Shown by tests/harness/test_harness_host_stalls.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.run.recording.host_load import HostTicks, host_ticks
from runlog.files.clock import RunClock
from runlog.quality.criteria import CRITERIA
from runlog.records.lines import RecordWriter
from runlog.records.stats import StallSample, StatsSample

# A tick of the kernel is 10 ms. In shorter intervals one stolen tick would look like a stall.
INTERVAL_S: Final = 0.05
_INTERVAL_US_MIN: Final = 40_000


class StallWatch:
    """`look` is called every INTERVAL_S, and writes a line if that was a stall."""

    def __init__(
        self,
        clock: RunClock,
        writer: RecordWriter[StatsSample],
        *,
        ticks: Callable[[], HostTicks] = host_ticks,
    ) -> None:
        self._clock, self._writer, self._ticks = clock, writer, ticks
        self._last: tuple[int, HostTicks] | None = None

    def look(self) -> None:
        now_us, ticks = self._clock.now_us(), self._ticks()
        last = self._last
        if last is not None and now_us - last[0] < _INTERVAL_US_MIN:
            return  # the last look of a cell comes at any time after the one before, and sees a tick or two
        self._last = now_us, ticks
        if last is None:
            return
        took_us = now_us - last[0]
        passed = max(1, ticks.total - last[1].total)
        stolen = (ticks.stolen - last[1].stolen) / passed
        busy = (ticks.busy - last[1].busy) / passed - stolen
        late_us = max(0, took_us - round(INTERVAL_S * 1e6))
        if late_us >= CRITERIA.stall_us_min or stolen >= CRITERIA.taken_share_at_once_max:
            self._writer.append(
                StallSample(
                    t_us=now_us,
                    took_us=took_us,
                    late_us=late_us,
                    stolen_share=round(stolen, 4),
                    busy_share=round(max(0.0, busy), 4),
                )
            )

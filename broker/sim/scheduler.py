"""Virtual time and the order of all events of a run. Equal seeds give equal orders.

It knows nothing of brokers. Time moves from one event to the next. Within an event, `spend_us` (loop.py) moves it for
the process that works. The next event begins at its own time.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable


class Event:
    """A callback that is due at some time. After `cancel` it does not run."""

    __slots__ = ("callback", "is_cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Scheduler:
    """Events with the same time run in the order in which they were scheduled."""

    def __init__(self) -> None:
        self.now_us = 0
        self.wall_ahead_us = (
            0  # how far the wall clocks of all hosts are ahead of virtual time, because days were skipped
        )
        self.events_run = 0
        self.trace_hash = 0  # hash of all notes; two runs of a seed must have the same one
        self._queue: list[tuple[int, int, Event]] = []
        self._sequence = 0

    def at(self, when_us: int, callback: Callable[[], None]) -> Event:
        event = Event(callback)
        self._sequence += 1
        heapq.heappush(self._queue, (max(when_us, self.now_us), self._sequence, event))
        return event

    def after(self, delay_us: int, callback: Callable[[], None]) -> Event:
        return self.at(self.now_us + delay_us, callback)

    def run(self, *, until_us: int, is_done: Callable[[], bool], events_max: int) -> bool:
        """Run until `is_done`, which is called after each event. False if the time or the number of events ran out
        first."""
        limit = self.events_run + events_max
        while self._queue and self._queue[0][0] <= until_us and self.events_run < limit:
            when_us, _, event = heapq.heappop(self._queue)
            if event.is_cancelled:
                continue
            self.now_us = when_us
            self.events_run += 1
            event.callback()
            if is_done():
                return True
        if self.events_run < limit:
            self.now_us = max(self.now_us, until_us)
        return False

    def note(self, what: str, data: bytes = b"") -> None:
        """Add this to the hash of the trace."""
        line = f"{self.now_us} {what}".encode()
        self.trace_hash = zlib.crc32(data, zlib.crc32(line, self.trace_hash))

"""How long a client makes no progress although it could: what its threads waited for a processor does not count.

A client on a busy host is late everywhere. If its silence is measured by the clock alone, a host that gives it a tenth
of a processor accuses it. So of each moment without progress that part is left out which one of its threads stood in
the queue of a processor (/proc/PID/task/TID/schedstat). Shown by tests/harness/test_harness_explore_patience.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

WALL_FACTOR: Final = 6  # of the limit: then it is over whatever the host does, so that a trial ends
Waits = Mapping[tuple[int, int], float]  # (pid, thread) -> seconds that it has waited for a processor since it began


class Patience:
    """`limit_s`: of seconds without progress. `pids`: of the processes that have to make it, as they are now."""

    def __init__(
        self,
        limit_s: float,
        pids: Callable[[], Sequence[int]],
        *,
        clock: Callable[[], float] = time.monotonic,
        waits_of: Callable[[Sequence[int]], Waits] | None = None,
    ) -> None:
        self._limit_s, self._pids, self._clock = limit_s, pids, clock
        self._waits_of = queue_waits if waits_of is None else waits_of
        self.renew()

    def renew(self) -> None:
        """There was progress, or none is due."""
        self.since_s = self._looked_s = self._clock()
        self._waits = self._waits_of(self._pids())
        self._passed_s = 0.0

    @property
    def is_over(self) -> bool:
        now_s, waits = self._clock(), self._waits_of(self._pids())
        starved_s = max((wait - self._waits.get(thread, 0.0) for thread, wait in waits.items()), default=0.0)
        # The kernel tells of a wait when it is over, so one may be longer than the time since the last look.
        self._passed_s = max(0.0, self._passed_s + now_s - self._looked_s - starved_s)
        self._looked_s, self._waits = now_s, waits
        return self._passed_s > self._limit_s or now_s - self.since_s > WALL_FACTOR * self._limit_s


def queue_waits(pids: Sequence[int]) -> Waits:
    """Of all their threads. What the kernel does not tell counts as none."""
    found: dict[tuple[int, int], float] = {}
    for pid in pids:
        with suppress(OSError):  # the process may end at any moment
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError, ValueError, IndexError):
                    text = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="ascii")
                    found[pid, int(thread)] = int(text.split()[1]) / 1e9
    return found

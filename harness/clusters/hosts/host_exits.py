"""Finds out which brokers of somebody else ended by themselves: their hosts' workers are asked now and then who runs.

A broker that this run has ended is none of them, nor is one whose end lay within an action of ours. Shown by
tests/harness/test_harness_host_exits.py.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from chaos.process_identity import ProcessIdentity
from harness.errors import HarnessError

LOOK_S: Final = 2.0  # between two looks: each is a round trip for each broker, and may start a program there


class HostExits:
    """`identity_of` asks the host of a broker; None: it does not run. HarnessError: nobody knows."""

    def __init__(
        self, identity_of: Callable[[int], ProcessIdentity | None], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._identity_of, self._now_s = identity_of, now_s
        self._lock = threading.Lock()
        self._seen: dict[int, ProcessIdentity] = {}
        self._ends: defaultdict[int, int] = defaultdict(int)  # how often we have ended a broker
        self._exited: dict[int, tuple[int, int | None]] = {}
        self._next_s = 0.0

    def ends_by_us(self, broker: int) -> None:
        """Call it before a broker is ended: what a look that is under way tells of it does not count."""
        with self._lock:
            self._ends[broker] += 1
            self._seen.pop(broker, None)

    def look(self, brokers: Sequence[int]) -> Mapping[int, tuple[int, int | None]]:
        """(pid, None) of the last process of each broker that ended by itself. `brokers`: those that should run."""
        if self._now_s() >= self._next_s:
            for broker in brokers:
                self._look_at(broker)
            self._next_s = self._now_s() + LOOK_S
        return dict(self._exited)

    def _look_at(self, broker: int) -> None:
        with self._lock:
            before = self._ends[broker]
        try:
            found = self._identity_of(broker)
        except HarnessError:
            return
        with self._lock:
            if self._ends[broker] != before:
                return
            seen = self._seen.get(broker)
            if seen is not None and found != seen:
                self._exited[broker] = (seen.pid, None)
            if found is None:
                self._seen.pop(broker, None)
            else:
                self._seen[broker] = found

"""The round trips to the clock of one host, and the bound of that clock from them.

A clock that is set has no bound over the moment at which it was set. Later it has one again: round trips from before
are dropped then. Shown by tests/workloads/test_workloads_hosts_round_trips.py.
"""

from __future__ import annotations

from collections import deque

from runlog.quality.clock_bound import ClockBound, ClockBoundError, after_last_step
from runlog.records.stats import ClockSample


class RoundTrips:
    """`kept_max`: the oldest go first."""

    def __init__(self, kept_max: int) -> None:
        self._samples: deque[ClockSample] = deque(maxlen=kept_max)
        self._step_ns: int | None = None  # Our clock's last step was before this.

    def __len__(self) -> int:
        return len(self._samples)

    def append(self, sample: ClockSample) -> None:
        self._samples.append(sample)

    def drop_before_step(self) -> None:
        """ClockBoundError for a clock that is set all the time."""
        found = tuple(self._samples)
        first = after_last_step(found)
        if first:
            self._step_ns = found[first].sent_ns if first < len(found) else found[-1].received_ns
            for _ in range(first):
                self._samples.popleft()

    def bound(self, since_ns: int) -> ClockBound:
        """What holds from `since_ns` of our clock on. ClockBoundError if there is no answer, or if the clock was set
        after that time, or shortly before."""
        try:
            found = ClockBound(tuple(self._samples))
        except ClockBoundError:
            self.drop_before_step()
            found = ClockBound(tuple(self._samples))
        if self._step_ns is not None and since_ns < self._step_ns:
            raise ClockBoundError("the clock was set, or a host was suspended, after this had begun")
        return found

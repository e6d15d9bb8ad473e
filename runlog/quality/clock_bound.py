"""How far the clock of another host can be from ours: an estimate with a bound that holds. Pure.

**One round trip.** We send at `sent`, the other host reads its clock (`host_received`), answers (`host_sent`), and we
have the answer at `received`. The question was answered after we asked and before we had the answer. So, with
offset = its clock - ours:

    host_sent - received  <=  offset  <=  host_received - sent

This is true for all travel times: an asymmetric link moves the true offset inside the interval, never out of it.
The interval is as wide as the round trip without the time at the other host.

**Between round trips.** The offset moves, because no two crystals have the same rate. Two intervals at different times
bound the *mean* rate between them. The rate at a moment is assumed to be within WANDER_PPM of that mean, and never
beyond RATE_PPM_MAX. With these two, every round trip bounds the offset at every other moment, the less the further
away. The bound at a moment is the intersection of all of them. So the shortest round trips decide, and no sample
needs to be thrown away: that is what a minimum filter does, but here it is a proof.

If the intersection is empty, an assumption was broken: the clock stepped, or a host was suspended. Then there is no
bound, and the result says so. A step spoils what it happened in, and nothing after it: `after_last_step` says which
round trips are surely later. Shown by tests/runlog/test_runlog_clock_bound.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from runlog.records.hosts import ClockRecord
from runlog.records.stats import ClockSample

# The kernel slews CLOCK_MONOTONIC by at most 500 ppm on request of NTP, and a crystal is off by at most 100. Two hosts.
RATE_PPM_MAX: Final = 1_200.0
# A crystal wanders with the temperature, and an NTP daemon corrects it, by no more within one cell.
WANDER_PPM: Final = 20.0
ANCHORS_MAX: Final = 128  # intervals that are held against each other; the best of as many stretches of time
SAMPLES_MAX: Final = 100_000
STEPS_MAX: Final = 100  # in one history of a host: more is no clock
_GRID_MAX: Final = 512  # moments of a cell at which the bound is computed
_PPM: Final = 1e-6

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetBound:
    """The bound at one moment, in ns: the true offset is within `error_ns` of `offset_ns`."""

    offset_ns: float
    error_ns: float


class ClockBoundError(ValueError):
    """There is no bound; says why."""


class ClockBound:
    """The bound from the round trips to one host. ClockBoundError without any, or if they contradict each other."""

    def __init__(self, samples: Sequence[ClockSample]) -> None:
        if not samples:
            raise ClockBoundError("the host never answered a question for its clock")
        if len(samples) > SAMPLES_MAX:
            raise ClockBoundError(f"{len(samples)} round trips, at most {SAMPLES_MAX} are taken")
        rows = np.array(
            [(each.sent_ns, each.host_received_ns, each.host_sent_ns, each.received_ns) for each in samples],
            dtype=np.int64,
        )
        _check_order(rows)
        self.samples = len(rows)
        self._origin_ns = int(rows[0, 0])
        sent, host_received, host_sent, received = (rows[:, column] for column in range(4))
        self.round_trip_ns_min = float(((received - sent) - (host_sent - host_received)).min())
        # Offsets of clocks of different hosts need 63 bits, their differences do not.
        self._base_ns = int(host_received[0] - sent[0])
        trip = (received - sent).astype(np.float64)
        slack = trip * RATE_PPM_MAX * _PPM  # the offset may move while the question is under way
        low = (host_sent - received - self._base_ns).astype(np.float64) - slack
        high = (host_received - sent - self._base_ns).astype(np.float64) + slack
        middle = (sent - self._origin_ns).astype(np.float64) + trip / 2
        chosen = _anchors(middle, high - low)
        self._at, self._low, self._high = middle[chosen], low[chosen], high[chosen]
        mean_low, mean_high = self._mean_rates()
        self.rate_ppm = (mean_low + mean_high) / 2 / _PPM
        self.rate_error_ppm = (mean_high - mean_low) / 2 / _PPM
        limit = RATE_PPM_MAX * _PPM
        self._rate_low = max(-limit, mean_low - WANDER_PPM * _PPM)
        self._rate_high = min(limit, mean_high + WANDER_PPM * _PPM)
        for moment in self._at.tolist():
            self._interval(moment)  # contradictions are found now

    def _mean_rates(self) -> tuple[float, float]:
        """Between which the mean rate over the whole time lies. Only from the widest spans: they say most."""
        limit = RATE_PPM_MAX * _PPM
        span = self._at[:, None] - self._at[None, :]
        whole = float(span.max())
        far = span > max(whole / 2, 1.0)
        if not far.any():
            return -limit, limit
        later, earlier = np.nonzero(far)
        lengths = span[far]
        low = (self._low[later] - self._high[earlier]) / lengths
        high = (self._high[later] - self._low[earlier]) / lengths
        best = int(np.argmin(high - low))
        if low[best] > limit or high[best] < -limit:
            raise ClockBoundError(
                f"the clock went {abs(low[best] + high[best]) / 2 / _PPM:,.0f} ppm faster or slower than ours, more "
                f"than any clock that keeps time ({RATE_PPM_MAX:,.0f} ppm): it was set, or a host was suspended"
            )
        return max(-limit, float(low[best])), min(limit, float(high[best]))

    def at(self, our_ns: int) -> OffsetBound:
        """The offset when our clock shows `our_ns`."""
        low, high = self._interval(float(our_ns - self._origin_ns))
        return OffsetBound(offset_ns=self._base_ns + (low + high) / 2, error_ns=(high - low) / 2)

    def over(self, first_ns: int, last_ns: int, *, used_offset_ns: int) -> ClockRecord:
        """What is recorded of a cell that lasted from `first_ns` to `last_ns` of our clock, whose times were converted
        with one offset throughout. The error has the drift over the cell in it.

        The bound is computed at a grid of moments. Between two of them the true offset can be off by what the rates
        allow for half the step, which is added.
        """
        first, last = float(first_ns - self._origin_ns), float(last_ns - self._origin_ns)
        moments = np.linspace(first, last, _GRID_MAX if last > first else 1)
        used = float(used_offset_ns - self._base_ns)
        worst = 0.0
        for moment in moments.tolist():
            low, high = self._interval(moment)
            worst = max(worst, abs(low - used), abs(high - used))
        step = (last - first) / max(1, len(moments) - 1)
        worst += step / 2 * max(abs(self._rate_low), abs(self._rate_high))
        return ClockRecord(
            offset_us=round(used_offset_ns / 1e3, 3),
            error_us=round(worst / 1e3, 3) + 0.001,  # rounded up
            samples=self.samples,
            round_trip_us_min=round(self.round_trip_ns_min / 1e3, 3),
            rate_ppm=round(self.rate_ppm, 3),
            rate_error_ppm=round(self.rate_error_ppm, 3),
        )

    def _interval(self, moment: float) -> tuple[float, float]:
        ahead = moment - self._at
        slow, fast = ahead * self._rate_low, ahead * self._rate_high
        low = float((self._low + np.minimum(slow, fast)).max())
        high = float((self._high + np.maximum(slow, fast)).min())
        if low > high:
            raise ClockBoundError(
                f"the round trips contradict each other by {(low - high) / 1e6:.3f} ms: the clock was set, or a host "
                "was suspended"
            )
        return low, high


def after_last_step(samples: Sequence[ClockSample]) -> int:
    """How many of the first round trips are to be left out, so that no step of the clock is among the others. 0: there
    was none. ClockBoundError for a clock that is set all the time.

    Round trips are taken from the first one on, for as long as they agree. The first that does not agree with those
    before came after a step, and so did all that follow it. The search begins anew there. It does not go backwards from
    the last one: a wide interval from before a small step can agree with those after it, and make a wrong bound.
    """
    first = 0
    for _ in range(STEPS_MAX):
        agreeing = _agreeing(samples, first)
        if first + agreeing == len(samples):
            return first
        first += max(1, agreeing)  # one that is nonsense by itself is left out
    raise ClockBoundError(f"the clock was set more than {STEPS_MAX} times")


def _agreeing(samples: Sequence[ClockSample], first: int) -> int:
    """How many round trips from `first` on agree with each other. By bisection: fewer of them agree all the more."""
    low, high = 0, len(samples) - first
    if _agree(samples[first:]):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _agree(samples[first : first + middle]) else (low, middle)
    return low


def _agree(samples: Sequence[ClockSample]) -> bool:
    try:
        ClockBound(samples)
    except ClockBoundError:
        return not samples
    return True


def no_bound(problem: str) -> ClockRecord:
    """The record of a host whose clock cannot be compared with ours."""
    return ClockRecord(offset_us=0.0, error_us=0.0, samples=0, round_trip_us_min=0.0, problem=problem)


def _check_order(rows: NDArray[Any]) -> None:
    """The times of a host that lies, or of a defect, must not become a bound."""
    sent, host_received, host_sent, received = (rows[:, column] for column in range(4))
    if (received < sent).any() or (host_sent < host_received).any():
        raise ClockBoundError("an answer came before its question")
    if ((host_sent - host_received) > (received - sent) * (1 + RATE_PPM_MAX * _PPM) + 1).any():
        raise ClockBoundError("the host says that it took longer to answer than the whole round trip")


def _anchors(at: _Floats, width: _Floats) -> NDArray[np.int64]:
    """The narrowest interval of each stretch of time; leaving others out makes the bound wider, never wrong."""
    if len(at) <= ANCHORS_MAX:
        return np.arange(len(at))
    span = at.max() - at.min()
    stretch = np.minimum(((at - at.min()) / span * ANCHORS_MAX).astype(np.int64), ANCHORS_MAX - 1)
    order = np.lexsort((width, stretch))
    _, firsts = np.unique(stretch[order], return_index=True)
    chosen: NDArray[np.int64] = order[firsts]
    return chosen

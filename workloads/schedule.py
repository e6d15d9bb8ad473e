"""When each record should be sent: cumulative schedules, pure, the same for the same seed.

Record i of a schedule has the intended time `times_ns([i])`, relative to the start of the warm-up. `count_until(t)` is
the number of records with an intended time at or before t. The two agree exactly. This keeps an open loop honest: a
record that was missed during a stall is still due, with its old time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from workloads import model

Times = NDArray[np.int64]
Indices = NDArray[np.int64]
SINE_PIECES_PER_PERIOD = 64  # a sine is approximated by straight lines; the rate is off by less than 0.13 %
POISSON_BLOCK = 4_096
LOOKAHEAD = 16_384  # 0.4 ms to make


class Schedule(Protocol):
    """A finite, ascending sequence of intended times in ns."""

    @property
    def total(self) -> int: ...

    def times_ns(self, indices: Indices) -> Times: ...

    def count_until(self, t_ns: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch in which the rate goes from one value to another in a straight line."""

    duration_s: float
    rate_from: float
    rate_to: float


class PiecewiseRate:
    """Covers constant, steps, ramp, spike and sine by pieces with closed formulas both ways."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        kept = [piece for piece in pieces if piece.duration_s > 0]
        self._rate = np.array([piece.rate_from for piece in kept])
        self._slope = np.array([(piece.rate_to - piece.rate_from) / piece.duration_s for piece in kept])
        durations = np.array([piece.duration_s for piece in kept])
        counts = np.array([piece.duration_s * (piece.rate_from + piece.rate_to) / 2 for piece in kept])
        self._start_s = np.concatenate([[0.0], np.cumsum(durations)[:-1]])
        self._start_count = np.concatenate([[0.0], np.cumsum(counts)[:-1]])
        self._end_s = float(durations.sum())
        # A millionth of a record allows for rounding of sums: 3 s at 1/3 a second is one record and not two.
        self._total = math.ceil(float(counts.sum()) - 1e-6)

    @property
    def total(self) -> int:
        return self._total

    def times_ns(self, indices: Indices) -> Times:
        piece = np.searchsorted(self._start_count, indices + 1e-9, side="right") - 1
        wanted = np.maximum(indices - self._start_count[piece], 0.0)
        rate, slope = self._rate[piece], self._slope[piece]
        root = np.sqrt(np.maximum(rate * rate + 2 * slope * wanted, 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            within = np.where(wanted > 0, 2 * wanted / (rate + root), 0.0)
        times_s = np.minimum(self._start_s[piece] + within, self._end_s)
        nanoseconds: Times = (times_s * 1e9).astype(np.int64)
        return nanoseconds

    def count_until(self, t_ns: int) -> int:
        if t_ns < 0 or self._total == 0:
            return 0
        t_s = min(t_ns / 1e9, self._end_s)
        piece = int(np.searchsorted(self._start_s, t_s, side="right")) - 1
        within = t_s - float(self._start_s[piece])
        cumulative = float(self._start_count[piece]) + within * (
            float(self._rate[piece]) + float(self._slope[piece]) * within / 2
        )
        count = max(0, min(self._total, math.floor(cumulative) + 1))
        return _settle(self, count, t_ns)


def _settle(schedule: Schedule, count: int, t_ns: int) -> int:
    """Correct a count that rounding left off by a record or so, so that it agrees with times_ns."""
    while count > 0 and int(schedule.times_ns(np.array([count - 1]))[0]) > t_ns:
        count -= 1
    while count < schedule.total and int(schedule.times_ns(np.array([count]))[0]) <= t_ns:
        count += 1
    return count


class PoissonArrivals:
    """Exponential gaps, made block by block from the seed; any block can be made again."""

    def __init__(self, *, rate_per_s: float, duration_s: float, seed: int) -> None:
        self._mean_gap_ns = 1e9 / rate_per_s
        self._seed = seed
        self._block = lru_cache(maxsize=16)(self._make_block)
        self._starts: list[int] = [0]
        end_ns = round(duration_s * 1e9)
        while self._starts[-1] < end_ns:
            self._starts.append(int(self._block(len(self._starts) - 1)[-1]))
        last = len(self._starts) - 2
        within = int(np.searchsorted(self._block(last), end_ns, side="left")) if last >= 0 else 0
        self._total = max(0, last) * POISSON_BLOCK + within

    def _make_block(self, block: int) -> Times:
        generator = np.random.Generator(np.random.PCG64([self._seed, block]))
        gaps = generator.exponential(self._mean_gap_ns, POISSON_BLOCK)
        return self._starts[block] + np.cumsum(gaps).astype(np.int64)

    @property
    def total(self) -> int:
        return self._total

    def times_ns(self, indices: Indices) -> Times:
        times = np.empty(len(indices), dtype=np.int64)
        blocks = indices // POISSON_BLOCK
        for block in np.unique(blocks).tolist():
            mine = blocks == block
            times[mine] = self._block(block)[indices[mine] % POISSON_BLOCK]
        return times

    def count_until(self, t_ns: int) -> int:
        if t_ns < 0 or self._total == 0:
            return 0
        block = min(int(np.searchsorted(self._starts, t_ns, side="right")) - 1, len(self._starts) - 2)
        count = block * POISSON_BLOCK + int(np.searchsorted(self._block(block), t_ns, side="right"))
        return min(self._total, count)


class ReplayedArrivals:
    """Recorded times, shifted by the warm-up and cut at the end."""

    def __init__(self, *, times_ns: Times, end_ns: int) -> None:
        self._times = times_ns[times_ns < end_ns]

    @property
    def total(self) -> int:
        return len(self._times)

    def times_ns(self, indices: Indices) -> Times:
        return self._times[indices]

    def count_until(self, t_ns: int) -> int:
        return int(np.searchsorted(self._times, t_ns, side="right"))


class Share:
    """Every `of`-th burst of a schedule, beginning with `index`: the part of one producer. A burst is `burst`
    consecutive records, all due when its first one is; usually one."""

    def __init__(self, whole: Schedule, *, index: int, of: int, burst: int = 1) -> None:
        if not 0 <= index < of:
            raise ValueError(f"share {index} of {of} does not exist")
        self._whole = whole
        self._index = index
        self._of = of
        self._burst = burst
        bursts = -(-whole.total // burst)
        missing = bursts * burst - whole.total if bursts and (bursts - 1) % of == index else 0
        self._total = self._mine(bursts) * burst - missing

    @property
    def total(self) -> int:
        return self._total

    def times_ns(self, indices: Indices) -> Times:
        return self._whole.times_ns((indices // self._burst * self._of + self._index) * self._burst)

    def next_times_ns(self, first: int, count: int) -> Times:
        return self.times_ns(np.arange(first, first + count, dtype=np.int64))

    def count_until(self, t_ns: int) -> int:
        begun = -(-self._whole.count_until(t_ns) // self._burst)
        return min(self._total, self._mine(begun) * self._burst)

    def _mine(self, bursts: int) -> int:
        return max(0, (bursts - self._index + self._of - 1) // self._of)


class Lookahead:
    """The times of the next records of a share, made many at once: a look at the schedule costs as much for one record
    as for hundreds."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._first = 0
        self._times_ns: Times = np.empty(0, dtype=np.int64)

    def next_ns(self, first: int) -> int:
        """When record `first` is due. It must exist."""
        return int(self._from(first, 1)[0])

    def due(self, first: int, t_ns: int, at_most: int) -> Times:
        """The times of the records from `first` on that are due at `t_ns`."""
        times_ns = self._from(first, at_most)[:at_most]
        return times_ns[: int(np.searchsorted(times_ns, t_ns, side="right"))]

    def _from(self, first: int, count: int) -> Times:
        """At least so many, unless the share has no more."""
        assert count <= LOOKAHEAD
        here, total = first - self._first, self._share.total
        if not 0 <= here <= len(self._times_ns) - min(count, total - first):
            self._first, here = first, 0
            self._times_ns = self._share.next_times_ns(first, min(LOOKAHEAD, total - first))
        return self._times_ns[here:]


def build(workload: model.Workload, seed: int, recorded_times_ms: NDArray[np.float64] | None = None) -> Schedule:
    """Warm-up at the shape's first rate (a replay has none), then the shape over the measured window.

    `recorded_times_ms` are the contents of a replay's file, which the caller has read.
    """
    warmup_s, measure_s = workload.warmup_ms / 1e3, workload.measure_ms / 1e3
    shape = workload.schedule
    if isinstance(shape, model.Poisson):
        return PoissonArrivals(rate_per_s=workload.rate_per_s, duration_s=warmup_s + measure_s, seed=seed)
    if isinstance(shape, model.Replay):
        recorded_ms = np.array(shape.times_ms) if recorded_times_ms is None else recorded_times_ms
        times = ((recorded_ms / shape.speed + workload.warmup_ms) * 1e6).astype(np.int64)
        return ReplayedArrivals(times_ns=times, end_ns=round((warmup_s + measure_s) * 1e9))
    if isinstance(shape, model.Closed):
        shape = model.Constant()  # the upper limit; `producer.py` waits for outstanding records
    pieces = _pieces(shape, workload.rate_per_s, measure_s)
    first_rate = pieces[0].rate_from
    return PiecewiseRate([Piece(duration_s=warmup_s, rate_from=first_rate, rate_to=first_rate), *pieces])


def _pieces(
    shape: model.Constant | model.Steps | model.Ramp | model.Spike | model.Sine, rate: float, measure_s: float
) -> list[Piece]:
    if isinstance(shape, model.Constant):
        return [_flat(measure_s, rate)]
    if isinstance(shape, model.Ramp):
        return [Piece(duration_s=measure_s, rate_from=shape.from_rate_per_s, rate_to=shape.to_rate_per_s)]
    if isinstance(shape, model.Steps):
        return _cut([_flat(step.duration_ms / 1e3, step.rate_per_s) for step in shape.steps], measure_s)
    if isinstance(shape, model.Spike):
        before = _flat(shape.at_ms / 1e3, rate)
        spike = _flat(shape.duration_ms / 1e3, shape.spike_rate_per_s)
        return _cut([before, spike, _flat(measure_s, rate)], measure_s)
    return _sine_pieces(shape, rate, measure_s)


def _flat(duration_s: float, rate: float) -> Piece:
    return Piece(duration_s=duration_s, rate_from=rate, rate_to=rate)


def _cut(pieces: list[Piece], measure_s: float) -> list[Piece]:
    """Flat pieces that fill the window exactly. What is too much is cut off, and the last piece lasts until the end."""
    fitted: list[Piece] = []
    left = measure_s
    for number, piece in enumerate(pieces):
        duration = left if number == len(pieces) - 1 else min(piece.duration_s, left)
        if duration > 0:
            fitted.append(_flat(duration, piece.rate_from))
        left -= duration
    return fitted


def _sine_pieces(shape: model.Sine, rate: float, measure_s: float) -> list[Piece]:
    period_s = shape.period_ms / 1e3
    step_s = period_s / SINE_PIECES_PER_PERIOD
    edges = np.append(np.arange(0.0, measure_s, step_s), measure_s)
    rates = rate * (1 + shape.amplitude_share * np.sin(2 * np.pi * edges / period_s))
    return [
        Piece(duration_s=float(end - start), rate_from=float(rate_from), rate_to=float(rate_to))
        for start, end, rate_from, rate_to in zip(edges, edges[1:], rates, rates[1:], strict=False)
    ]

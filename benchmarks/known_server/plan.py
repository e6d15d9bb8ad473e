"""What the server does by plan, and which latencies follow from it. Pure: times are seconds on one monotonic axis.

Every answer to a Produce waits for a delay, which depends on its acks. If it then falls into a stall, it waits until
the stall ends. Take an open loop with room for all its batches in flight, and a record intended at t. Its latency is
release(t + x + delay) - t, where x is the time of linger and of the way there and back. x is at least 0, and at most
what the same server takes without a plan.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`stalls` are (start, end), in order and apart; `records_per_s` limits what is answered, None does not."""

    stalls: Sequence[tuple[float, float]] = ()
    delay_s_by_acks: Mapping[int, float] = field(default_factory=dict)
    records_per_s: float | None = None

    def release_s(self, due_s: float) -> float:
        """When an answer that is due at `due_s` may go. The relay asks for every answer, whatever the plan's length."""
        last = bisect_right(self.stalls, due_s, key=_start_s) - 1
        return max(due_s, self.stalls[last][1]) if last >= 0 else due_s

    def release(self, due_s: Times) -> Times:
        if not self.stalls:
            return due_s
        starts, ends = np.array(self.stalls).T
        last = np.searchsorted(starts, due_s, side="right") - 1
        end_s = np.where(last >= 0, ends[np.maximum(last, 0)], -np.inf)
        return np.maximum(due_s, end_s)

    def latencies(self, intended_s: Times, *, acks: int, way_s: float) -> Times:
        """The latency of each record if linger and way take `way_s`."""
        due = intended_s + way_s + self.delay_s_by_acks.get(acks, 0.0)
        return self.release(due) - intended_s


def _start_s(stall: tuple[float, float]) -> float:
    return stall[0]


def seeded_stalls(
    seed: int, *, from_s: float, for_s: float, gap_s: tuple[float, float], length_s: tuple[float, float]
) -> list[tuple[float, float]]:
    """Stalls of uniform length with uniform gaps between them, over the whole time."""
    rng = random.Random(f"stalls/{seed}")
    stalls, now_s = [], from_s
    while now_s < from_s + for_s:
        start_s = now_s + rng.uniform(*gap_s)
        now_s = start_s + rng.uniform(*length_s)
        stalls.append((start_s, now_s))
    return stalls

"""Rate searches against a server of known capacity, noise and carry-over, and what they found.

`python -m tests.harness.search_trials [TRIALS]` prints the table of docs/internals/statistics.md.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, median

from harness.search import RateSearch


@dataclass(slots=True, kw_only=True)
class Server:
    """Keeps the contract up to its capacity, which wavers by `noise` from try to try. A try in `1 / lapses` fails for
    another reason. After an overload of half its capacity or more the next try finds `carry_over` less capacity, and
    after a smaller one less in proportion."""

    capacity_per_s: float
    noise: float
    carry_over: float
    lapses: float
    rng: random.Random
    _tired: float = field(default=0.0, init=False)

    def keeps(self, rate_per_s: float) -> bool:
        now = self.capacity_per_s * math.exp(self.rng.gauss(0, self.noise)) * (1 - self._tired)
        excess = max(0.0, rate_per_s / now - 1)
        self._tired = self.carry_over * min(1.0, excess / 0.5)
        return excess == 0 and self.rng.random() >= self.lapses

    def probability(self, rate_per_s: float) -> float:
        """With which one more try, of a rested server, keeps the rate."""
        return NormalDist().cdf(math.log(self.capacity_per_s / rate_per_s) / self.noise) * (1 - self.lapses)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    kept_per_s: float | None
    probability: float  # of keeping it; 0 if no rate was found
    held: bool  # one more try, of a rested server, kept it
    holds_limit: bool  # the interval of the rate that half of the tries keep has the capacity
    of_capacity: float
    tries: int
    failed: int


def trial(seed: str, *, noise: float, carry_over: float, tolerance: float = 0.25, probes_max: int = 20) -> Trial:
    """One search; capacities are drawn between 900 and 40,000 a second."""
    rng = random.Random(seed)
    capacity = math.exp(rng.uniform(math.log(900), math.log(40_000)))
    server = Server(capacity_per_s=capacity, noise=noise, carry_over=carry_over, lapses=0.01, rng=rng)
    search = RateSearch(low_per_s=500, high_per_s=64_000, tolerance=tolerance, probes_max=probes_max)
    while (rate := search.next_rate()) is not None:
        search.take(rate, passed=server.keeps(rate))
    kept, estimate = search.kept(), search.estimate()
    probability = 0.0 if kept is None else server.probability(kept)
    return Trial(
        kept_per_s=kept,
        probability=probability,
        held=rng.random() < probability,
        holds_limit=estimate.low_per_s <= capacity <= estimate.high_per_s,
        of_capacity=(kept or 0.0) / capacity,
        tries=len(search.probes),
        failed=sum(not probe.passed for probe in search.probes),
    )


def trials(count: int, *, noise: float, carry_over: float) -> list[Trial]:
    return [trial(f"{noise}/{carry_over}/{number}", noise=noise, carry_over=carry_over) for number in range(count)]


def found(outcomes: Sequence[Trial]) -> list[Trial]:
    return [one for one in outcomes if one.kept_per_s is not None]


def main(count: int = 300) -> None:
    print("noise  carry-over  found  held  kept with, mean  rate / capacity  limit in interval  tries  failed")
    for noise in (0.03, 0.1, 0.2):
        for carry_over in (0.0, 0.3):
            outcomes = trials(count, noise=noise, carry_over=carry_over)
            own = found(outcomes)
            print(
                f"{noise:5.0%}  {carry_over:10.0%}  {len(own) / count:5.1%}  {fmean(one.held for one in own):.1%}  "
                f"{fmean(one.probability for one in own):15.1%}  {median(one.of_capacity for one in own):15.2f}  "
                f"{fmean(one.holds_limit for one in outcomes):17.1%}  {fmean(one.tries for one in outcomes):5.1f}  "
                f"{fmean(one.failed for one in outcomes):6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

"""The search for the highest rate that keeps a contract: which rate to try next, and the estimate from the tries. Pure.

Whether a rate passes is random near the limit, so a bisection would be misled by one bad second. Here each try updates
a posterior over the limit, the width of its noise, and how often a try fails only because the one before it overloaded
the cluster. A share of tries goes wrong for other reasons (lapses).

- The limit is the rate that half of the tries keep.
- The rate that is reported is lower: a further try keeps it with 95 % probability, and it was tried and kept.

After a try that failed, the next one is slow enough that it probably passes: the cluster recovers, and the lower part
of the curve is learnt, which decides how far the kept rate lies below the limit. After a try that passed, the next one
is near the limit (a staircase with two points, as in psychophysics: Watson 2017, "QUEST+").
Shown by tests/harness/test_harness_search.py against a server of known capacity, noise and carry-over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from runlog.records.search import Clause, SearchEnd

KEPT: Final = 0.95  # probability with which a further try keeps the reported rate
_GRID: Final = 600
# Noise of the limit's logarithm from try to try. It is never below 3 %, because a search that ends when its interval is
# narrow would trust a few tries that happened to agree.
_NOISE_WIDTHS: Final = np.geomspace(0.03, 0.45, 7)
# More noise is a little more likely before the first try. With equal weights 83 of 100 intervals held a limit that
# varies by 20 %, and 94 of 100 further tries kept the rate; with these it is 96 and 97.
_NOISE_WEIGHTS: Final = _NOISE_WIDTHS**0.25 / (_NOISE_WIDTHS**0.25).sum()
# How often a try that follows a failed one fails for that reason alone. Without it, overloads that pull the next try
# down would be taken for a lower limit.
_CARRY_OVERS: Final = np.array([0.0, 0.3, 0.6, 0.9])
_LAPSE: Final = 0.04
_BEYOND: Final = 1.5  # the limit may lie outside the range that is searched
_AFTER_FAILURE: Final = 0.8  # probability with which the next try is expected to pass
_AFTER_PASS: Final = 0.4
_TO_CONFIRM: Final = 0.25  # share of the tries that is kept for the rate that is reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    rate_per_s: float
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    rate_per_s: float  # median of the posterior
    low_per_s: float  # 95 % interval
    high_per_s: float

    @property
    def width(self) -> float:
        """Share by which the upper end exceeds the lower."""
        return self.high_per_s / self.low_per_s - 1


class RateSearch:
    """Ask `next_rate`, try it, tell `take`. None ends the search."""

    def __init__(self, *, low_per_s: float, high_per_s: float, tolerance: float, probes_max: int) -> None:
        assert 0 < low_per_s < high_per_s
        assert probes_max > 0
        self._low, self._high, self._tolerance, self._probes_max = low_per_s, high_per_s, tolerance, probes_max
        self._limits = np.linspace(math.log(low_per_s / _BEYOND), math.log(high_per_s * _BEYOND), _GRID)
        shape = (_GRID, len(_NOISE_WIDTHS), len(_CARRY_OVERS))
        self._posterior = np.broadcast_to(_NOISE_WEIGHTS[None, :, None] / (_GRID * len(_CARRY_OVERS)), shape).copy()
        self.probes: list[Probe] = []

    def next_rate(self) -> float | None:
        """Records a second, within the searched range and with four digits."""
        if len(self.probes) >= self._probes_max:
            return None
        if not self.probes:
            return self._tried(self.estimate().rate_per_s)
        is_narrow = self.estimate().width <= self._tolerance
        goal, kept = self._tried(self.passed_with(KEPT)), self.kept()
        is_confirmed = kept is not None and kept * (1 + self._tolerance / 2) >= goal
        if is_narrow and is_confirmed:
            return None
        if not is_confirmed and (is_narrow or self._probes_max - len(self.probes) <= _TO_CONFIRM * self._probes_max):
            return goal
        return self._tried(self.passed_with(_AFTER_PASS if self.probes[-1].passed else _AFTER_FAILURE))

    def take(self, rate_per_s: float, *, passed: bool) -> None:
        pass_share = self._pass_share(rate_per_s)[:, :, None]
        if self.probes and not self.probes[-1].passed:
            pass_share = pass_share * (1 - _CARRY_OVERS)
        self._posterior *= pass_share if passed else 1 - pass_share
        self._posterior /= self._posterior.sum()
        self.probes.append(Probe(rate_per_s=rate_per_s, passed=passed))

    def estimate(self) -> Estimate:
        """Of the limit, which half of the tries keep."""
        cumulative = np.cumsum(self._posterior.sum(axis=(1, 2)))
        low, middle, high = (
            float(math.exp(np.interp(share, cumulative, self._limits))) for share in (0.025, 0.5, 0.975)
        )  # fmt: skip
        return Estimate(rate_per_s=middle, low_per_s=low, high_per_s=high)

    def passed_with(self, share: float) -> float:
        """The highest rate of the grid that a further try keeps with this probability; its lowest, if there is none."""
        weights = self._posterior.sum(axis=2)
        low, high = 0, _GRID
        while high - low > 1:
            middle = (low + high) // 2
            enough = self._probability(float(math.exp(self._limits[middle])), weights) >= share
            low, high = (middle, high) if enough else (low, middle)
        return float(math.exp(self._limits[low]))

    def kept(self, at_most: float = math.inf) -> float | None:
        """The highest rate that was tried, was kept the last time, and is kept by a further try with 95 % probability.
        None if there is none."""
        weights = self._posterior.sum(axis=2)
        last = {probe.rate_per_s: probe.passed for probe in self.probes if probe.rate_per_s <= at_most}
        for rate in sorted((rate for rate, passed in last.items() if passed), reverse=True):
            if self._probability(rate, weights) >= KEPT:
                return rate
        return None

    def ended_at(self) -> SearchEnd:
        """HIGH: even the upper bound is kept. LOW: not even the lower one is."""
        if self.kept() is not None:
            return SearchEnd.HIGH if self.kept() == self._tried(self._high) else SearchEnd.NONE
        return SearchEnd.LOW if self.passed_with(KEPT) <= self._low else SearchEnd.NONE

    def _tried(self, rate_per_s: float) -> float:
        """The digits are those of the cells: a rate that is tried again is then the same rate."""
        return float(f"{np.clip(rate_per_s, self._low, self._high):.4g}")

    def _probability(self, rate_per_s: float, weights: npt.NDArray[np.float64]) -> float:
        return float((weights * self._pass_share(rate_per_s)).sum())

    def _pass_share(self, rate_per_s: float) -> npt.NDArray[np.float64]:
        """Probability of passing, for each limit and width of the noise, when the cluster is rested."""
        margins = (self._limits[:, None] - math.log(rate_per_s)) / _NOISE_WIDTHS[None, :]
        return _LAPSE / 2 + (1 - _LAPSE) * _normal_cdf(margins)


def _normal_cdf(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """By the logistic approximation of Bowling et al. 2009, within 1.5e-4: enough for a likelihood."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(1.5976 * values + 0.07056 * values**3, -60, 60))))


def limits_named(broken: Sequence[Clause]) -> list[Clause]:
    """What stopped the tries that failed, most frequent first."""
    return sorted(dict.fromkeys(broken), key=lambda clause: -broken.count(clause))

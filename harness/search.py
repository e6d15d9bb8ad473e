"""The search for the highest rate that keeps a contract: which rate to try next, and the estimate from the tries. Pure.

Whether a rate passes is random near the limit, so a bisection would be misled by one bad second. Here each try updates
a posterior over the limit and the width of its noise. The next try is at the posterior's median, where it tells most
(Bayesian stochastic approximation, as in probit staircases). A share of tries goes wrong for other reasons (lapses).
Shown by tests/harness/test_harness_search.py: intervals hold planted limits as often as stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from runlog.records.search import Clause, SearchEnd

_GRID: Final = 600
# Noise of the limit's logarithm from try to try. It is never below 3 %, because a search that ends when its interval is
# narrow would trust a few tries that happened to agree. (With a limit that varies by 15 %, 86 of 100 intervals held it;
# now 96.)
_NOISE_WIDTHS: Final = np.geomspace(0.03, 0.3, 8)
_LAPSE: Final = 0.04
_BEYOND: Final = 1.5  # the limit may lie outside the range that is searched


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
        self._posterior = np.full((_GRID, len(_NOISE_WIDTHS)), 1.0 / (_GRID * len(_NOISE_WIDTHS)))
        self.probes: list[Probe] = []

    def next_rate(self) -> float | None:
        if len(self.probes) >= self._probes_max or (self.probes and self.estimate().width <= self._tolerance):
            return None
        return float(np.clip(self.estimate().rate_per_s, self._low, self._high))

    def take(self, rate_per_s: float, *, passed: bool) -> None:
        self.probes.append(Probe(rate_per_s=rate_per_s, passed=passed))
        margins = (self._limits[:, None] - math.log(rate_per_s)) / _NOISE_WIDTHS[None, :]
        pass_share = _LAPSE / 2 + (1 - _LAPSE) * _normal_cdf(margins)
        self._posterior *= pass_share if passed else 1 - pass_share
        self._posterior /= self._posterior.sum()

    def estimate(self) -> Estimate:
        cumulative = np.cumsum(self._posterior.sum(axis=1))
        low, middle, high = (
            float(math.exp(np.interp(share, cumulative, self._limits))) for share in (0.025, 0.5, 0.975)
        )  # fmt: skip
        return Estimate(rate_per_s=middle, low_per_s=low, high_per_s=high)

    def ended_at(self) -> SearchEnd:
        """HIGH: even the upper bound was carried. LOW: not even the lower one."""
        middle = self.estimate().rate_per_s
        if middle >= self._high:
            return SearchEnd.HIGH
        return SearchEnd.LOW if middle <= self._low else SearchEnd.NONE


def _normal_cdf(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """By the logistic approximation of Bowling et al. 2009, within 1.5e-4: enough for a likelihood."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(1.5976 * values + 0.07056 * values**3, -60, 60))))


def limits_named(broken: Sequence[Clause]) -> list[Clause]:
    """What stopped the tries that failed, most frequent first."""
    return sorted(dict.fromkeys(broken), key=lambda clause: -broken.count(clause))

"""A claim about many trials: how often something came out as said, and whether that is as often as it must. Pure.

Shown by tests/benchmarks/test_benchmarks_claims.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from reports.figures.statistics.distributions import incomplete_beta

_HALVINGS: Final = 60  # Halving [0, 1] so often is finer than a float.
TRIALS_MIN: Final = 10  # fewer cannot show that a claim holds: of two, even one wrong one may be chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """`count` of `total` trials came out as said. One of the two bounds is demanded."""

    text: str
    count: int
    total: int
    at_least: float = 0.0
    at_most: float = 1.0

    @property
    def share(self) -> float:
        return self.count / self.total if self.total else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The exact 95 % interval of the share, if the trials are independent: Clopper and Pearson, "The use of
        confidence or fiducial limits illustrated in the case of the binomial" (Biometrika 1934)."""
        if not self.total:
            return 0.0, 1.0
        low = _share_at(0.025, self.count, self.total - self.count + 1) if self.count else 0.0
        high = _share_at(0.975, self.count + 1, self.total - self.count) if self.count < self.total else 1.0
        return low, high

    @property
    def holds(self) -> bool:
        """Within three standard errors of the bound, which is what `total` trials can tell. A sound claim fails once in
        a thousand times."""
        if not self.total:
            return False
        bound = self.at_least or self.at_most
        error = 3 * math.sqrt(bound * (1 - bound) / self.total)
        return self.at_least - error <= self.share <= self.at_most + error

    @property
    def is_told(self) -> bool:
        """Whether these trials show that it holds, or that it does not."""
        return self.total >= TRIALS_MIN or (self.total > 0 and not self.holds)

    @property
    def outcome(self) -> str:
        if not self.is_told:
            return "too few to tell"
        return "holds" if self.holds else "**does not**"


def _share_at(probability: float, a: float, b: float) -> float:
    """Where the beta distribution has this probability below it, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if incomplete_beta(a, b, middle) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2

"""A claim about many trials: how often something came out as said, and whether that is as often as it must. Pure.

Shown by tests/benchmarks/test_benchmarks_claims.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

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

"""Figures, ratios and changes of a sweep as short texts. Pure."""

from __future__ import annotations

import math

from reports.figures.statistics.variance import SHOWN_MIN, Estimate
from reports.figures.sweep.observations import Measure


def figure(level: Estimate, measure: Measure) -> str:
    """`12.3 ms (11.8 to 12.9)`."""
    value, low, high = (number * measure.scale for number in level.ratio)
    text = f"{significant(value)} {measure.unit}"
    return f"{text} ({significant(low)} to {significant(high)})" if 0 < level.standard_error < math.inf else text


def significant(value: float) -> str:
    """Three significant digits, thousands with a comma."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def rounded(value: float, digits: int) -> str:
    """So many significant digits; a large number is not written as a power of ten."""
    near = float(f"{value:.{digits}g}")
    return f"{near:,.0f}" if abs(near) >= 10 ** (digits - 1) else f"{near:.{digits}g}"


def effect_size(share: float) -> str:
    """`7.0 %`, or `a factor of 3.1` where a percentage would mislead."""
    return f"{share:.1%}" if share < 1 else f"a factor of {rounded(1 + share, 2)}"


def seen_in(title: str, share: float) -> str:
    """What the smallest effect of a run means."""
    return f"A difference of {effect_size(share)} in {title} is seen 4 times in 5; a smaller one may be missed"


def change(difference: Estimate) -> str:
    """`-32 % (-40 to -22)`."""
    value, low, high = ((ratio - 1) * 100 for ratio in difference.ratio)
    if not difference.is_bounded:
        return f"{value:+.1f} % (interval unknown)"
    digits = 0 if max(abs(value), abs(high - low)) >= 10 else 1
    return f"{_percent(value, digits)} % ({_percent(low, digits)} to {_percent(high, digits)})"


def _percent(number: float, digits: int) -> str:
    """A percentage, with more digits if it would round to 0. A reader must see whether an interval includes 0."""
    if abs(number) < SHOWN_MIN * 100:
        return "0"
    while round(abs(number), digits) == 0:
        digits += 1
    return f"{number:+.{digits}f}"


def decided_change(difference: Estimate) -> str:
    """The change in words, with a note if the run cannot show whether there is one."""
    return f"{change(difference)}{'' if difference.excludes_zero or not difference.is_bounded else ', undecided'}"

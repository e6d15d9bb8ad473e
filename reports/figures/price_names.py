"""Where the names of the points of the price of safety stand, by the rule of `point_names.py`. Pure.

Shown by tests/reports/test_reports_price_names.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.point_names import LINE_PX, heights_apart, short_name
from reports.figures.price import PricePoint
from reports.figures.sweep.observations import CAPACITY

# A line of names is so much of the 268 pixels between the first and the last tick (`reports.render.charts`).
_GAP_SHARE: Final = LINE_PX / 268
NAMES_MAX: Final = 1 + math.floor(1 / _GAP_SHARE)
# Where all p99 are the same, an axis of this ratio has the names above each other.
_RATIO_MIN: Final = 1.25
_P99_MIN: Final = 0.001  # ms: the axis is logarithmic, and a time of nought has no place on it


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceName:
    """`p99_at`: the height at which it stands, in milliseconds of the axis. A line leads from the point to it."""

    name: str
    rate: float
    p99: float
    p99_at: float
    is_right: bool  # its point is on the right half, so it ends there instead of beginning


def price_names(points: Sequence[PricePoint]) -> tuple[PriceName, ...]:
    """Of more points than there are lines, those on the front have names first; the table below has all."""
    chosen = sorted(points, key=lambda point: not point.front)[:NAMES_MAX]
    in_order = sorted(chosen, key=lambda point: (point.p99, point.rate, point.title))
    heights = _heights([_log(point.p99) for point in in_order], points) if in_order else []
    middle = _middle(points)
    return tuple(
        PriceName(
            name=short_name(point.title),
            rate=point.rate,
            p99=point.p99,
            p99_at=math.exp(height),
            is_right=point.rate > middle,
        )
        for point, height in zip(in_order, heights, strict=True)
    )


def _middle(points: Sequence[PricePoint]) -> float:
    """Of the axis, which is logarithmic for capacities."""
    rates = [point.rate for point in points]
    if not rates:
        return 0.0
    if points[0].figure == CAPACITY and min(rates) > 0:
        return math.sqrt(min(rates) * max(rates))
    return (min(rates) + max(rates)) / 2


def _heights(wanted: Sequence[float], points: Sequence[PricePoint]) -> list[float]:
    low, high = _axis(points)
    return heights_apart(wanted, (high - low) * _GAP_SHARE, low=low, high=high)


def _axis(points: Sequence[PricePoint]) -> tuple[float, float]:
    """The ends of the axis, as logarithms: all points and their bars."""
    shown = [value for point in points for value in (point.p99, point.p99_low, point.p99_high) if value is not None]
    low, high = _log(min(shown)), _log(max(shown))
    missing = max(0.0, math.log(_RATIO_MIN) - (high - low))
    return low - missing / 2, high + missing / 2


def _log(p99: float) -> float:
    return math.log(max(p99, _P99_MIN))

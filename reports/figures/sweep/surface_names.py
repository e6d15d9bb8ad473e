"""Where the names of the points of a durability surface stand, so that none lies on another. Pure.

All points of a lane have the same height, so their names stand above and below it, a line apart, in the order of the
axis. The line of the points themselves, with their bars, stays free.
Shown by tests/reports/test_reports_surface_names.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from reports.figures.point_names import LINE_PX, heights_apart, short_name
from reports.figures.sweep.observations import BROKER_CPU, CAPACITY, P99, WIRE_BYTES

NAMES_MAX: Final = 16  # in a lane; the table has all
ON_FRONT: Final = "on the front"
ON_LOG_AXIS: Final = frozenset({CAPACITY, P99, BROKER_CPU, WIRE_BYTES})  # measures


class Named(Protocol):
    """A point of a surface."""

    @property
    def title(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def x(self) -> float: ...
    @property
    def front(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceName:
    """`down`: pixels below the height of its point. A line leads from the point to it."""

    name: str
    lane: str
    x: float
    down: float
    is_right: bool  # its point is on the right half, so it ends there instead of beginning


def surface_names(points: Sequence[Named], *, is_log: bool) -> tuple[SurfaceName, ...]:
    """Of more points in a lane than there are lines, those on the front have names first. `is_log`: of the axis."""
    middle = _middle([point.x for point in points], is_log=is_log)
    return tuple(
        SurfaceName(name=short_name(point.title), lane=lane, x=point.x, down=round(down, 2), is_right=point.x > middle)
        for lane in dict.fromkeys(point.lane for point in points)
        for point, down in _in_lane([point for point in points if point.lane == lane])
    )


def lines_in_a_lane(charts: Iterable[Sequence[SurfaceName]]) -> int:
    """How many lines the fullest lane of all charts needs, with that of its points."""
    most = max((count for names in charts for count in Counter(name.lane for name in names).values()), default=0)
    return 2 * _above(most) + 1


def _in_lane(points: Sequence[Named]) -> list[tuple[Named, float]]:
    chosen = sorted(points, key=lambda point: point.front != ON_FRONT)[:NAMES_MAX]
    in_order = sorted(chosen, key=lambda point: (point.x, point.title))
    above = _above(len(in_order))
    lines = heights_apart([0.0] * (2 * above + 1), LINE_PX, low=-math.inf, high=math.inf)
    free = [*lines[:above], *lines[above + 1 :]]
    return list(zip(in_order, free[: len(in_order)], strict=True))


def _above(count: int) -> int:
    """How many of the names stand above the points."""
    return (count + 1) // 2


def _middle(values: Sequence[float], *, is_log: bool) -> float:
    if not values:
        return 0.0
    least, most = min(values), max(values)
    return math.sqrt(least * most) if is_log and least > 0 else (least + most) / 2

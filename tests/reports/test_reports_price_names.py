"""No name of a point lies on another, and each stays as near to its point as that lets it."""

from __future__ import annotations

import itertools
import math

import pytest

from reports.figures.price import PricePoint
from reports.figures.price_names import _GAP_SHARE, NAMES_MAX, price_names


def point(title: str, p99: float, *, rate: float = 1000.0, front: bool = False, wide: float = 1.0) -> PricePoint:
    return PricePoint(
        title=title, settings="", safety="", figure="capacity", rate=rate, rate_low=None, rate_high=None, p99=p99,
        p99_low=p99 / wide, p99_high=p99 * wide, basis="", front=front,
    )  # fmt: skip


def gaps(points: list[PricePoint]) -> list[float]:
    """Between neighbours, as shares of what the axis shows in the end."""
    names = price_names(points)
    shown = [value for one in points for value in (one.p99, one.p99_low, one.p99_high) if value is not None]
    shown += [name.p99_at for name in names]
    length = math.log(max(shown)) - math.log(min(shown))
    heights = sorted(math.log(name.p99_at) for name in names)
    return [(high - low) / length for low, high in itertools.pairwise(heights)]


@pytest.mark.parametrize(
    "points",
    [
        [point("a", 5.0), point("b", 5.0), point("c", 5.0)],
        [point(f"p{index}", 5.0 + index / 1000) for index in range(NAMES_MAX)],
        [point("low", 1.0), *(point(f"p{index}", 1.0) for index in range(8)), point("high", 900.0)],
        [point("high", 900.0), *(point(f"p{index}", 900.0, wide=2.0) for index in range(8)), point("low", 1.0)],
        [point("a", 0.0), point("b", 0.0)],
    ],
    ids=["all the same", "as many as there are lines", "at the lower end", "at the upper end", "no time at all"],
)
def test_names_of_points_that_coincide_stand_a_line_apart(points: list[PricePoint]) -> None:
    if points[0].p99:
        assert min(gaps(points)) > _GAP_SHARE * (1 - 1e-9)
    heights = [name.p99_at for name in price_names(points)]
    assert len(set(heights)) == len(points)


def test_names_with_room_stand_at_their_points() -> None:
    points = [point("a", 1.0), point("b", 10.0), point("c", 100.0)]
    assert [name.p99_at for name in price_names(points)] == pytest.approx([1.0, 10.0, 100.0])


def test_two_neighbours_move_apart_by_the_same_and_nobody_else_moves() -> None:
    names = {
        name.name: name
        for name in price_names([point("a", 1.0), point("b", 30.0), point("c", 30.0), point("d", 900.0)])
    }
    assert names["a"].p99_at == pytest.approx(1.0)
    assert names["d"].p99_at == pytest.approx(900.0)
    assert names["b"].p99_at * names["c"].p99_at == pytest.approx(30.0 * 30.0)
    assert names["b"].p99 == names["c"].p99 == 30.0


def test_the_order_of_heights_is_that_of_the_points() -> None:
    names = price_names([point("slow", 30.2), point("fast", 30.0), point("middle", 30.1), point("far", 300.0)])
    assert [name.name for name in sorted(names, key=lambda name: name.p99_at)] == ["fast", "middle", "slow", "far"]


def test_a_name_on_the_right_half_ends_at_its_point_and_repeats_no_settings() -> None:
    left, right = price_names([point("acks=1 (linger.ms=5)", 1.0, rate=10.0), point("gzip", 2.0, rate=90.0)])
    assert (left.name, left.is_right) == ("acks=1", False)
    assert (right.name, right.is_right) == ("gzip", True)


def test_of_too_many_points_those_on_the_front_have_names() -> None:
    points = [point(f"p{index}", 5.0 + index, front=index >= 40) for index in range(50)]
    names = {name.name for name in price_names(points)}
    assert len(names) == NAMES_MAX
    assert {f"p{index}" for index in range(40, 50)} <= names


def test_no_points_have_no_names() -> None:
    assert price_names(()) == ()


def test_names_do_not_depend_on_the_order_of_points() -> None:
    points = [point("a", 5.0), point("b", 5.0), point("c", 5.1)]
    assert price_names(points) == price_names(points[::-1])

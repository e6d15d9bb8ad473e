"""No name of a point of the durability surface lies on another, and the lane has room for all of its names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from reports.figures.point_names import LINE_PX
from reports.figures.sweep.figures import SurfacePoint
from reports.figures.sweep.surface_names import NAMES_MAX, ON_FRONT, SurfaceName, lines_in_a_lane, surface_names
from reports.render.sweep_charts import specifications


def point(title: str, x: float, *, lane: str = "a", front: bool = False) -> SurfacePoint:
    return SurfacePoint(
        title=title, settings="", lane=lane, damage="", x=x, low=x, high=x,
        front=ON_FRONT if front else "beaten by another", share=0.0, figure="",
    )  # fmt: skip


def downs(names: Sequence[SurfaceName], lane: str = "a") -> list[float]:
    return [name.down for name in names if name.lane == lane]


@pytest.mark.parametrize("count", [1, 2, 5, NAMES_MAX])
def test_names_of_a_lane_stand_a_line_apart_and_off_the_line_of_their_points(count: int) -> None:
    names = surface_names([point(f"p{index}", 5.0) for index in range(count)], is_log=True)
    found = sorted([*downs(names), 0.0])
    assert [below - above for above, below in itertools.pairwise(found)] == [LINE_PX] * count
    assert 0.0 not in downs(names)
    assert max(abs(down) for down in found) <= (lines_in_a_lane([names]) - 1) / 2 * LINE_PX


def test_lanes_do_not_move_each_others_names() -> None:
    names = surface_names([point("a", 1.0), point("b", 1.0, lane="b"), point("c", 1.0, lane="b")], is_log=False)
    assert (downs(names), downs(names, "b")) == ([-LINE_PX], [-LINE_PX, LINE_PX])


def test_names_have_the_order_of_the_axis_whatever_that_of_the_points() -> None:
    points = [point("slow", 9.0), point("fast", 1.0), point("middle", 3.0)]
    assert [name.name for name in surface_names(points, is_log=False)] == ["fast", "middle", "slow"]
    assert surface_names(points, is_log=False) == surface_names(points[::-1], is_log=False)


def test_a_name_on_the_right_half_of_its_axis_ends_at_its_point() -> None:
    points = [point("acks=1 (linger.ms=5)", 1.0), point("gzip", 20.0), point("zstd", 100.0)]
    assert [(name.name, name.is_right) for name in surface_names(points, is_log=True)] == [
        ("acks=1", False), ("gzip", True), ("zstd", True)
    ]  # fmt: skip
    assert [name.is_right for name in surface_names(points, is_log=False)] == [False, False, True]


def test_of_too_many_points_those_on_the_front_have_names() -> None:
    points = [point(f"p{index}", 5.0 + index, front=index >= 40) for index in range(50)]
    names = {name.name for name in surface_names(points, is_log=False)}
    assert len(names) == NAMES_MAX
    assert {f"p{index}" for index in range(40, 50)} <= names


@pytest.mark.thorough
def test_a_lane_is_as_high_as_its_names() -> None:
    names = surface_names([point(f"p{index}", 5.0) for index in range(12)], is_log=False)
    assert lines_in_a_lane([names, names[:2]]) == 13, "that of the points too"
    assert lines_in_a_lane([]) == 1
    high = specifications(ratio_low=0.5, ratio_high=2.0, lines_in_a_lane=13)["surface_p99"]["height"]["step"]
    low = specifications(ratio_low=0.5, ratio_high=2.0)["surface_p99"]["height"]["step"]
    assert high >= 13 * LINE_PX > low

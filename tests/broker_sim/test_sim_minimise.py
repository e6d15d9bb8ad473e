"""The fewest inputs that show a fault."""

from __future__ import annotations

import pytest

from broker.sim.minimise import fewest


@pytest.mark.parametrize("needed", [{999}, {0}, {500, 999}, {3, 400, 401, 998}])
def test_only_what_is_needed_is_left(needed: set[int]) -> None:
    runs: list[int] = []

    def shows(some: list[int]) -> bool:
        runs.append(len(some))
        return needed <= set(some)

    assert fewest(range(1_000), shows, runs_max=200) == sorted(needed)
    assert len(runs) <= 200


def test_what_does_not_show_again_is_left_whole() -> None:
    assert fewest([1, 2, 3], lambda some: False) == [1, 2, 3]


def test_the_runs_are_bounded() -> None:
    runs = 0

    def shows(some: list[int]) -> bool:
        nonlocal runs
        runs += 1
        return sum(some) > 40_000

    found = fewest(range(300), shows, runs_max=20)
    assert sum(found) > 40_000
    assert runs <= 20

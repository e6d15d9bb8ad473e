"""A claim holds if its share is within what so many trials can tell."""

from __future__ import annotations

import pytest

from benchmarks.claims import Claim


@pytest.mark.parametrize(("count", "holds"), [(100, True), (95, True), (89, True), (88, False), (0, False)])
def test_a_claim_holds_within_what_its_trials_can_tell(count: int, holds: bool) -> None:
    assert Claim(text="", count=count, total=100, at_least=0.95).holds is holds


def test_a_share_holds_within_what_so_many_trials_can_tell() -> None:
    assert Claim(text="", count=8, total=60, at_most=0.05).holds
    assert not Claim(text="", count=9, total=60, at_most=0.05).holds
    assert not Claim(text="", count=0, total=0, at_most=0.05).holds


@pytest.mark.parametrize(("count", "total"), [(0, 0), (0, 1), (1, 2), (0, 9)])
def test_a_few_trials_cannot_show_that_a_claim_holds(count: int, total: int) -> None:
    claim = Claim(text="", count=count, total=total, at_most=0.05)
    assert (claim.is_told, claim.outcome) == (False, "too few to tell")


def test_a_few_trials_can_show_that_a_claim_does_not_hold() -> None:
    assert Claim(text="", count=5, total=5, at_most=0.05).outcome == "**does not**"


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.3085), (10, 10, 0.6915, 1.0), (8, 60, 0.0594, 0.2459), (1, 2, 0.0126, 0.9874), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_the_exact_one(count: int, total: int, low: float, high: float) -> None:
    """The values are of published tables of Clopper and Pearson's interval."""
    assert Claim(text="", count=count, total=total).interval == (
        pytest.approx(low, abs=5e-5),
        pytest.approx(high, abs=5e-5),
    )

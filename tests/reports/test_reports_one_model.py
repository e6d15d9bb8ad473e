"""Test and interval of a comparison use one model. No row is called worse if its interval contains "no change". No row
stays undecided if its interval excludes "no change"."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.figures.compare.comparison import (
    BETTER,
    CORRECTNESS,
    RELEVANT,
    SAME,
    UNDECIDED,
    WHOLE_RUN,
    WORSE,
    Row,
    compare,
    pair_up,
)
from reports.figures.statistics.discoveries import FALSE_DISCOVERIES, benjamini_hochberg, comparisons_of
from reports.figures.statistics.distributions import t_cdf
from reports.figures.statistics.variance import interval
from runlog.records.measurements import Measurement
from tests.amount import examples
from tests.reports.comparison_trials import forked_run, made_run

MARGIN = math.log1p(RELEVANT)
LESS_IS_BETTER = ("p99", "broker_cpu", "wire_bytes", "gap")
NEARLY = 1e-9  # two roads to one number


@settings(deadline=None, max_examples=examples(150))
@given(
    tests=st.lists(
        st.tuples(
            st.floats(min_value=-3, max_value=3), st.floats(min_value=0.01, max_value=1), st.integers(1, 40)
        ),
        min_size=1,
        max_size=60,
    )
)  # fmt: skip
def test_widened_intervals_exclude_no_change_just_where_the_test_is_a_discovery(
    tests: list[tuple[float, float, int]],
) -> None:
    p_values = np.array([2 * (1 - t_cdf(abs(value) / error, df)) for value, error, df in tests])
    adjusted = benjamini_hochberg(p_values)
    comparisons = comparisons_of(adjusted)
    for (value, error, df), q in zip(tests, adjusted, strict=True):
        is_discovery = q <= FALSE_DISCOVERIES
        found = interval(value, error, df, comparisons)
        # Numbers at the very limit may fall on either side: quantile and distribution are inverse but for rounding.
        if min(abs(found.low), abs(found.high)) > 1e-6:
            assert found.excludes_zero == is_discovery


def made(rng: random.Random) -> tuple[list[Measurement], list[Measurement]]:
    """Two runs of any shape: repetitions, noise and change, on one cluster or several, with gaps and chaos cells."""
    cells, noise = rng.randint(1, 7), rng.choice([0.0, 0.002, 0.02, 0.1, 0.4])
    change = rng.choice([0.0, 0.0, 0.03, 0.06, 0.3, -0.2])
    sides = []
    for side in (0, 1):
        repetitions, planted = rng.randint(1, 6), change if side else 0.0
        if rng.random() < 0.3:
            run = forked_run(rng.randrange(9**9), forks=repetitions, cells=cells, noise=noise, change=planted)
        else:
            run = made_run(rng.randrange(9**9), cells=cells, repetitions=repetitions, noise=noise, change=planted)
        chaos = [
            replace(cell, name=f"chaos-{cell.name}", kind="chaos", values={}, gap_ms=100 * rng.lognormvariate(0, noise))
            for cell in run
            if rng.random() < 0.5
        ]
        sides.append([cell for cell in run if rng.random() < 0.95] + chaos)
    return sides[0], sides[1]


@pytest.mark.thorough
@settings(deadline=None, max_examples=examples(120))
@given(seed=st.integers(min_value=0, max_value=10**9))
def test_a_row_says_what_its_interval_says(seed: int) -> None:
    for row in compare(pair_up(*made(random.Random(seed)))).rows:
        if row.measure != CORRECTNESS and row.change is not None:
            _hold_together(row)


def _hold_together(row: Row) -> None:
    change = row.change
    assert change is not None
    if row.result in (BETTER, WORSE):
        assert change.excludes_zero
        assert abs(change.value) >= MARGIN - NEARLY
        assert (row.result == WORSE) == ((change.value > 0) == (row.measure in LESS_IS_BETTER))
        assert row.q is not None
        assert row.q <= FALSE_DISCOVERIES + 1e-6
        assert min(row.repetitions) >= 2
    elif row.result == SAME:
        assert change.low >= -MARGIN
        assert change.high <= MARGIN
    else:
        assert row.result == UNDECIDED
        assert not (change.excludes_zero and abs(change.value) >= MARGIN)
    if min(row.repetitions) < 2:
        assert row.result == UNDECIDED


def test_a_row_with_few_discoveries_has_wider_intervals_than_one_that_all_share() -> None:
    base = made_run(1, cells=6, repetitions=5, noise=0.03)
    alike, changed = (
        [
            row.change
            for row in compare(pair_up(base, made_run(2, cells=6, repetitions=5, noise=0.03, change=change))).rows
            if row.measure == "p99" and row.cell != WHOLE_RUN and row.change is not None
        ]
        for change in (0.0, 0.5)
    )
    widths = [np.mean([one.high - one.low for one in family]) for family in (alike, changed)]
    assert widths[0] > 1.2 * widths[1]

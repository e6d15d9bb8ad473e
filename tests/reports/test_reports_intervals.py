"""Intervals of a sweep's effects hold when one configuration scatters three times as much, and for a column together.

The trials in full, with their table, are `python -m tests.reports.interval_trials`.
"""

from __future__ import annotations

import pytest

from tests.reports.interval_trials import BASE, KINDS, ONE, columns, coverage_of_all, coverage_of_last

_TRIALS = 120


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.thorough
def test_two_repetitions_hold_for_each_setting_and_for_a_column_of_six_together(kind: str) -> None:
    found = columns(kind, others=6, repetitions=2, baseline_runs=2, trials=_TRIALS)
    assert coverage_of_last(found) >= 0.93
    assert coverage_of_all(found) >= 0.95 - 0.04  # two standard errors of so few trials
    assert sum(one.has_false_dot for one in found) / _TRIALS <= 0.05 + 0.04


@pytest.mark.parametrize("kind", [ONE, BASE])
@pytest.mark.long
@pytest.mark.thorough
def test_one_setting_alone_holds_too(kind: str) -> None:
    assert coverage_of_last(columns(kind, others=1, repetitions=2, baseline_runs=1, trials=_TRIALS)) >= 0.93 - 0.02

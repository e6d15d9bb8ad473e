"""Predicts what the recommended configuration will show on a cluster that the sweep did not see. A confirmation is
compared with this figure.

It differs from the configuration's level in the sweep in two ways:

- Its interval contains the scatter of one more cluster (a prediction interval), not only the uncertainty of the mean.
- It is corrected for selection bias: the level of the configuration that looked best is too good, because it was chosen
  for that level. Cross-validation estimates the bias (Tibshirani and Tibshirani 2009, the bias of a minimum,
  https://doi.org/10.1214/08-AOAS224). Each cluster in turn is left out, and the others choose by the whole rule of the
  recommendation. The level of their choice on the cluster left out is compared with its level on the others. If every
  such choice is the same, nothing is corrected.

On one cluster neither can be known: then the level is the prediction. See docs/decisions/0007-forks.md. Pure numpy.
Shown by tests/reports/test_reports_forks.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from reports.figures.statistics.variance import Estimate, FloatArray
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.observations import BY_NAME, Configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One measure of one configuration. `expected` is ln(value) with the interval in which one more cluster lies."""

    expected: Estimate
    flattery: float  # ln of what was taken from the level, in the unfavourable direction; 0: nothing
    forks: int  # clusters behind it; 1: `expected` is the level, and holds the scatter of one cluster only
    rounds: int  # on each cluster; the mean of them is predicted


def predict(
    means: Mapping[str, CellMeans], chosen: Configuration, chosen_without: Mapping[int, Configuration]
) -> dict[str, Prediction]:
    """Measure -> prediction. `chosen_without` has for each cluster what the others would have chosen; a cluster without
    which nothing was chosen is absent."""
    found: dict[str, Prediction] = {}
    for name, one in means.items():
        level = one.level(chosen)
        if level is None:
            continue
        expected = one.in_new_fork(chosen)
        if expected is None or one.forks is None:
            found[name] = Prediction(expected=level, flattery=0.0, forks=1, rounds=0)
            continue
        shift = flattery(one, chosen_without)
        shift = min(0.0, shift) if BY_NAME[name].more_is_better else max(0.0, shift)
        moved = replace(
            expected, value=expected.value + shift, low=expected.low + shift, high=expected.high + shift
        )  # fmt: skip
        found[name] = Prediction(expected=moved, flattery=shift, forks=one.forks.count, rounds=one.forks.rounds)
    return found


def flattery(means: CellMeans, chosen_without: Mapping[int, Configuration]) -> float:
    """By how much, in ln, a chosen configuration lies above what it had when it was chosen.

    A cluster's shift is all configurations' alike and chooses nothing, so only residuals count, smoothed by the model
    where the levels are. The choice of one cluster fewer is that much blinder: its noise is larger by the root of
    clusters to clusters less one, and so is what is learnt from it.
    """
    assert means.forks is not None
    residuals: FloatArray = means.forks.residuals
    if means.projection is not None:
        residuals = means.projection @ residuals
    count = means.forks.count
    found: list[float] = []
    for column, fork in enumerate(means.forks.numbers):
        place = means.index(chosen_without[fork]) if fork in chosen_without else None
        if place is None:
            continue
        shown = float(residuals[place, column])
        thought = float(np.delete(residuals[place], column).mean())
        found.append(shown - thought)
    return math.sqrt((count - 1) / count) * sum(found) / len(found) if found else 0.0

"""Confirms a recommendation: compares what the sweep predicted for a configuration with what a new run of it measured.

- A sweep on several clusters (`forks`) predicts where one more cluster lies. That interval alone decides, if the new
  run has as many cells on its cluster as the prediction assumes.
- A sweep on one cluster gives the interval of a mean, and so does the new run. Both are needed to say whether they
  differ. Neither contains the difference from cluster to cluster.
- No interval contains the changes from hour to hour. So a difference below `relevant` is never worse or better.
- Several figures are judged together, so each interval is wider (Bonferroni): of 100 predictions that are true at most
  5 are called worse in any figure.
- An interval that would also hold a very different figure confirms nothing: `DECIDES`.

Pure. Shown by tests/reports/test_reports_confirm.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from reports.figures.measurements import with_compiler
from reports.figures.statistics.distributions import t_quantile
from reports.figures.statistics.variance import Estimate, interval
from reports.figures.sweep.observations import BROKER_CPU, BY_NAME, MEASURES
from runlog.records.confirmation import CompilerAside, Confirmation, ConfirmationResult
from runlog.records.measurements import Measurement
from runlog.records.sweep import PredictedFigure

RELEVANT: Final = 0.05
CONFIRMED, BETTER, WORSE = ConfirmationResult.CONFIRMED, ConfirmationResult.BETTER, ConfirmationResult.WORSE
UNDECIDED, UNKNOWN = ConfirmationResult.UNDECIDED, ConfirmationResult.UNKNOWN
_SHOWN_MAX: Final = math.log(100.0)
_REPETITIONS_MIN: Final = 2  # one repetition does not show the scatter
DECIDES: Final = 0.25  # "confirmed" needs an interval that is no wider than this share of the figure, to each side


def values_of(predicted: Mapping[str, PredictedFigure], cells: Sequence[Measurement]) -> dict[str, list[float]]:
    """Measure -> what each cell of the new run has; broker CPU contains the compilers' part if the prediction does."""
    cpu = predicted.get(BROKER_CPU)
    contained = cpu is None or cpu.compiler is None
    values: dict[str, list[float]] = {}
    for cell in cells:
        for measure, value in (with_compiler(cell) if contained else cell).values.items():
            values.setdefault(measure, []).append(value)
    return values


def compiler_aside(predicted: Mapping[str, PredictedFigure], cells: Sequence[Measurement]) -> CompilerAside | None:
    """The CPU of the compilers. None if the prediction does not have it."""
    cpu = predicted.get(BROKER_CPU)
    if cpu is None or cpu.compiler is None:
        return None
    found = [cell.compiler_us_per_record for cell in cells if cell.compiler_us_per_record is not None]
    return CompilerAside(predicted=cpu.compiler, measured=sum(found) / len(found) if found else None)


def confirm(
    predicted: Mapping[str, PredictedFigure], measured: Mapping[str, Sequence[float]], *, relevant: float = RELEVANT
) -> list[Confirmation]:
    """`measured` has the values of measurements.json."""
    names = [measure.name for measure in MEASURES if measure.name in predicted]
    figures = {name: _usable(name, measured) for name in names}
    judged = sum(len(values) >= _REPETITIONS_MIN for values in figures.values())
    # Only one side of each interval is worse.
    comparisons = max(1.0, judged / 2)
    return [_one(name, predicted[name], figures[name], relevant, comparisons) for name in names]


def _usable(name: str, measured: Mapping[str, Sequence[float]]) -> list[float]:
    return [value * BY_NAME[name].scale for value in measured.get(name, ()) if value > 0]


def exit_code(confirmations: Sequence[Confirmation]) -> int:
    """0 as predicted or better, 1 worse, 4 if a figure is missing or undecided."""
    results = {each.result for each in confirmations}
    if WORSE in results:
        return 1
    return 0 if results and results <= {CONFIRMED, BETTER} else 4


def _one(
    name: str, predicted: PredictedFigure, values: Sequence[float], relevant: float, comparisons: float
) -> Confirmation:
    measure = BY_NAME[name]
    expected = (predicted.value, predicted.low, predicted.high)
    if len(values) < _REPETITIONS_MIN or expected[0] <= 0:
        return Confirmation(
            measure=name, title=measure.title, unit=measure.unit, predicted=expected, measured=None,
            repetitions=len(values), result=UNKNOWN,
        )  # fmt: skip
    logs = np.log(values)
    error = float(logs.std(ddof=1)) / math.sqrt(len(values))
    found = interval(float(logs.mean()), error, len(values) - 1)
    value, low, high = found.ratio
    difference = found.value - math.log(expected[0])
    of_new_cluster = predicted.forks > 1 and len(values) >= predicted.rounds
    allowed = _allowed(predicted, None if of_new_cluster else found, comparisons)
    if abs(difference) <= max(allowed, math.log1p(relevant)):
        result = CONFIRMED if allowed <= math.log1p(DECIDES) else UNDECIDED
    else:
        result = BETTER if (difference > 0) == measure.more_is_better else WORSE
    return Confirmation(
        measure=name, title=measure.title, unit=measure.unit, predicted=expected, measured=(value, low, high),
        repetitions=len(values), allowed_share=math.expm1(allowed) if allowed < _SHOWN_MAX else None, result=result,
    )  # fmt: skip


def _allowed(predicted: PredictedFigure, found: Estimate | None, comparisons: float) -> float:
    """The largest difference, in logarithms, that is none: Student's t with the errors of the prediction and of what
    was found (Welch), or of the prediction alone. Infinite if the prediction has no interval."""
    if not predicted.low or not predicted.high:
        return math.inf
    df = predicted.df or math.inf
    variances = [(math.log(predicted.high / predicted.low) / 2 / t_quantile(0.975, df)) ** 2]
    dfs = [df]
    if found is not None:
        variances.append(found.standard_error**2)
        dfs.append(found.df)
    variance = sum(variances)
    doubt = sum(part**2 / own for part, own in zip(variances, dfs, strict=True))
    own_df = variance**2 / doubt if doubt > 0 else math.inf
    return t_quantile(1 - 0.025 / comparisons, own_df) * math.sqrt(variance)

"""Confirms a recommendation: compares what the sweep predicted for a configuration with what a new run of it measured.

- A sweep on several clusters (`forks`) predicts where one more cluster lies. That interval alone decides, if the new
  run has as many cells on its cluster as the prediction assumes.
- A sweep on one cluster gives the interval of a mean, and so does the new run. Both are needed to say whether they
  differ. Neither contains the difference from cluster to cluster.
- No interval contains the changes from hour to hour. So a difference below `relevant` always counts as confirmed.

Pure. Shown by tests/reports/test_reports_confirm.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from reports.figures.measurements import with_compiler
from reports.figures.statistics.variance import interval
from reports.figures.sweep.observations import BROKER_CPU, BY_NAME, MEASURES
from runlog.records.confirmation import CompilerAside, Confirmation, ConfirmationResult
from runlog.records.measurements import Measurement
from runlog.records.sweep import PredictedFigure

RELEVANT: Final = 0.05
CONFIRMED, BETTER, WORSE = ConfirmationResult.CONFIRMED, ConfirmationResult.BETTER, ConfirmationResult.WORSE
UNDECIDED, UNKNOWN = ConfirmationResult.UNDECIDED, ConfirmationResult.UNKNOWN
_REPETITIONS_MIN: Final = 2  # one repetition does not show the scatter
_DOUBT_MAX: Final = math.log(2)  # an interval that holds half and double of a figure confirms nothing


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
    return [
        _one(measure.name, predicted[measure.name], measured, relevant)
        for measure in MEASURES
        if measure.name in predicted
    ]


def exit_code(confirmations: Sequence[Confirmation]) -> int:
    """0 as predicted or better, 1 worse, 4 if there is nothing to judge by."""
    results = {each.result for each in confirmations}
    if WORSE in results:
        return 1
    return 0 if results and results <= {CONFIRMED, BETTER} else 4


def _one(
    name: str, predicted: PredictedFigure, measured: Mapping[str, Sequence[float]], relevant: float
) -> Confirmation:
    measure = BY_NAME[name]
    expected = (predicted.value, predicted.low, predicted.high)
    values = [value * measure.scale for value in measured.get(name, ()) if value > 0]
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
    measured_half, predicted_half = (found.high - found.low) / 2, _half_width(expected[1], expected[2])
    of_new_cluster = predicted.forks > 1 and len(values) >= predicted.rounds
    allowed = predicted_half if of_new_cluster else math.hypot(measured_half, predicted_half)
    if abs(difference) <= max(allowed, math.log1p(relevant)):
        result = CONFIRMED if allowed <= _DOUBT_MAX else UNDECIDED
    else:
        result = BETTER if (difference > 0) == measure.more_is_better else WORSE
    return Confirmation(
        measure=name, title=measure.title, unit=measure.unit, predicted=expected, measured=(value, low, high),
        repetitions=len(values), result=result,
    )  # fmt: skip


def _half_width(low: float | None, high: float | None) -> float:
    """Half the width of an interval, in logarithms; infinite if it is not known."""
    return math.log(high / low) / 2 if low and high else math.inf

"""Levels of a sweep in the units that are shown, and what a recommendation is compared with. Pure."""

from __future__ import annotations

import math

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.observations import BROKER_CPU, BY_NAME, compiler_us
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from runlog.records.sweep import Level, PredictedFigure


def level_of(estimate: Estimate, measure: str) -> Level:
    scale = BY_NAME[measure].scale
    low, high = estimate.bounds
    return Level(
        value=round(estimate.ratio[0] * scale, 6),
        low=None if low is None else round(low * scale, 6),
        high=None if high is None else round(high * scale, 6),
        unit=BY_NAME[measure].unit,
    )


def predicted_levels(analysis: SweepAnalysis) -> dict[str, PredictedFigure]:
    """The predicted figures by measure; empty without a recommendation."""
    point = analysis.recommendation.point
    if point is None:
        return {}
    compiler = compiler_us(point.configuration, analysis.observations)
    found: dict[str, PredictedFigure] = {}
    for name, own in analysis.recommendation.predicted.items():
        expected = level_of(own.expected, name)
        found[name] = PredictedFigure(
            value=expected.value,
            low=expected.low,
            high=expected.high,
            df=round(own.expected.df, 3) if own.expected.is_bounded and math.isfinite(own.expected.df) else None,
            unit=expected.unit,
            forks=own.forks,
            rounds=own.rounds,
            flattery=round(math.exp(own.flattery), 6),
            level=level_of(point.levels[name], name),
            compiler=round(compiler, 6) if name == BROKER_CPU and compiler is not None else None,
        )
    return found

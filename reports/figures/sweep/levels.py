"""Levels of a sweep in the units that are shown, and what a recommendation is compared with. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.analysis import SweepAnalysis
from reports.figures.sweep.observations import BROKER_CPU, BY_NAME
from reports.figures.sweep.recommend import compiler_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A figure with its 95 % interval, where that is known."""

    value: float
    low: float | None
    high: float | None
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedLevel:
    """What one more cluster is expected to show."""

    expected: Level
    forks: int
    rounds: int
    flattery: float  # ratio: what being chosen made of the figure
    level: Level  # what the sweep itself saw
    compiler: float | None  # of broker CPU: the compilers' part beside it. None: it is in it, or there is none


def level_of(estimate: Estimate, measure: str) -> Level:
    scale = BY_NAME[measure].scale
    low, high = estimate.bounds
    return Level(
        value=round(estimate.ratio[0] * scale, 6),
        low=None if low is None else round(low * scale, 6),
        high=None if high is None else round(high * scale, 6),
        unit=BY_NAME[measure].unit,
    )


def predicted_levels(analysis: SweepAnalysis) -> dict[str, PredictedLevel]:
    """By measure; empty without a recommendation."""
    point = analysis.recommendation.point
    if point is None:
        return {}
    compiler = compiler_us(point.configuration, analysis.observations)
    return {
        name: PredictedLevel(
            expected=level_of(own.expected, name),
            forks=own.forks,
            rounds=own.rounds,
            flattery=round(math.exp(own.flattery), 6),
            level=level_of(point.levels[name], name),
            compiler=round(compiler, 6) if name == BROKER_CPU and compiler is not None else None,
        )
        for name, own in analysis.recommendation.predicted.items()
    }

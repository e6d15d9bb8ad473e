"""The input of a recommendation, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.combination import Combination
from reports.figures.sweep.effects import Effects
from reports.figures.sweep.front import Point
from reports.figures.sweep.observations import Configuration, Observation
from reports.figures.sweep.prediction import Prediction
from runlog.records.sweep import Sensitivity


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    points: Sequence[Point]
    observations: Sequence[Observation]
    means: Mapping[str, CellMeans]
    effects: Mapping[str, Effects]
    sensitivities: Sequence[Sensitivity]
    baseline: Configuration | None
    load: str  # "3,000 records/s of 1,024 B"
    chosen_without: Mapping[int, Configuration]  # cluster -> what the others would have chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    point: Point | None
    objective: str  # measure that decided
    sentences: tuple[str, ...]  # what to run, how sure, what would change it
    certainty: float | None  # share of draws in which it is the best, or within the margin of the best
    ties: tuple[str, ...]
    combination: Combination | None
    predicted: Mapping[str, Prediction]  # The recommended configuration's. The key is the measure.

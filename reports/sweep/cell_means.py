"""One measure over all configurations: means of logarithms, freed of what differs from round to round, with variances.

Repetitions are interleaved in rounds, each configuration once a round, so a host that slows down shows as a round and
not as a setting. Scatter between repetitions gives the variance, drawn together over configurations; the block
bootstrap inside the cells is its floor, and all there is where nothing was repeated. Pure numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.statistics.variance import Estimate, FloatArray, contrast, moderate
from reports.sweep.observations import Configuration, Observation

_ROUND_CONFIGURATIONS_MIN = 4  # with fewer, the rounds' own degrees of freedom cost more than they give


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMeans:
    measure: str
    configurations: tuple[Configuration, ...]
    means: FloatArray  # of ln(value)
    mean_variances: FloatArray
    dfs: FloatArray
    counts: tuple[int, ...]  # repetitions that were used
    repeated: bool  # the variance is that between repetitions; else only that inside one run
    scatter: float  # standard deviation of ln(value) of one repetition, typical of the sweep
    scatter_df: float
    projection: FloatArray | None = None  # onto the model of a factorial design: every cell then speaks for every other

    def index(self, configuration: Configuration) -> int | None:
        return self.configurations.index(configuration) if configuration in self.configurations else None

    def difference(self, weights: FloatArray, comparisons: int = 1) -> Estimate:
        df_max = self.scatter_df if self.repeated else math.inf
        if self.projection is not None:
            weights = weights @ self.projection
        return contrast(weights, self.means, self.mean_variances, self.dfs, df_max=df_max, comparisons=comparisons)

    def between(self, base: Configuration, other: Configuration) -> Estimate | None:
        """ln(other) - ln(base); None if one of them has no usable figure."""
        first, second = self.index(base), self.index(other)
        if first is None or second is None:
            return None
        weights = np.zeros(len(self.configurations))
        weights[second] += 1.0
        weights[first] -= 1.0
        return self.difference(weights)

    def level(self, configuration: Configuration) -> Estimate | None:
        """ln(value) of one configuration."""
        place = self.index(configuration)
        if place is None:
            return None
        weights = np.zeros(len(self.configurations))
        weights[place] = 1.0
        return self.difference(weights)


def cell_means(observations: Sequence[Observation], measure: str) -> CellMeans | None:
    """None when no cell has the figure."""
    used = [item for item in observations if item.values.get(measure, 0.0) > 0]
    if not used:
        return None
    configurations = tuple(dict.fromkeys(item.configuration for item in used))
    groups = np.array([configurations.index(item.configuration) for item in used])
    values = np.log(np.array([item.values[measure] for item in used]))
    counts = np.bincount(groups, minlength=len(configurations))
    rounds = sorted({item.round for item in used})
    blocked = len(rounds) > 1 and len(configurations) >= _ROUND_CONFIGURATIONS_MIN and bool((counts > 1).sum() >= 2)
    means, residuals, df_total = _fit(values, groups, [item.round for item in used], rounds, blocked=blocked)
    own_df = np.maximum(counts - 1, 0).astype(np.float64)
    inside = _inside(used, groups, measure, len(configurations))
    if df_total > 0:
        own_df *= df_total / own_df.sum()
        squares = np.bincount(groups, weights=residuals**2, minlength=len(configurations))
        variances = np.divide(squares, own_df, out=np.zeros_like(squares), where=own_df > 0)
        moderated = moderate(variances, own_df)
        spread, dfs = np.maximum(moderated.variances, inside), moderated.dfs
        scatter = math.sqrt(float((variances * own_df).sum() / own_df.sum()))
    else:
        spread, dfs = inside, np.full(len(configurations), math.inf)
        scatter = math.sqrt(float(np.mean(inside)))
    return CellMeans(
        measure=measure,
        configurations=configurations,
        means=means,
        mean_variances=spread / counts,
        dfs=dfs,
        counts=tuple(int(count) for count in counts),
        repeated=df_total > 0,
        scatter=scatter,
        scatter_df=float(df_total),
    )


def _inside(used: Sequence[Observation], groups: FloatArray, measure: str, number: int) -> FloatArray:
    """Mean variance of ln(value) inside the cells of each configuration, by the block bootstrap."""
    squares = np.array([item.log_errors.get(measure, 0.0) ** 2 for item in used])
    return np.asarray(
        np.bincount(groups, weights=squares, minlength=number) / np.bincount(groups, minlength=number),
        dtype=np.float64,
    )


def _fit(
    values: FloatArray, groups: FloatArray, round_of: Sequence[int], rounds: Sequence[int], *, blocked: bool
) -> tuple[FloatArray, FloatArray, int]:
    """Least squares with one mean a configuration and, if blocked, one offset a round; offsets sum to zero."""
    number = int(groups.max()) + 1
    design = np.zeros((len(values), number))
    design[np.arange(len(values)), groups] = 1.0
    if blocked:
        offsets = np.zeros((len(values), len(rounds) - 1))
        for row, own in enumerate(round_of):
            place = rounds.index(own)
            if place < len(rounds) - 1:
                offsets[row, place] = 1.0
            else:
                offsets[row, :] = -1.0
        design = np.hstack([design, offsets])
    solution, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    residuals = values - design @ solution
    return np.asarray(solution[:number]), np.asarray(residuals), len(values) - int(rank)

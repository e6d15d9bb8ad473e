"""One measure over all configurations: means of logarithms without the effect of the round, with their variances.

Repetitions are interleaved in rounds, and each configuration runs once in each round. So if the host slows down, that
shows as an effect of the round and not of a setting.

The variance comes from the scatter between repetitions, shrunk together over configurations, but only a little: one
configuration may scatter three times as much as the others, and two repetitions do not show it
(tests/reports/interval_trials.py). The block bootstrap inside the cells is its lower limit. Without repetitions the
bootstrap is the only source. If there is none either, the variance is infinite, which means unknown.

If the rounds are distributed over clusters of their own (forks), a cluster is the unit. The cells of a configuration on
one cluster become one figure, and the fit removes the effect of clusters instead of rounds. The common shift of a round
or a cluster cancels in differences, but a level contains it. docs/decisions/0007-forks.md has the rule and its reasons.
Pure numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from reports.figures.statistics.variance import Estimate, FloatArray, SharedScatter, contrast, moderate
from reports.figures.sweep.observations import Configuration, Observation, doubted_configurations

# The scatter that all configurations share counts as one more repetition of each, and no more.
PRIOR_DF_MAX: Final = 1.0
_ROUND_CONFIGURATIONS_MIN = 4  # with fewer, fitting rounds costs more degrees of freedom than it gains


@dataclass(frozen=True, slots=True, kw_only=True)
class Forks:
    """The scatter of the clusters of a sweep, in logarithms."""

    numbers: tuple[int, ...]  # The clusters' numbers, from 1.
    rounds: int  # on each cluster, typically
    offsets: FloatArray  # Each cluster against the mean of all, over the configurations. Empty: not fitted.
    residuals: FloatArray  # [configuration, cluster]: what neither mean nor offset explains; 0 if there is no figure

    @property
    def count(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellMeans:
    measure: str
    configurations: tuple[Configuration, ...]
    means: FloatArray  # Means of ln(value).
    mean_variances: FloatArray  # without the common shift of a cluster
    dfs: FloatArray
    counts: tuple[int, ...]  # repetitions that were used; with forks: clusters
    repeated: bool  # True: the variance is that between repetitions. False: only that inside one run
    # Standard deviation of ln(value) of one repetition (of one cluster's mean), typical of the sweep; inf: unknown.
    scatter: float
    scatter_df: float
    forks: Forks | None = None  # None: all ran on one cluster, and intervals include only its scatter
    shared: SharedScatter | None = None  # shifts of whole clusters; without forks, of whole rounds
    doubted: frozenset[Configuration] = frozenset()  # Those with cells half or fewer of which the verdict trusts.
    projection: FloatArray | None = None  # onto the model of a factorial design: all cells contribute to each mean

    def index(self, configuration: Configuration) -> int | None:
        return self.configurations.index(configuration) if configuration in self.configurations else None

    def difference(self, weights: FloatArray, comparisons: int = 1) -> Estimate:
        return self._contrast(weights, comparisons=comparisons, shared=self.shared)

    def between(self, base: Configuration, other: Configuration) -> Estimate | None:
        """ln(other) - ln(base); None if one of them has no usable figure. The interval is wide enough for all others
        that are compared with one configuration at the same time."""
        first, second = self.index(base), self.index(other)
        if first is None or second is None:
            return None
        others = max(1, len(self.configurations) - 1)
        return self.difference(self._unit(second) - self._unit(first), comparisons=others)

    def level(self, configuration: Configuration) -> Estimate | None:
        """ln(value) of one configuration, as the mean of all clusters like these."""
        place = self.index(configuration)
        return None if place is None else self._contrast(self._unit(place), shared=self.shared)

    def standing(self, configuration: Configuration) -> Estimate | None:
        """The level without the shift that all configurations share. Only this part matters in a comparison."""
        place = self.index(configuration)
        return None if place is None else self._contrast(self._unit(place), shared=None)

    def in_new_fork(self, configuration: Configuration) -> Estimate | None:
        """A prediction interval: ln(value) of one configuration on one more cluster, in as many rounds as these had.
        None without forks, because one cluster says nothing about another."""
        place = self.index(configuration)
        if place is None or self.forks is None or not self.repeated:
            return None
        noise = float(self.mean_variances[place]) * self.counts[place]
        return self._contrast(self._unit(place), shared=self.shared, new_noise=noise)

    def _unit(self, place: int) -> FloatArray:
        weights = np.zeros(len(self.configurations))
        weights[place] = 1.0
        return weights

    def _contrast(
        self,
        weights: FloatArray,
        *,
        shared: SharedScatter | None,
        comparisons: int = 1,
        new_noise: float | None = None,
    ) -> Estimate:
        return contrast(
            weights if self.projection is None else weights @ self.projection,
            self.means,
            self.mean_variances,
            self.dfs,
            df_max=self.scatter_df if self.repeated else math.inf,
            comparisons=comparisons,
            shared=shared,
            new_noise=new_noise,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Samples:
    """The data of the fit: one figure for each cell, or one for each configuration on each cluster."""

    values: FloatArray  # ln
    groups: npt.NDArray[np.int64]  # configuration of each
    blocks: tuple[int, ...]  # round or cluster of each
    inside: FloatArray  # variance of each by the block bootstrap inside its cells; 0 if there is none
    inside_is_known: npt.NDArray[np.bool_]


def cell_means(observations: Sequence[Observation], measure: str) -> CellMeans | None:
    """The means of one measure. None if no cell has the figure."""
    used = [item for item in observations if item.values.get(measure, 0.0) > 0]
    if not used:
        return None
    configurations = tuple(dict.fromkeys(item.configuration for item in used))
    number = len(configurations)
    has_forks = len({item.fork for item in used}) > 1
    samples = _by_cell(used, configurations, measure)
    if has_forks:
        samples = _by_fork(used, samples, number)
    counts = np.bincount(samples.groups, minlength=number)
    blocks = sorted(set(samples.blocks))
    # With few configurations, the effect of the rounds of one cluster is not fitted. Clusters are a part of the design,
    # so their effect is always fitted.
    least = 2 if has_forks else _ROUND_CONFIGURATIONS_MIN
    blocked = len(blocks) > 1 and number >= least and bool((counts > 1).sum() >= 2)
    fit = _fit(samples.values, samples.groups, samples.blocks, blocks, blocked=blocked)
    own_df = np.maximum(counts - 1, 0).astype(np.float64)
    inside = np.bincount(samples.groups, weights=samples.inside, minlength=number) / counts
    if fit.df > 0:
        own_df *= fit.df / own_df.sum()
        squares = np.bincount(samples.groups, weights=fit.residuals**2, minlength=number)
        variances = np.divide(squares, own_df, out=np.zeros_like(squares), where=own_df > 0)
        moderated = moderate(variances, own_df, PRIOR_DF_MAX)
        spread, dfs = np.maximum(moderated.variances, inside), moderated.dfs
        scatter = math.sqrt(float((variances * own_df).sum() / own_df.sum()))
    else:
        known = np.bincount(samples.groups, weights=samples.inside_is_known, minlength=number) == counts
        spread, dfs = np.where(known, inside, math.inf), np.full(number, math.inf)
        scatter = math.sqrt(float(np.mean(inside[known]))) if known.any() else math.inf
    # Rounds of one cluster differ too, and another round would differ again. This is a part of the uncertainty of a
    # level.
    shared = None
    if blocked and fit.df > 0:
        shared = SharedScatter(variance=float(fit.offsets.var(ddof=1)), blocks=len(blocks), groups=number)
    return CellMeans(
        measure=measure,
        configurations=configurations,
        means=fit.means,
        mean_variances=spread / counts,
        dfs=dfs,
        counts=tuple(int(count) for count in counts),
        repeated=fit.df > 0,
        scatter=scatter,
        scatter_df=float(fit.df),
        forks=_forks(used, samples, blocks, fit, number) if has_forks else None,
        shared=shared,
        doubted=doubted_configurations(used),
    )


def _by_cell(used: Sequence[Observation], configurations: Sequence[Configuration], measure: str) -> _Samples:
    return _Samples(
        values=np.log(np.array([item.values[measure] for item in used])),
        groups=np.array([configurations.index(item.configuration) for item in used]),
        blocks=tuple(item.round for item in used),
        inside=np.array([item.log_errors.get(measure, 0.0) ** 2 for item in used]),
        inside_is_known=np.array([measure in item.log_errors for item in used]),
    )


def _by_fork(used: Sequence[Observation], cells: _Samples, number: int) -> _Samples:
    """Means of the cells of each configuration on each cluster. Cells of one cluster are not independent samples of
    what another cluster would show, so more of them do not count more."""
    values: list[float] = []
    groups: list[int] = []
    blocks: list[int] = []
    inside: list[float] = []
    known: list[bool] = []
    fork_of = np.array([item.fork for item in used])
    for fork in sorted({item.fork for item in used}):
        for group in range(number):
            own = (fork_of == fork) & (cells.groups == group)
            count = int(own.sum())
            if count:
                values.append(float(cells.values[own].mean()))
                groups.append(group)
                blocks.append(fork)
                inside.append(float(cells.inside[own].sum()) / count**2)
                known.append(bool(cells.inside_is_known[own].all()))
    return _Samples(
        values=np.array(values),
        groups=np.array(groups),
        blocks=tuple(blocks),
        inside=np.array(inside),
        inside_is_known=np.array(known),
    )


def _forks(used: Sequence[Observation], samples: _Samples, blocks: Sequence[int], fit: _Fit, number: int) -> Forks:
    residuals = np.zeros((number, len(blocks)))
    residuals[samples.groups, [blocks.index(block) for block in samples.blocks]] = fit.residuals
    rounds = sorted(len({item.round for item in used if item.fork == fork}) for fork in blocks)
    return Forks(
        numbers=tuple(blocks), rounds=rounds[len(rounds) // 2], offsets=fit.offsets, residuals=residuals
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    means: FloatArray
    offsets: FloatArray  # The blocks' offsets, which sum to zero. Empty if they were not fitted.
    residuals: FloatArray
    df: int


def _fit(
    values: FloatArray,
    groups: npt.NDArray[np.int64],
    block_of: Sequence[int],
    blocks: Sequence[int],
    *,
    blocked: bool,
) -> _Fit:
    """Least squares with one mean for each configuration and, if blocked, one offset for each block. Offsets sum to
    zero."""
    number = int(groups.max()) + 1
    design = np.zeros((len(values), number))
    design[np.arange(len(values)), groups] = 1.0
    if blocked:
        offsets = np.zeros((len(values), len(blocks) - 1))
        for row, own in enumerate(block_of):
            place = blocks.index(own)
            if place < len(blocks) - 1:
                offsets[row, place] = 1.0
            else:
                offsets[row, :] = -1.0
        design = np.hstack([design, offsets])
    solution, _, rank, _ = np.linalg.lstsq(design, values, rcond=None)
    found = solution[number:]
    return _Fit(
        means=np.asarray(solution[:number]),
        offsets=np.append(found, -found.sum()) if blocked else np.zeros(0),
        residuals=np.asarray(values - design @ solution),
        df=len(values) - int(rank),
    )

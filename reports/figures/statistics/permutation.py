"""Permutation tests of two sides with several cells, and the control of false discoveries.

Nothing is assumed of the shape of the noise: if BASE and NEW are alike, their labels may be exchanged. Every cell is
relabelled in all ways (or in many, drawn by the seed), and a cell's own difference is set against what relabelling
gives in all cells. Shown by tests/reports/test_reports_comparison.py, at length by `make prove`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from reports.figures.statistics.variance import FloatArray, moderate

LABELLINGS_MAX = 2_000
REPETITIONS_MIN = 4  # with three a side the most extreme of twenty labellings still has p = 0.1


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Adjusted p values: the share of false discoveries when everything up to this one is called a discovery.

    Benjamini and Hochberg 1995. Valid for the positively dependent tests that metrics of the same run are.
    """
    count = len(p_values)
    if not count:
        return np.zeros(0)
    order = np.argsort(p_values)
    ranked = p_values[order] * count / np.arange(1, count + 1)
    adjusted = np.minimum.accumulate(ranked[::-1])[::-1]
    result = np.empty(count)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def labellings(base: int, new: int, generator: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Rows of which value belongs to NEW; the first row is the true one. All of them, or a drawn sample."""
    total = base + new
    if math.comb(total, new) <= LABELLINGS_MAX:
        return _all_labellings(base, new)
    truth = np.arange(total) >= base
    drawn = np.argsort(generator.random((LABELLINGS_MAX - 1, total)), axis=1) >= base
    return np.vstack([truth, drawn])


@lru_cache(maxsize=64)
def _all_labellings(base: int, new: int) -> npt.NDArray[np.bool_]:
    total = base + new
    truth = np.arange(total) >= base
    rows = np.zeros((math.comb(total, new), total), dtype=np.bool_)
    for row, chosen in enumerate(itertools.combinations(range(total), new)):
        rows[row, list(chosen)] = True
    same = int(np.flatnonzero((rows == truth).all(axis=1))[0])
    rows[[0, same]] = rows[[same, 0]]
    rows.setflags(write=False)  # shared by all callers
    return rows


def pooled_p_values(pairs: Sequence[tuple[FloatArray, FloatArray]], seed: int) -> FloatArray:
    """Two-sided p value of each cell's difference NEW - BASE, against the relabelled statistics of all cells.

    The statistic is the difference over a standard error whose variance is drawn towards that of all cells. Pooling
    the relabelled statistics keeps the expected number of false discoveries right on the whole, and lets few
    repetitions reach small p values. NaN for a cell with too few repetitions.
    """
    generator = np.random.default_rng(seed)
    usable = [i for i, (base, new) in enumerate(pairs) if min(len(base), len(new)) >= REPETITIONS_MIN]
    result = np.full(len(pairs), np.nan)
    if not usable:
        return result
    spreads = np.array([_within(*pairs[i]) for i in usable])
    dfs = np.array([len(pairs[i][0]) + len(pairs[i][1]) - 2 for i in usable], dtype=np.float64)
    moderated = moderate(spreads, dfs)
    share = moderated.prior_df / (moderated.prior_df + dfs)
    prior = float((spreads * dfs).sum() / dfs.sum())
    statistics = [
        _statistics(*pairs[i], prior=prior, share=float(weight), generator=generator)
        for i, weight in zip(usable, share, strict=True)
    ]
    # Cells with more labellings must not outweigh the others in the common distribution.
    sizes = np.concatenate([np.full(len(one), 1.0 / len(one)) for one in statistics])
    everything = np.concatenate(statistics)
    order = np.argsort(everything)
    cumulative = np.cumsum(sizes[order])
    for place, one in zip(usable, statistics, strict=True):
        below = int(np.searchsorted(everything[order], one[0] * (1 - 1e-9), side="left"))
        beyond = cumulative[-1] - (cumulative[below - 1] if below else 0.0)
        result[place] = min(1.0, beyond / len(usable))
    return result


def _within(base: FloatArray, new: FloatArray) -> float:
    """Variance inside the two sides."""
    squares = ((base - base.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum()
    return float(squares / (len(base) + len(new) - 2))


def _statistics(
    base: FloatArray, new: FloatArray, *, prior: float, share: float, generator: np.random.Generator
) -> FloatArray:
    """|t| of every labelling; the first is the true one."""
    values = np.concatenate([base, new])
    rows = labellings(len(base), len(new), generator)
    sums, squares = rows @ values, rows @ values**2
    means_new = sums / len(new)
    means_base = (values.sum() - sums) / len(base)
    inside = squares - len(new) * means_new**2 + ((values**2).sum() - squares) - len(base) * means_base**2
    own = np.maximum(inside, 0.0) / (len(values) - 2)
    variance = share * prior + (1 - share) * own
    error = np.sqrt(np.maximum(variance * (1 / len(base) + 1 / len(new)), 1e-24))
    return np.asarray(np.abs(means_new - means_base) / error, dtype=np.float64)


def stratified_p_value(pairs: Sequence[tuple[FloatArray, FloatArray]], seed: int, draws: int = 2_000) -> float:
    """Two-sided p value of the mean difference over all cells, labels exchanged within each cell."""
    generator = np.random.default_rng(seed)
    options = [_differences(base, new, generator) for base, new in pairs]
    observed = abs(float(np.mean([one[0] for one in options])))
    total = math.prod(len(one) for one in options)
    if total <= draws:
        means = np.array([np.mean(chosen) for chosen in itertools.product(*options)])
        return float((np.abs(means) >= observed * (1 - 1e-9)).mean())
    drawn = np.mean([one[generator.integers(0, len(one), size=draws)] for one in options], axis=0)
    return float((1 + (np.abs(drawn) >= observed * (1 - 1e-9)).sum()) / (draws + 1))


def _differences(base: FloatArray, new: FloatArray, generator: np.random.Generator) -> FloatArray:
    values = np.concatenate([base, new])
    sums = labellings(len(base), len(new), generator) @ values
    return np.asarray(sums / len(new) - (values.sum() - sums) / len(base), dtype=np.float64)

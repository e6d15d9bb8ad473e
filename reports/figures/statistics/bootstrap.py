"""Block bootstrap: neighbouring moments of a run are alike, so it resamples whole blocks of time, never single moments.

Moving blocks (Künsch 1989). The autocorrelation of the series decides their length. Shown by
tests/reports/test_reports_statistics.py on series of known autocorrelation.
"""

from __future__ import annotations

import math

import numpy as np

from reports.figures.statistics.variance import FloatArray

RESAMPLES = 400
POINTS_MIN = 10


def block_length(series: FloatArray) -> int:
    """Long enough for the memory of the series (from its lag-1 correlation), at least n^(1/3), at most a quarter."""
    count = len(series)
    shortest: int = max(2, round(math.cbrt(count)))
    centred = series - series.mean()
    energy = float((centred**2).sum())
    if energy <= 0:
        return shortest
    rho = min(0.97, max(0.0, float((centred[1:] * centred[:-1]).sum()) / energy))
    # For an AR(1) series the length that gives the variance of the mean with least error grows so with n and rho.
    wanted: float = (2 * rho / (1 - rho**2)) ** (2 / 3) * count ** (1 / 3)
    return max(shortest, min(count // 4, math.ceil(wanted)))


def mean_draws(series: FloatArray, seed: int) -> FloatArray:
    """Means of `RESAMPLES` series put together from moving blocks."""
    count = len(series)
    length = block_length(series)
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, count - length + 1, size=(RESAMPLES, -(-count // length)))
    picked = (starts[:, :, None] + np.arange(length)).reshape(RESAMPLES, -1)[:, :count]
    return np.asarray(series[picked].mean(axis=1), dtype=np.float64)


def log_standard_error(series: FloatArray, seed: int) -> float | None:
    """Standard error of ln(mean) by the block bootstrap; None below ten points or where nothing happened."""
    if len(series) < POINTS_MIN:
        return None
    draws = mean_draws(series, seed)
    draws = draws[draws > 0]
    return float(np.log(draws).std(ddof=1)) if len(draws) > RESAMPLES // 2 else None

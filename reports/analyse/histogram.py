"""Quantiles, intervals and curves from binned latencies. Pure numpy; `queries.py` makes the bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from reports.analyse.queries import BOOTSTRAP_BLOCKS, LATENCY_BINS_PER_E_FOLD, SLOT_BINS_PER_E_FOLD
from reports.read.model import QUANTILES, Latency
from runlog.quality.criteria import CRITERIA

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
_RESAMPLES = 400
_CURVE = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99995, 0.99999)


def bin_middle_us(bins: IntArray, per_e_fold: int = LATENCY_BINS_PER_E_FOLD) -> FloatArray:
    return np.asarray(np.exp((bins + 0.5) / per_e_fold), dtype=np.float64)


def quantile_us(bins: IntArray, counts: IntArray, quantile: float, unanswered: int = 0) -> float | None:
    """The value that at least `quantile` of the samples do not exceed. `bins` ascend and hold at least one sample.

    `unanswered` is the number of samples that rank above all others. None if the value would be one of them.
    """
    cumulative = np.cumsum(counts)
    rank = max(1, int(np.ceil(quantile * (cumulative[-1] + unanswered) - 1e-9)))
    if rank > cumulative[-1]:
        return None
    return float(bin_middle_us(bins)[int(np.searchsorted(cumulative, rank))])


def carries(n: int, quantile: float) -> bool:
    """Whether n samples are enough to speak of this quantile."""
    return n * (1.0 - quantile) >= CRITERIA.samples_beyond_percentile_min - 1e-9


def summarise(
    frame: pd.DataFrame,
    blocks: pd.DataFrame,
    seed: int,
    *,
    unanswered: int = 0,
    unanswered_blocks: IntArray | None = None,
) -> Latency:
    """One cell's and kind's rows of `LATENCIES` (bin, n, low, high, total, negative) and of `LATENCY_BLOCKS`.

    `unanswered` records belong to the sample and never got their answer, or never arrived: they rank above all others,
    so that who gives up on slow records is none the faster for it. n, mean and maximum are of the others.
    `unanswered_blocks`: in which blocks they were due. Those that are in none were never sent, and were due last.
    """
    if frame.empty:
        return Latency(unanswered=unanswered)
    whole = frame.groupby("bin", sort=True)["n"].sum()
    bins, counts = whole.index.to_numpy(dtype=np.int64), whole.to_numpy(dtype=np.int64)
    n, high, low = int(counts.sum()), int(frame["high"].max()), int(frame["low"].min())

    def value(quantile: float) -> float | None:
        found = quantile_us(bins, counts, quantile, unanswered) if carries(n + unanswered, quantile) else None
        return None if found is None else round(min(max(found, low), high), 1)

    carried = [quantile for quantile in _CURVE if quantile == 0.0 or carries(n + unanswered, quantile)]
    found = [(quantile, quantile_us(bins, counts, quantile, unanswered)) for quantile in carried]
    curve = [(quantile, round(float(min(max(us, low), high)), 1)) for quantile, us in found if us is not None]
    spectrum = _spectrum(bins, counts, unanswered, low, high)
    p99 = value(0.99)
    return Latency(
        n=n,
        unanswered=unanswered,
        quantiles={name: value(quantile) for name, quantile in QUANTILES},
        max_us=high,
        mean_us=round(float(frame["total"].sum()) / n, 1),
        p99_interval_us=_p99_interval(blocks, p99, seed, _all_blocks(unanswered, unanswered_blocks))
        if p99 is not None and len(blocks)
        else None,
        curve=tuple(curve),
        spectrum=spectrum,
        negative=int(frame["negative"].sum()),
    )


def spectrum_quantiles(beyond_min: float) -> list[float]:
    """Those that HdrHistogram writes: five steps from each half of the distance to 1 to the next half. They end where
    the distance is smaller than `beyond_min`."""
    found: list[float] = []
    distance = 1.0
    while distance >= beyond_min:
        found += [1.0 - distance + step * distance / 10 for step in range(5)]
        distance /= 2
    return [quantile for quantile in found if 1.0 - quantile >= beyond_min]


def _spectrum(
    bins: IntArray, counts: IntArray, unanswered: int, low: int, high: int
) -> tuple[tuple[float, float, int], ...]:
    cumulative = np.cumsum(counts)
    whole = int(cumulative[-1]) + unanswered
    points: list[tuple[float, float, int]] = []
    for quantile in spectrum_quantiles(CRITERIA.samples_beyond_percentile_min / whole):
        us = quantile_us(bins, counts, quantile, unanswered)
        if us is None:
            break
        rank = max(1, int(np.ceil(quantile * whole - 1e-9)))
        reached = int(cumulative[int(np.searchsorted(cumulative, rank))])
        points.append((quantile, round(float(min(max(us, low), high)), 1), reached))
    return tuple(points)


def _all_blocks(unanswered: int, blocks: IntArray | None) -> IntArray:
    found = np.zeros(BOOTSTRAP_BLOCKS, dtype=np.int64) if blocks is None else blocks.copy()
    found[-1] += max(0, unanswered - int(found.sum()))
    return found


def _p99_interval(frame: pd.DataFrame, p99: float, seed: int, unanswered: IntArray) -> tuple[float, float]:
    """95 % interval of the p99: whole blocks of time are drawn again, because neighbouring latencies are alike, and
    with each block its unanswered ones. Its upper end is infinite if it falls on them."""
    bins = np.unique(frame["bin"].to_numpy(dtype=np.int64))
    matrix = np.zeros((BOOTSTRAP_BLOCKS, len(bins)), dtype=np.int64)
    columns = np.searchsorted(bins, frame["bin"].to_numpy(dtype=np.int64))
    np.add.at(matrix, (frame["block"].to_numpy(dtype=np.int64), columns), frame["n"].to_numpy(dtype=np.int64))
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, BOOTSTRAP_BLOCKS, size=(_RESAMPLES, BOOTSTRAP_BLOCKS))
    weights = np.stack([np.bincount(row, minlength=BOOTSTRAP_BLOCKS) for row in drawn])
    cumulative = np.cumsum(weights @ matrix, axis=1)
    totals = cumulative[:, -1] + weights @ unanswered
    places = (cumulative < np.ceil(0.99 * totals - 1e-9)[:, None]).sum(axis=1)[totals > 0]
    values = np.append(bin_middle_us(bins, SLOT_BINS_PER_E_FOLD), np.inf)[places]
    # Between a figure and infinity there is nothing to interpolate.
    is_endless = bool(np.isinf(values).any())
    low, high = np.quantile(values, (0.025, 0.975), method="inverted_cdf" if is_endless else "linear")
    # The blocks' bins are coarser than those of the p99 itself, which must not fall outside for that alone.
    return round(min(float(low), p99), 1), round(max(float(high), p99), 1)


def rate_interval(per_slot: FloatArray, slot_s: float, seed: int) -> tuple[float, float] | None:
    """95 % interval of a mean rate by a moving-block bootstrap over slots; None below ten slots."""
    count = len(per_slot)
    if count < 10:
        return None
    block = max(2, round(count ** (1 / 3)))
    generator = np.random.default_rng(seed)
    starts = generator.integers(0, count - block + 1, size=(_RESAMPLES, -(-count // block)))
    picked = (starts[:, :, None] + np.arange(block)).reshape(_RESAMPLES, -1)[:, :count]
    low, high = np.quantile(per_slot[picked].mean(axis=1) / slot_s, (0.025, 0.975))
    return round(float(low), 1), round(float(high), 1)

"""How noisy is one configuration, when it was repeated only a few times?

Three repetitions say little about their own scatter, but a sweep has many configurations. An empirical Bayes estimate
(Smyth 2004, "Linear models and empirical Bayes methods", section 4) shrinks the variance of each configuration towards
the common one. The more alike the variances are, the more it shrinks them. With few repetitions variances that differ
look alike, so how far it shrinks can be bounded. Shown by tests/reports/test_reports_statistics.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.figures.statistics.distributions import digamma, t_quantile, trigamma, trigamma_inverse

FloatArray = npt.NDArray[np.float64]
_PRIOR_DF_MAX = 1e4  # beyond, the groups share one variance
SHOWN_MIN = 1e-5  # A change of 0.001 %. `number_words.change` writes as many digits as that needs.
POWER = 0.8  # the share of real effects of that size that are found
_VARIANCE_MIN = 1e-18  # a group of equal values: its logarithm must exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Moderated:
    variances: FloatArray  # one a group
    dfs: FloatArray  # degrees of freedom of each
    prior_df: float


def moderate(variances: FloatArray, dfs: FloatArray, prior_df_max: float = _PRIOR_DF_MAX) -> Moderated:
    """Variances of groups, each with its degrees of freedom (0 where a group was not repeated), drawn together. The
    common variance counts as so many degrees of freedom at most."""
    known = dfs > 0
    if not known.any():
        return Moderated(variances=np.zeros_like(variances), dfs=np.zeros_like(dfs), prior_df=0.0)
    own, own_df = np.maximum(variances[known], _VARIANCE_MIN), dfs[known]
    total_df = float(own_df.sum())
    pooled = float((own * own_df).sum() / total_df)
    prior_df, prior = _prior(own, own_df) if known.sum() >= 3 else (_PRIOR_DF_MAX, pooled)
    prior_df = min(prior_df, prior_df_max)
    filled = np.where(known, variances, 0.0)
    drawn = (prior_df * prior + dfs * filled) / (prior_df + dfs)
    # Information does not grow by sharing: no group may claim more degrees of freedom than all have together.
    return Moderated(variances=drawn, dfs=np.minimum(prior_df + dfs, total_df), prior_df=prior_df)


def _prior(variances: FloatArray, dfs: FloatArray) -> tuple[float, float]:
    """Degrees of freedom and value of the common variance, from mean and scatter of the groups' logarithms."""
    count = len(variances)
    logs = np.log(variances) - np.array([digamma(df / 2) - math.log(df / 2) for df in dfs])
    centre = float(logs.mean())
    spread = float(((logs - centre) ** 2).sum() / (count - 1) - np.mean([trigamma(df / 2) for df in dfs]))
    if spread <= trigamma(_PRIOR_DF_MAX / 2):
        return _PRIOR_DF_MAX, float((variances * dfs).sum() / dfs.sum())
    prior_df = 2 * trigamma_inverse(spread)
    return prior_df, math.exp(centre + digamma(prior_df / 2) - math.log(prior_df / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A difference of logarithms with its 95 % interval."""

    value: float
    low: float
    high: float
    standard_error: float
    df: float

    @property
    def ratio(self) -> tuple[float, float, float]:
        return math.exp(self.value), math.exp(self.low), math.exp(self.high)

    @property
    def is_bounded(self) -> bool:
        """False where nothing tells how far the value may be off."""
        return math.isfinite(self.standard_error)

    @property
    def bounds(self) -> tuple[float, float] | tuple[None, None]:
        """The interval as ratios, for what is shown."""
        return self.ratio[1:] if self.is_bounded else (None, None)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval, as it is shown, excludes zero. An end nearer to zero than SHOWN_MIN is shown as 0."""
        return self.low > SHOWN_MIN or self.high < -SHOWN_MIN


def unbounded(value: float) -> Estimate:
    return Estimate(value=value, low=-math.inf, high=math.inf, standard_error=math.inf, df=0.0)


def interval(value: float, standard_error: float, df: float, comparisons: float = 1) -> Estimate:
    """Student's interval; with several comparisons it holds for all of them together (Bonferroni)."""
    half = t_quantile(1 - 0.025 / comparisons, df) * standard_error if standard_error > 0 else 0.0
    return Estimate(value=value, low=value - half, high=value + half, standard_error=standard_error, df=df)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedScatter:
    """The variance of a shift that all groups of one block share, for example all configurations on one cluster.

    `variance` is that of the blocks' means over the groups. So a `1 / groups` of the groups' own noise is in it, which
    is left out of the noise that is added to it: no component is a difference that could become negative.
    """

    variance: float
    blocks: int
    groups: int

    @property
    def df(self) -> int:
        return self.blocks - 1


def contrast(
    weights: FloatArray,
    means: FloatArray,
    mean_variances: FloatArray,
    dfs: FloatArray,
    *,
    df_max: float = math.inf,
    comparisons: int = 1,
    shared: SharedScatter | None = None,
    new_noise: float | None = None,
) -> Estimate:
    """sum(weights * means) with its interval; degrees of freedom by Welch and Satterthwaite, at most those that all
    groups have together, because groups with a common variance are not independent estimates of it.

    What the groups share counts by the square of the weights' sum, so that it cancels in a difference. With
    `new_noise`, a group's variance from block to block, it is the interval in which that group lies in one more block.
    A variance that is infinite is unknown, and so is the interval.
    """
    used = weights != 0
    if not np.isfinite(mean_variances[used]).all():
        return unbounded(float(weights @ means))
    parts = np.where(used, weights**2, 0.0) * np.where(used, mean_variances, 0.0)
    noisy = parts > 0
    own = float(parts.sum())
    doubt = float((parts[noisy] ** 2 / np.maximum(dfs[noisy], 0.5)).sum())
    own_df = min(own**2 / doubt, df_max) if doubt > 0 else df_max
    if shared is not None and own > 0:
        own *= 1.0 - min(1.0, float(weights.sum()) ** 2 / (shared.groups * float((weights**2).sum())))
    if new_noise is not None:
        own += new_noise * (1.0 if shared is None else 1.0 - 1.0 / shared.groups)
    pieces = [(own, own_df)]
    if shared is not None:
        blocks = 1.0 / shared.blocks + (0.0 if new_noise is None else 1.0)
        pieces.append((float(weights.sum()) ** 2 * shared.variance * blocks, float(shared.df)))
    variance = sum(part for part, _ in pieces)
    doubt = sum(part**2 / part_df for part, part_df in pieces)
    df = variance**2 / doubt if doubt > 0 else own_df
    return interval(float(weights @ means), math.sqrt(variance), df, comparisons)


def smallest_effect(
    variance: float,
    repetitions: float,
    df: float,
    *,
    others: float | None = None,
    comparisons: int = 1,
) -> float:
    """Difference of logarithms between two configurations that is found with POWER at the 5 % level of all
    comparisons together. `others`: repetitions of the second configuration, if it has another number of them."""
    error = math.sqrt(variance / repetitions + variance / (others or repetitions))
    return (t_quantile(1 - 0.025 / comparisons, df) + t_quantile(POWER, df)) * error


def repetitions_for(effect: float, variance: float, groups: int, repetitions_max: int = 10_000) -> int | None:
    """Fewest repetitions of each of `groups` configurations with which this effect is found; None beyond the bound."""
    return fewest(lambda n: smallest_effect(variance, n, groups * (n - 1)) <= effect, repetitions_max)


def fewest(found: Callable[[int], bool], repetitions_max: int) -> int | None:
    """The smallest number of repetitions from 2 with which `found` is true, if more of them never make it false; None
    beyond the bound."""
    low, high = 1, 2
    while not found(high):
        if high >= repetitions_max:
            return None
        low, high = high, min(2 * high, repetitions_max)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high

"""Distributions against printed tables, shared variances, bootstrap and discoveries on generated data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reports.figures.statistics.bootstrap import block_length, mean_draws
from reports.figures.statistics.discoveries import benjamini_hochberg, comparisons_of
from reports.figures.statistics.distributions import digamma, t_cdf, t_quantile, trigamma, trigamma_inverse
from reports.figures.statistics.variance import moderate, repetitions_for, smallest_effect


@pytest.mark.parametrize(
    ("probability", "df", "expected"),
    [(0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 10, 2.2281), (0.95, 5, 2.0150), (0.8, 30, 0.8538)],
)
def test_t_quantiles_are_those_of_the_printed_tables(probability: float, df: float, expected: float) -> None:
    assert t_quantile(probability, df) == pytest.approx(expected, abs=5e-5)
    assert t_cdf(t_quantile(probability, df), df) == pytest.approx(probability, abs=1e-9)
    assert t_quantile(1 - probability, df) == pytest.approx(-expected, abs=5e-5)


def test_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    assert t_quantile(0.975, 1e7) == pytest.approx(1.959964, abs=1e-5)
    assert t_quantile(0.975, 9e5) == pytest.approx(1.959964, abs=1e-5)


def test_digamma_and_trigamma_have_their_known_values() -> None:
    assert digamma(1.0) == pytest.approx(-0.5772156649, abs=1e-9)
    assert trigamma(1.0) == pytest.approx(math.pi**2 / 6, abs=1e-9)
    assert trigamma_inverse(trigamma(3.7)) == pytest.approx(3.7, abs=1e-6)


def test_alike_groups_share_one_variance_and_unlike_ones_keep_theirs() -> None:
    generator = np.random.default_rng(1)
    dfs = np.full(40, 2.0)
    alike = moderate(generator.chisquare(2, 40) / 2, dfs)
    assert alike.prior_df > 20
    scales = np.repeat([1.0, 100.0], 20)
    unlike = moderate(scales * generator.chisquare(2, 40) / 2, dfs)
    assert unlike.prior_df < 5
    assert np.median(unlike.variances[20:]) > 5 * np.median(unlike.variances[:20])


def test_groups_without_repetition_get_no_variance_out_of_nothing() -> None:
    assert moderate(np.zeros(3), np.zeros(3)).variances.tolist() == [0, 0, 0]


def test_blocks_grow_with_the_memory_of_the_series() -> None:
    generator = np.random.default_rng(2)
    white = generator.standard_normal(400)
    slow = np.zeros(400)
    for place in range(1, 400):
        slow[place] = 0.9 * slow[place - 1] + white[place]
    assert block_length(slow) > 2 * block_length(white)
    # The mean of an AR(1) series scatters with sigma / (1 - rho) / sqrt(n): independent draws would say a fifth of it.
    truth = 1 / (1 - 0.9) / math.sqrt(400)
    assert mean_draws(slow, seed=3).std() == pytest.approx(truth, rel=0.5)


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg() -> None:
    adjusted = benjamini_hochberg(np.array([0.01, 0.04, 0.03, 0.5]))
    assert adjusted.tolist() == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    assert benjamini_hochberg(np.zeros(0)).tolist() == []


def test_intervals_are_widened_by_tests_over_discoveries() -> None:
    assert comparisons_of(np.array([0.01, 0.05, 0.2, 0.9])) == 2.0
    assert comparisons_of(np.array([0.2, 0.9])) == 2.0
    assert comparisons_of(np.array([0.01, 0.01])) == 1.0


def test_more_repetitions_see_smaller_effects() -> None:
    needed = repetitions_for(math.log(1.05), 0.03**2, groups=8)
    assert needed is not None
    assert smallest_effect(0.03**2, needed, 8 * (needed - 1)) <= math.log(1.05)
    assert smallest_effect(0.03**2, needed - 1, 8 * (needed - 2)) > math.log(1.05)
    assert repetitions_for(math.log(1.05), 1.0, groups=8, repetitions_max=50) is None

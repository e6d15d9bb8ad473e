"""Quantiles of the normal and of Student's t, digamma, trigamma. numpy lacks them; the package with them is heavy.

Shown by tests/reports/test_reports_statistics.py against printed tables.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_LARGE_DF = 1e6


def normal_quantile(probability: float) -> float:
    return _NORMAL.inv_cdf(probability)


@lru_cache(maxsize=10_000)
def t_quantile(probability: float, df: float) -> float:
    """The value that a t variable with `df` degrees of freedom does not exceed with this probability; df > 0.

    Bisection on the distribution function, which the incomplete beta function gives: exact to ten digits.
    """
    if df <= 0:
        raise ValueError(f"degrees of freedom are {df}, expected more than 0")
    if df >= _LARGE_DF:
        return normal_quantile(probability)
    if probability == 0.5:
        return 0.0
    if probability < 0.5:
        return -t_quantile(1.0 - probability, df)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < probability and high < 1e12:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if t_cdf(middle, df) < probability:
            low = middle
        else:
            high = middle
        if high - low <= 1e-11 * high:
            break
    return (low + high) / 2


def t_cdf(value: float, df: float) -> float:
    """P(T <= value)."""
    if value == 0.0:
        return 0.5
    tail = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + value * value))
    return 1.0 - tail if value > 0 else tail


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function by its continued fraction (Lentz's method)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    tiny = 1e-300
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away_from_zero(1.0 + numerator * d, tiny)
            c = _away_from_zero(1.0 + numerator / c, tiny)
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return front * fraction / a


def _away_from_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


def digamma(x: float) -> float:
    """Derivative of ln Gamma; x > 0. Recurrence up to 10, then the asymptotic series."""
    result = 0.0
    while x < 10:
        result -= 1 / x
        x += 1
    square = 1 / (x * x)
    return result + math.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))


def trigamma(x: float) -> float:
    result = 0.0
    while x < 10:
        result += 1 / (x * x)
        x += 1
    square = 1 / (x * x)
    return result + 1 / x + square / 2 + square / x * (1 / 6 - square * (1 / 30 - square / 42))


def trigamma_inverse(value: float) -> float:
    """x > 0 with trigamma(x) = value; trigamma falls from infinity to 0, so bisection over the logarithm finds it."""
    if value <= 0:
        raise ValueError(f"trigamma is {value}, expected more than 0")
    low, high = -18.0, 18.0
    for _ in range(120):
        middle = (low + high) / 2
        if trigamma(math.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)

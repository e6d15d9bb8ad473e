"""Many tests at once: which are discoveries, and how wide their intervals must be to agree with that. Pure.

Shown by tests/reports/test_reports_statistics.py and tests/reports/test_reports_one_model.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from reports.figures.statistics.variance import FloatArray

FALSE_DISCOVERIES: Final = 0.05


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


def comparisons_of(adjusted: FloatArray) -> float:
    """Tests over discoveries: the factor by which the intervals of the family are widened.

    Benjamini and Yekutieli 2005 (JASA 100, 71-81). Then an interval excludes no change where its test is a discovery,
    and nowhere else: one table never says "worse" beside an interval that holds no change. Without any discovery the
    intervals hold for all tests together (Bonferroni).
    """
    return len(adjusted) / max(int((adjusted <= FALSE_DISCOVERIES).sum()), 1)

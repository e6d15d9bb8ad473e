"""What a table and a sentence of a report say of one figure is the same number."""

from __future__ import annotations

import math

import pytest

from reports.figures.sweep.number_words import effect_size
from reports.figures.sweep.recommendation_words import _draws
from reports.figures.sweep.tables import sensitivity_table
from tests.reports.test_reports_sweep import oaat


def test_the_smallest_effect_is_a_logarithm_in_the_table_and_its_ratio_in_words() -> None:
    """The table said 0.07 under a name that promises ln(1.07)."""
    own = oaat(1, noise=0.3)
    header, rows = sensitivity_table(own)
    place, name = header.index("smallest_effect"), header.index("measure")
    (p99,) = [row[place] for row in rows if row[name] == "p99"]
    assert isinstance(p99, float)
    assert effect_size(math.expm1(p99)) in " ".join(own.recommendation.sentences)


@pytest.mark.parametrize(
    ("share", "words"), [(0.996, "99% of the draws"), (1.0, "all of the draws"), (0.5, "50% of the draws")]
)
def test_a_share_of_the_draws_is_rounded_down(share: float, words: str) -> None:
    assert _draws(share) == words

"""Percentile spectra have the steps of HdrHistogram, and what never came is part of them."""

from __future__ import annotations

import numpy as np
import pytest

from reports.analyse.histogram import spectrum_quantiles
from reports.render.spectra import spectrum_text
from tests.reports.test_reports_histogram import ANSWERED, summary


def test_the_steps_are_five_from_each_half_of_the_distance_to_the_next() -> None:
    found = spectrum_quantiles(0.05)
    assert found[:11] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75])
    assert found == sorted(found)
    assert 1 - found[-1] >= 0.05 - 1e-12


@pytest.mark.parametrize("unanswered", [0, 300])
def test_each_row_counts_the_records_that_are_at_most_as_slow(unanswered: int) -> None:
    latency = summary(ANSWERED, unanswered)
    whole = len(ANSWERED) + unanswered
    for quantile, us, count in latency.spectrum:
        assert count >= quantile * whole - 1e-6
        assert count == pytest.approx(int((np.array(ANSWERED) <= us * 1.008).sum()), abs=whole * 0.01)
    assert latency.spectrum[-1][0] < (1.0 if not unanswered else len(ANSWERED) / whole)
    assert 1 - latency.spectrum[-1][0] >= 10 / whole - 1e-12, "ten records lie beyond"


def test_the_file_has_the_columns_that_programs_for_hdr_histogram_read() -> None:
    lines = spectrum_text("corrected", summary(ANSWERED, 300)).splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    rows = [line.split() for line in lines[2:] if not line.startswith("#")]
    assert all(len(row) == 4 for row in rows)
    values = np.array([[float(cell) for cell in row] for row in rows])
    assert (np.diff(values[:, 0]) >= 0).all()
    assert values[:, 3] == pytest.approx(1 / (1 - values[:, 1]), abs=0.006)
    assert (values[-1][0], values[-1][2]) == (max(ANSWERED) / 1000, len(ANSWERED))
    assert lines[-1] == (
        "#corrected latency in milliseconds. 97.0% of the records were acknowledged: others are slower than all of "
        "these."
    )
    assert spectrum_text("corrected", summary(ANSWERED, 0)).splitlines()[-4].split()[-1] == "inf"

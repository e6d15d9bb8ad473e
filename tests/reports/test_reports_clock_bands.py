"""Charts of end-to-end latencies between two load hosts have the bound of the clocks as a band; others have none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.figures.clock_bands import CurveBand, TimeBand, curve_bands, end_to_end_error_ms, time_bands
from reports.figures.latencies import CurvePoint
from reports.figures.over_time import LatencyPoint
from reports.render.chart_payload import columns
from tests.reports.cells import changed
from tests.reports.sweep_facts import cell_facts


def host(name: str, error_us: float, *, reads: bool = True) -> dict[str, object]:
    number = 0 if name == "a" else 1
    clock = {"offset_us": 1.0, "error_us": error_us, "samples": 9, "round_trip_us_min": 1.0}
    return {
        "name": name, "state": "done", "producers": [number], "consumers": [number] if reads else [],
        "clock": {**clock, "problem": "it was set"} if math.isinf(error_us) else clock,
    }  # fmt: skip


def error_of(*hosts: dict[str, object]) -> float:
    facts = cell_facts({}, p99_us=9_000)
    return end_to_end_error_ms(
        replace(facts, cell=changed(facts.cell, document={"outcome": {"load_hosts": list(hosts)}}))
    )


def test_the_band_is_as_wide_as_both_clocks_may_be_off() -> None:
    assert error_of(host("a", 400.0), host("b", 600.0)) == pytest.approx(1.0)
    assert error_of(host("a", 400.0)) == 0, "one clock"
    assert error_of(host("a", 400.0, reads=False), host("b", 600.0, reads=False)) == 0, "nobody reads"
    assert error_of(host("a", 400.0), host("b", math.inf)) == 0, "no bound is known, and no figure is shown"


def test_only_end_to_end_series_have_a_band_and_its_gaps_are_theirs() -> None:
    points = [
        LatencyPoint(t=1.0, ms=5.0, series="end to end p99"), LatencyPoint(t=2.0, ms=None, series="end to end p99"),
        LatencyPoint(t=1.0, ms=5.0, series="corrected p99"), LatencyPoint(t=1.0, ms=1.0, series="end to end mean"),
    ]  # fmt: skip
    assert time_bands(points, 1.0) == (
        TimeBand(t=1.0, low=4.0, high=6.0, series="end to end p99"),
        TimeBand(t=2.0, low=None, high=None, series="end to end p99"),
        TimeBand(t=1.0, low=0.001, high=2.0, series="end to end mean"),
    )
    assert time_bands(points, 0.0) == ()


def test_the_percentile_curve_has_a_band_around_its_end_to_end_points() -> None:
    points = [
        CurvePoint(inverse=2.0, percentile=50.0, ms=3.0, series="end to end"),
        CurvePoint(inverse=2.0, percentile=50.0, ms=2.0, series="corrected"),
    ]
    assert curve_bands(points, 0.5) == (CurveBand(inverse=2.0, low=2.5, high=3.5),)
    assert columns(curve_bands(points, 0.5)) == {"inverse": [2.0], "low": [2.5], "high": [3.5]}
    assert curve_bands(points, 0.0) == ()

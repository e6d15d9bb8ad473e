"""Bands around end-to-end latencies between two load hosts: by how much their clocks let them be wrong. Pure.

Without such a bound there is no band: with one clock, and where no bound is known. In the second case no figure is
shown either. Shown by tests/reports/test_reports_clock_bands.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from reports.read.model import CellFacts
from runlog.records.hosts import clock_error_between_us, known_error_us

MS_MIN: Final = 0.001  # a logarithmic axis has no zero
OF_BOTH_HOSTS: Final = "end to end"  # the series that begin with a producer and end with a reader


class TimePoint(Protocol):
    """over_time.LatencyPoint."""

    @property
    def t(self) -> float: ...
    @property
    def ms(self) -> float | None: ...
    @property
    def series(self) -> str: ...


class CurvePoint(Protocol):
    """latencies.CurvePoint."""

    @property
    def inverse(self) -> float: ...
    @property
    def ms(self) -> float: ...
    @property
    def series(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBand:
    """None: nothing was measured in that slot, and the band has a gap."""

    t: float
    low: float | None
    high: float | None
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveBand:
    inverse: float  # 1 / (1 - quantile)
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BarBand:
    """Milliseconds of a bar's whole."""

    label: str
    title: str
    low: float
    high: float


def end_to_end_error_ms(facts: CellFacts) -> float:
    """0: there is no band."""
    return (known_error_us(clock_error_between_us(facts.cell.record.outcome.load_hosts)) or 0.0) / 1000


def time_bands(points: Iterable[TimePoint], error_ms: float) -> tuple[TimeBand, ...]:
    if not error_ms:
        return ()
    return tuple(
        TimeBand(
            t=point.t,
            low=None if point.ms is None else low_of(point.ms, error_ms),
            high=None if point.ms is None else round(point.ms + error_ms, 3),
            series=point.series,
        )
        for point in points
        if point.series.startswith(OF_BOTH_HOSTS)
    )


def curve_bands(points: Iterable[CurvePoint], error_ms: float) -> tuple[CurveBand, ...]:
    if not error_ms:
        return ()
    return tuple(
        CurveBand(inverse=point.inverse, low=low_of(point.ms, error_ms), high=round(point.ms + error_ms, 3))
        for point in points
        if point.series == OF_BOTH_HOSTS
    )


def low_of(ms: float, error_ms: float) -> float:
    return max(round(ms - error_ms, 3), MS_MIN)

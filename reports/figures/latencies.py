"""Percentile curves, and the p99 that a cell can offer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reports.evidence.asked import is_closed_loop
from reports.figures.over_time import drawn_ms
from reports.read.model import CORRECTED, END_TO_END, UNCORRECTED, Basis, CellFacts, Latency

_SERIES = ((CORRECTED, "corrected"), (UNCORRECTED, "uncorrected"), (END_TO_END, "end to end"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    inverse: float  # 1 / (1 - quantile)
    percentile: float
    ms: float
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class P99:
    """Microseconds with the 95 % interval; `basis` is corrected, or end to end with acks=0."""

    us: float | None
    interval_us: tuple[float, float] | None
    basis: str
    n: int

    @property
    def ms(self) -> float | None:
        return None if self.us is None else round(self.us / 1000, 3)

    @property
    def low_ms(self) -> float | None:
        return round(self.interval_us[0] / 1000, 3) if self.interval_us else self.ms

    @property
    def high_ms(self) -> float | None:
        return round(self.interval_us[1] / 1000, 3) if self.interval_us else self.ms


def p99_of(facts: CellFacts) -> P99:
    kind = CORRECTED if facts.throughput_basis is Basis.ACKNOWLEDGED else END_TO_END
    latency = facts.latency[kind]
    return P99(
        us=latency.p99_us,
        interval_us=latency.p99_interval_us,
        basis="uncorrected" if is_closed_loop(facts.cell) and kind == CORRECTED else kind.replace("_", " "),
        n=latency.n,
    )


def told_latencies(facts: CellFacts) -> Mapping[str, Latency]:
    """Those that files and curves tell, by kind: nothing is corrected in a closed loop, whose latencies count from the
    hand-over."""
    return {**facts.latency, CORRECTED: Latency()} if is_closed_loop(facts.cell) else facts.latency


def percentile_curve(facts: CellFacts) -> tuple[CurvePoint, ...]:
    """The curve, up to the highest percentile that the sample allows. The last point of a series is the maximum."""
    points: list[CurvePoint] = []
    for kind, series in _SERIES:
        latency = told_latencies(facts).get(kind)
        if latency is None or not latency.curve:
            continue
        points += [_point(quantile, us, series, digits=4) for quantile, us in latency.curve]
        if latency.max_us is not None:
            # The largest of n samples stands at 1 - 1/n: beyond what carries a percentile, but the user felt it.
            place = min(1 - 1 / max(2, latency.n), latency.quantile_of_maximum)
            points.append(_point(place, latency.max_us, series, digits=5))
    return tuple(points)


def _point(quantile: float, us: float, series: str, *, digits: int) -> CurvePoint:
    return CurvePoint(
        inverse=round(1 / (1 - quantile), 2), percentile=round(quantile * 100, digits), ms=drawn_ms(us), series=series
    )

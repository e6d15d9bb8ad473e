"""Percentile curves, and the p99 that a cell can offer. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reports.evidence.asked import is_closed_loop
from reports.figures.over_time import drawn_ms
from reports.judge.cell_source import told_latencies
from reports.read.model import CORRECTED, END_TO_END, UNCORRECTED, Basis, CellFacts, answered_words

_LEVEL_WORDS: Final[Mapping[str, str]] = {"p50": "p50", "p90": "p90", "p99": "p99", "p999": "p99.9"}
_NEVER: Final[Mapping[str, str]] = {CORRECTED: "were acknowledged", END_TO_END: "were read"}
_SERIES = ((CORRECTED, "corrected"), (UNCORRECTED, "uncorrected"), (END_TO_END, "end to end"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    inverse: float  # 1 / (1 - quantile)
    percentile: float
    ms: float
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class P99:
    """Microseconds with the 95 % interval; `basis` is corrected, or end to end with acks=0. Infinite if it is not
    reached."""

    us: float | None
    interval_us: tuple[float, float] | None
    basis: str
    n: int

    @property
    def is_reached(self) -> bool:
        return self.us is not None and math.isfinite(self.us)

    @property
    def ms(self) -> float | None:
        return None if self.us is None else round(self.us / 1000, 3)

    @property
    def low_ms(self) -> float | None:
        return round(self.interval_us[0] / 1000, 3) if self.interval_us else self.ms

    @property
    def high_ms(self) -> float | None:
        return round(self.interval_us[1] / 1000, 3) if self.interval_us else self.ms


def shown_kind(facts: CellFacts) -> str:
    """The latency that stands for the cell: until the acknowledgement, with acks=0 until the poll."""
    return CORRECTED if facts.throughput_basis is Basis.ACKNOWLEDGED else END_TO_END


def told_kind(facts: CellFacts) -> str:
    """The same under the name by which files and curves tell it."""
    kind = shown_kind(facts)
    return UNCORRECTED if kind == CORRECTED and is_closed_loop(facts.cell) else kind


def p99_of(facts: CellFacts) -> P99:
    kind = shown_kind(facts)
    latency = facts.latency[kind]
    return P99(
        us=latency.us_of("p99"),
        interval_us=latency.p99_interval_us,
        basis=told_kind(facts).replace("_", " "),
        n=latency.n,
    )


def not_reached_sentences(facts: CellFacts) -> tuple[str, ...]:
    """For each kind of latency whose higher percentiles fall on records that never came."""
    told = ((CORRECTED, "Corrected"), (END_TO_END, "End to end"))
    return tuple(
        f"{words}, {_listed([_LEVEL_WORDS[name] for name in latency.not_reached])} not reached: "
        f"{answered_words(kind, latency)} ({latency.unanswered:,} never {_NEVER[kind]})."
        for kind, words in told
        if (latency := facts.latency.get(kind)) is not None and latency.not_reached
    )


def _listed(names: list[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"


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

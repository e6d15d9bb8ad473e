"""Price of safety: how much a configuration carries, against its p99. Pure.

Where the sweep has ceilings that is capacity, one point a configuration, with intervals over its repetitions. Else it
is the throughput at the rate, one point a cell. Shown by tests/reports/test_reports_telling.py and
tests/reports/test_reports_capacity.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.evidence.configuration import configuration_of
from reports.figures.knobs import settings_text
from reports.figures.latencies import P99, p99_of
from reports.figures.sweep.capacity import is_measured
from reports.figures.sweep.front import Point
from reports.figures.sweep.observations import CAPACITY, THROUGHPUT
from reports.figures.sweep.observations import P99 as P99_MEASURE
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.judge.judged import Judged
from reports.judge.lawful import IMPOSSIBLE, LAWFUL, rule
from reports.read.model import CellFacts
from runlog.records.cell import CellKind

_SAFETY = {LAWFUL: "may lose acknowledged records", IMPOSSIBLE: "promises nothing (acks=0)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """`rate` is what `figure` says, in records a second; p99 in milliseconds. Intervals are None where nothing tells
    how sure the figure is, and where the rate is that of one cell."""

    title: str
    settings: str
    safety: str
    figure: str  # throughput or capacity
    rate: float
    rate_low: float | None
    rate_high: float | None
    p99: float
    p99_low: float | None
    p99_high: float | None
    basis: str
    front: bool  # no other is better in one of both and no worse in the other


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    points: tuple[PricePoint, ...]
    at_ceilings: bool
    without: tuple[str, ...]  # configurations whose ceiling or p99 says nothing


def price_of_safety(judged: Sequence[Judged], analysis: SweepAnalysis | None) -> Price:
    if analysis is not None and is_measured(analysis.observations):
        return _at_ceilings(judged, analysis)
    return Price(points=_at_rate(judged), at_ceilings=False, without=())


def _at_ceilings(judged: Sequence[Judged], analysis: SweepAnalysis) -> Price:
    """Of the configurations that have both figures."""
    facts = {item.facts.cell.cell_id: item.facts for item in judged}
    both = [point for point in analysis.points if {CAPACITY, P99_MEASURE} <= set(point.levels)]
    places = [(point.levels[CAPACITY].value, point.levels[P99_MEASURE].value) for point in both]
    return Price(
        points=tuple(
            _of_configuration(facts[point.cell_id], point, is_on_front=not any(_beats(other, own) for other in places))
            for point, own in zip(both, places, strict=True)
        ),
        at_ceilings=True,
        without=tuple(_title(facts[point.cell_id]) for point in analysis.points if point not in both),
    )


def _title(facts: CellFacts) -> str:
    """A configuration that only ever was at its ceiling has the title of that cell."""
    return facts.cell.title.removesuffix(" [ceiling]")


def _of_configuration(facts: CellFacts, point: Point, *, is_on_front: bool) -> PricePoint:
    capacity, p99 = point.levels[CAPACITY], point.levels[P99_MEASURE]
    low, high = capacity.bounds
    p99_low, p99_high = (None if one is None else one / 1000 for one in p99.bounds)
    return PricePoint(
        title=_title(facts),
        settings=settings_text(facts.cell),
        safety=_safety(facts),
        figure=CAPACITY,
        rate=capacity.ratio[0],
        rate_low=low,
        rate_high=high,
        p99=p99.ratio[0] / 1000,
        p99_low=p99_low,
        p99_high=p99_high,
        basis="both over the repetitions, p99 at the common rate",
        front=is_on_front,
    )


def _safety(facts: CellFacts) -> str:
    return _SAFETY.get(rule("lost", configuration_of(facts.cell)).lawful, "loses none by contract")


def _at_rate(judged: Sequence[Judged]) -> tuple[PricePoint, ...]:
    """Of the cells that have both figures."""
    measured = [(item.facts, p99_of(item.facts)) for item in judged if item.facts.cell.kind is CellKind.SWEEP]
    usable = [(facts, p99) for facts, p99 in measured if p99.is_reached and facts.throughput_records_per_s]
    places = [(facts.throughput_records_per_s, p99.ms or 0.0) for facts, p99 in usable]
    return tuple(
        _point(facts, p99, is_on_front=not any(_beats(other, own) for other in places))
        for (facts, p99), own in zip(usable, places, strict=True)
    )


def _beats(other: tuple[float, float], own: tuple[float, float]) -> bool:
    return other[0] >= own[0] and other[1] <= own[1] and other != own


def _point(facts: CellFacts, p99: P99, *, is_on_front: bool) -> PricePoint:
    assert p99.ms is not None, "only cells with a p99 are asked for"
    assert p99.low_ms is not None
    assert p99.high_ms is not None
    return PricePoint(
        title=facts.cell.title,
        settings=settings_text(facts.cell),
        safety=_safety(facts),
        figure=THROUGHPUT,
        rate=facts.throughput_records_per_s,
        rate_low=None,
        rate_high=None,
        p99=p99.ms,
        p99_low=p99.low_ms,
        p99_high=p99.high_ms,
        basis=f"{p99.basis} latency, n = {p99.n}",
        front=is_on_front,
    )

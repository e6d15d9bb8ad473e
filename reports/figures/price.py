"""Price of safety: throughput against p99, one point a sweep cell. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.evidence.configuration import configuration_of
from reports.figures.knobs import settings_text
from reports.figures.latencies import P99, p99_of
from reports.judge.judged import Judged
from reports.judge.lawful import IMPOSSIBLE, LAWFUL, rule
from reports.read.model import CellFacts
from runlog.records.cell import CellKind

_SAFETY = {LAWFUL: "may lose acknowledged records", IMPOSSIBLE: "promises nothing (acks=0)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PricePoint:
    """p99 in milliseconds with its interval."""

    title: str
    settings: str
    safety: str
    throughput: float
    p99: float
    p99_low: float
    p99_high: float
    basis: str
    front: bool  # no other is better in one of both and no worse in the other


def price_of_safety(judged: Sequence[Judged]) -> tuple[PricePoint, ...]:
    """Of the cells that have both figures."""
    measured = [(item.facts, p99_of(item.facts)) for item in judged if item.facts.cell.kind is CellKind.SWEEP]
    usable = [(facts, p99) for facts, p99 in measured if p99.us is not None and facts.throughput_records_per_s]
    places = [(facts.throughput_records_per_s, p99.ms or 0.0) for facts, p99 in usable]
    return tuple(
        _point(facts, p99, is_on_front=not any(_beats(other, own) for other in places))
        for (facts, p99), own in zip(usable, places, strict=True)
    )


def _beats(other: tuple[float, float], own: tuple[float, float]) -> bool:
    return other[0] >= own[0] and other[1] <= own[1] and other != own


def _point(facts: CellFacts, p99: P99, *, is_on_front: bool) -> PricePoint:
    ruling = rule("lost", configuration_of(facts.cell)).lawful
    assert p99.ms is not None, "only cells with a p99 are asked for"
    assert p99.low_ms is not None
    assert p99.high_ms is not None
    return PricePoint(
        title=facts.cell.title,
        settings=settings_text(facts.cell),
        safety=_SAFETY.get(ruling, "loses none by contract"),
        throughput=facts.throughput_records_per_s,
        p99=p99.ms,
        p99_low=p99.low_ms,
        p99_high=p99.high_ms,
        basis=f"{p99.basis} latency, n = {p99.n}",
        front=is_on_front,
    )

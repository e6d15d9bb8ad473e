"""The section of a rate search: sentence, trace, load curve. Pure.

Latencies of the load curve come from the analysis of its cells like any other cell's. Shown by
tests/reports/test_reports_search.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.over_time import drawn_ms
from reports.judge.judged import Judged
from reports.read.cell import Json

_WORDS: Final = {
    "generator": "the load generator itself: the cluster carries more",
    "p99": "latency",
    "backlog": "a growing backlog",
    "damage": "damage to records",
    "load": "a load that could not be run",
}
_QUANTILES: Final = (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """Rates in records a second; `low` and `high` are the interval of the limit after it."""

    number: int
    rate: float
    low: float
    high: float
    result: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    rate: float
    percent: int  # of the limit
    repetition: int
    ms: float
    series: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    sentence: str
    reasons: tuple[str, ...]
    trace: tuple[Try, ...]
    curve: tuple[LoadPoint, ...]
    contract_p99_ms: float


def search_figures(document: Json, judged: Sequence[Judged]) -> SearchFigures:
    return SearchFigures(
        sentence=sentence(document),
        reasons=tuple(document["limit_reasons"]),
        trace=_trace(document),
        curve=_curve(document, judged),
        contract_p99_ms=document["contract"]["p99_ms"],
    )


def sentence(document: Json) -> str:
    """The result with its uncertainty and its reason."""
    contract = document["contract"]
    kept = f"p99 of at most {contract['p99_ms']:g} ms, backlog steady, no record damaged"
    tries = len(document["probes"])
    low, high = document["searched_per_s"]
    if document["ended_at"] == "high":
        return f"Even {high:,.0f} records/s keep the contract ({kept}): the limit lies above what was searched."
    if document["ended_at"] == "low":
        return f"Not even {low:,.0f} records/s keep the contract ({kept}): the limit lies below what was searched."
    limited = _WORDS.get(next(iter(document["limited_by"]), ""), "nothing that was seen")
    return (
        f"Highest sustained rate {_rate(document['rate_per_s'])} records/s (95 %: "
        f"{_rate(document['low_per_s'])} to {_rate(document['high_per_s'])}) by {tries} tries; "
        f"contract: {kept}. Limited by {limited}."
    )


def _rate(value: float) -> str:
    """Three digits: more would pretend to know."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _trace(document: Json) -> tuple[Try, ...]:
    return tuple(
        Try(
            number=number,
            rate=one["rate_per_s"],
            low=one["low_per_s"],
            high=one["high_per_s"],
            result="kept" if one["passed"] else "broken",
            why="; ".join(one["reasons"]) or "every clause kept",
        )
        for number, one in enumerate(document["probes"], start=1)
    )


def _curve(document: Json, judged: Sequence[Judged]) -> tuple[LoadPoint, ...]:
    """p50, p99 and p99.9 of each cell of the load curve, as far as its sample carries them."""
    cells = {item.facts.cell.cell_id: item.facts for item in judged}
    points: list[LoadPoint] = []
    for point in document["load_curve"]:
        facts = cells.get(point["cell_id"])
        latency = facts.latency.get("corrected") if facts else None
        for name, series in _QUANTILES if latency else ():
            value = latency.quantiles.get(name) if latency else None
            if value:
                points.append(
                    LoadPoint(
                        rate=point["rate_per_s"],
                        percent=round(point["fraction"] * 100),
                        repetition=point["repetition"],
                        ms=drawn_ms(value),
                        series=series,
                    )
                )
    return tuple(points)

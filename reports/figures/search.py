"""The section of a rate search: sentence, trace, load curve. Pure.

Latencies of the load curve come from the analysis of its cells like any other cell's. Shown by
tests/reports/test_reports_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.over_time import drawn_ms
from reports.judge.judged import Judged
from reports.read.model import CORRECTED, Latency
from runlog.records.search import Clause, SearchEnd, SearchRecord

_WORDS: Final[Mapping[Clause, str]] = {
    Clause.GENERATOR: "the load generator itself: the cluster carries more",
    Clause.LATENCY: "latency",
    Clause.BACKLOG: "a growing backlog",
    Clause.DAMAGE: "damage to records",
    Clause.LOAD: "a load that could not be run",
}
_QUANTILES: Final[Mapping[str, Callable[[Latency], float | None]]] = {
    "p50": lambda latency: latency.p50_us,
    "p99": lambda latency: latency.p99_us,
    "p99.9": lambda latency: latency.p999_us,
}


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


def search_figures(found: SearchRecord, judged: Sequence[Judged]) -> SearchFigures:
    return SearchFigures(
        sentence=sentence(found),
        reasons=found.limit_reasons,
        trace=_trace(found),
        curve=_curve(found, judged),
        contract_p99_ms=found.contract.p99_ms,
    )


def sentence(found: SearchRecord) -> str:
    """The result with its uncertainty and its reason."""
    kept = f"p99 of at most {found.contract.p99_ms:g} ms, backlog steady, no record damaged"
    tries = len(found.probes)
    low, high = found.searched_per_s
    if found.ended_at is SearchEnd.HIGH:
        return f"Even {high:,.0f} records/s keep the contract ({kept}): the limit lies above what was searched."
    if found.ended_at is SearchEnd.LOW:
        return f"Not even {low:,.0f} records/s keep the contract ({kept}): the limit lies below what was searched."
    limited = _WORDS[found.limited_by[0]] if found.limited_by else "nothing that was seen"
    return (
        f"Highest sustained rate {_rate(found.rate_per_s)} records/s (95 %: "
        f"{_rate(found.low_per_s)} to {_rate(found.high_per_s)}) by {tries} tries; "
        f"contract: {kept}. Limited by {limited}."
    )


def _rate(value: float) -> str:
    """Three digits: more would pretend to know."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _trace(found: SearchRecord) -> tuple[Try, ...]:
    return tuple(
        Try(
            number=number,
            rate=one.rate_per_s,
            low=one.low_per_s,
            high=one.high_per_s,
            result="kept" if one.passed else "broken",
            why="; ".join(one.reasons) or "every clause kept",
        )
        for number, one in enumerate(found.probes, start=1)
    )


def _curve(found: SearchRecord, judged: Sequence[Judged]) -> tuple[LoadPoint, ...]:
    """p50, p99 and p99.9 of each cell of the load curve, as far as its sample carries them."""
    cells = {item.facts.cell.cell_id: item.facts for item in judged}
    return tuple(
        LoadPoint(
            rate=point.rate_per_s,
            percent=round(point.fraction * 100),
            repetition=point.repetition,
            ms=drawn_ms(us),
            series=series,
        )
        for point in found.load_curve
        if point.cell_id in cells and point.rate_per_s is not None
        for series, us_of in _QUANTILES.items()
        if (us := us_of(cells[point.cell_id].latency[CORRECTED]))
    )

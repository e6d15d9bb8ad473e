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
    """Rates in records a second; `kept` is what would be reported after it, `low` and `high` are the interval of the
    limit."""

    number: int
    rate: float
    kept: float | None
    low: float
    high: float
    result: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    rate: float
    percent: int  # The share of tries that keep the rate.
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
    """The rate that is kept, the limit with its interval, and the reason."""
    kept = f"p99 of at most {found.contract.p99_ms:g} ms, backlog steady, no record damaged"
    low, high = found.searched_per_s
    if found.ended_at is SearchEnd.HIGH:
        return f"Even {high:,.0f} records/s are kept with 95 % probability ({kept}): the limit lies above the search."
    if found.ended_at is SearchEnd.LOW:
        return f"Not even {low:,.0f} records/s are kept with 95 % probability ({kept})."
    limited = _WORDS[found.limited_by[0]] if found.limited_by else "nothing that was seen"
    reported = (
        "No rate was found that is kept with 95 % probability"
        if found.rate_per_s is None
        else f"Highest sustained rate {_rate(found.rate_per_s)} records/s: it was tried and kept, and one more try "
        "keeps it with 95 % probability"
    )
    return (
        f"{reported}. Half of the tries keep {_rate(found.half_per_s)} (95 %: {_rate(found.low_per_s)} to "
        f"{_rate(found.high_per_s)}). {len(found.probes)} tries; contract: {kept}. Limited by {limited}."
        f"{_of_curve(found)}"
    )


def _of_curve(found: SearchRecord) -> str:
    """Which cells of the load curve kept the contract: they are tries after the search, some above its rate."""
    tried = [one for one in found.load_curve if one.passed is not None and one.rate_per_s is not None]
    if found.rate_per_s is None or not tried:
        return ""
    reached = [one for one in tried if (one.rate_per_s or 0.0) <= found.rate_per_s]
    above = [one for one in tried if one not in reached]
    told = [
        f"{sum(bool(one.passed) for one in own)} of {len(own)} {where}"
        for own, where in ((reached, "up to this rate"), (above, "above it"))
        if own
    ]
    return f" Of the later cells, {' and '.join(told)} kept the contract."


def _rate(value: float) -> str:
    """Three digits: more would pretend to know."""
    return f"{float(f'{value:.3g}'):,.0f}"


def _trace(found: SearchRecord) -> tuple[Try, ...]:
    return tuple(
        Try(
            number=number,
            rate=one.rate_per_s,
            kept=one.kept_per_s,
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

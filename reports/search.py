"""The section of a rate search: sentence, trace, load curve. Reads RUN/search.json, which the harness wrote.

Latencies of the load curve come from the analysis of its cells like any other cell's. Shown by
tests/reports/test_reports_search.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import altair as alt

from reports.model import Json
from reports.outputs import Judged

FILE_NAME: Final = "search.json"
SCHEMA_VERSION: Final = 1
_WORDS: Final = {
    "generator": "the load generator itself: the cluster carries more",
    "p99": "latency",
    "backlog": "a growing backlog",
    "damage": "damage to records",
    "load": "a load that could not be run",
}


def read_search(directory: Path) -> Json | None:
    """None without a search, or if its file cannot be read (the page then has no such section)."""
    try:
        document = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("schema_version") == SCHEMA_VERSION else None


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


def tables(document: Json, judged: Sequence[Judged]) -> dict[str, tuple[list[str], list[list[object]]]]:
    """File below results/ -> header and rows of the table behind each chart."""
    trace = ["try", "rate", "low", "high", "result", "why"]
    curve = ["rate", "percent", "repetition", "series", "ms"]
    return {
        "search.csv": (trace, [[row[name] for name in trace] for row in trace_rows(document)]),
        "load_curve.csv": (curve, [[row[name] for name in curve] for row in curve_rows(document, judged)]),
    }


def trace_rows(document: Json) -> list[Json]:
    return [
        {
            "try": number,
            "rate": one["rate_per_s"],
            "low": one["low_per_s"],
            "high": one["high_per_s"],
            "result": "kept" if one["passed"] else "broken",
            "why": "; ".join(one["reasons"]) or "every clause kept",
        }
        for number, one in enumerate(document["probes"], start=1)
    ]


def curve_rows(document: Json, judged: Sequence[Judged]) -> list[Json]:
    """p50, p99 and p99.9 of each cell of the load curve, as far as its sample carries them."""
    cells = {item.facts.cell.cell_id: item.facts for item in judged}
    rows: list[Json] = []
    for point in document["load_curve"]:
        facts = cells.get(point["cell_id"])
        latency = facts.latency.get("corrected") if facts else None
        for name, series in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
            value = latency.quantiles.get(name) if latency else None
            if value:
                rows.append(
                    {
                        "rate": point["rate_per_s"],
                        "percent": round(point["fraction"] * 100),
                        "repetition": point["repetition"],
                        "ms": max(round(value / 1000, 3), 0.001),
                        "series": series,
                    }
                )
    return rows


def view(document: Json, judged: Sequence[Judged]) -> Json:
    return {
        "sentence": sentence(document),
        "reasons": document["limit_reasons"],
        "trace": trace_rows(document),
        "curve": curve_rows(document, judged),
    }


def charts(document: Json, judged: Sequence[Judged]) -> dict[str, Json]:
    limit = [{"ms": document["contract"]["p99_ms"]}]
    found: dict[str, Json] = {"search-trace": {"spec": "search_trace", "data": {"trace": trace_rows(document)}}}
    curve = curve_rows(document, judged)
    if curve:
        found["search-curve"] = {"spec": "search_curve", "data": {"curve": curve, "limit": limit}}
    return found


def specifications() -> dict[str, Json]:
    made: dict[str, Any] = {"search_trace": _trace(), "search_curve": _curve()}
    result: dict[str, Json] = {name: chart.to_dict(validate=False) for name, chart in made.items()}
    return result


def _trace() -> Any:
    """Each try, and how the interval of the limit closes in."""
    base = alt.Chart(alt.NamedData("trace"))
    x = alt.X("try:Q", title="try", axis=alt.Axis(tickMinStep=1, format="d"))
    band = base.mark_area(style="spread", interpolate="step-after").encode(
        x=x,
        y=alt.Y("low:Q", scale=alt.Scale(type="log"), title="records/s (log)", axis=alt.Axis(format="~s")),
        y2="high:Q",
    )
    results = ["kept", "broken"]
    points = base.mark_point(size=80, filled=True).encode(
        x=x,
        y=alt.Y("rate:Q", scale=alt.Scale(type="log")),
        shape=alt.Shape("result:N", scale=alt.Scale(domain=results, range=["circle", "cross"]), title=None),
        color=alt.Color("result:N", scale=alt.Scale(domain=results), title=None),
        tooltip=["try:Q", alt.Tooltip("rate:Q", format=",.0f"), "result:N", "why:N"],
    )
    return alt.layer(band, points).properties(height=220, width=600)


def _curve() -> Any:
    series = ["p50", "p99", "p99.9"]
    points = (
        alt.Chart(alt.NamedData("curve"))
        .mark_point(size=60, filled=True)
        .encode(
            x=alt.X("rate:Q", title="asked rate, records/s", scale=alt.Scale(zero=False, padding=20)),
            y=alt.Y("ms:Q", scale=alt.Scale(type="log"), title="latency, ms (log)", axis=alt.Axis(format="~g")),
            color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None),
            shape=alt.Shape("series:N", scale=alt.Scale(domain=series), title=None),
            tooltip=[alt.Tooltip("rate:Q", format=",.0f"), "percent:Q", "repetition:Q", "series:N", "ms:Q"],
        )
    )
    lines = (
        alt.Chart(alt.NamedData("curve"))
        .mark_line(strokeWidth=1.2)
        .encode(x="rate:Q", y="median(ms):Q", color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None))
    )
    limit = alt.Chart(alt.NamedData("limit")).mark_rule(style="front").encode(y="ms:Q")
    return alt.layer(limit, lines, points).properties(height=220, width=600)

"""Vega-Lite specifications of the sections: generator health, waterfalls, rate search. Colours come from the theme."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt

from reports.figures.generator import SERIES
from reports.figures.waterfall import SERIES as STAGES
from reports.read.cell import Json

Chart = Any  # Altair's chart classes share no useful base type
# Words of very different length stand on the left; page.js gives the plot what the longest of them leaves.
_LABELS = {"data": "stages", "field": "label", "limit": 260}


@cache
def specifications(*, with_search: bool) -> Mapping[str, Json]:
    """Name -> specification. They are the same for all runs and made once in a process."""
    charts = {"generator": _generator(), "waterfall": _waterfall()}
    if with_search:
        charts |= {"search_trace": _trace(), "search_curve": _curve()}
    made: dict[str, Json] = {name: chart.to_dict(validate=False) for name, chart in charts.items()}
    made["waterfall"]["usermeta"] = _LABELS
    return made


def _generator() -> Chart:
    """Shares in the order of the run, with the limits above which a figure may be the client's."""
    series = list(SERIES.values())
    points = (
        alt.Chart(alt.NamedData("generator"))
        .mark_line(point=alt.OverlayMarkDef(size=30), strokeWidth=1.2)
        .encode(
            x=alt.X("order:Q", title="cell, in the order of the run", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%"), scale=alt.Scale(domainMin=0)),
            color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=series, range=[[1, 0], [6, 2, 2, 2], [4, 2]]), title=None
            ),
            tooltip=["title:N", "series:N", alt.Tooltip("share:Q", format=".0%")],
        )
    )
    rule = alt.Chart(alt.NamedData("limit")).mark_rule(style="front").encode(y="share:Q")
    return alt.layer(points, rule).properties(height=150, width=600)


def _waterfall() -> Chart:
    """Stacked bars of the stages with the whole as a tick; page.js gives the words on the left their room."""
    lines = alt.Axis(ticks=False, domain=False, labelExpr="split(datum.label, '|')")
    y = alt.Y("label:N", title=None, sort=None, axis=lines)
    stages = (
        alt.Chart(alt.NamedData("stages"))
        .mark_bar(height=12)
        .encode(
            x=alt.X("start:Q", title="milliseconds", axis=alt.Axis(format=",~r", tickCount=6)),
            x2="end:Q",
            y=y,
            color=alt.Color(
                "stage:N", scale=alt.Scale(domain=list(STAGES)), legend=alt.Legend(title=None, symbolType="square")
            ),
            tooltip=["title:N", "stage:N", alt.Tooltip("ms:Q", format=",.3f")],
        )
    )
    wholes = (
        alt.Chart(alt.NamedData("wholes"))
        .mark_tick(style="whole", thickness=2, height=18)
        .encode(x="whole:Q", y=y, tooltip=["title:N", alt.Tooltip("whole:Q", title="measured whole, ms"), "n:Q"])
    )
    clock = (
        alt.Chart(alt.NamedData("clock"))
        .mark_bar(style="clock", height=20)
        .encode(x="low:Q", x2="high:Q", y=y, tooltip=["title:N", alt.Tooltip("low:Q"), alt.Tooltip("high:Q")])
    )
    return alt.layer(stages, clock, wholes).properties(height=alt.Step(28), width=500)


def _trace() -> Chart:
    """Each try, how the interval of the limit closes in, and the rate that is kept."""
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
    kept = base.mark_line(style="front", interpolate="step-after").encode(
        x=x, y=alt.Y("kept:Q", scale=alt.Scale(type="log")), tooltip=[alt.Tooltip("kept:Q", format=",.0f")]
    )
    return alt.layer(band, kept, points).properties(height=220, width=600)


def _curve() -> Chart:
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

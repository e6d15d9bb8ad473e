"""Vega-Lite specifications of the sweep's analysis: effects, interactions, durability surface. Colours come from the
page's theme. No information is in the colour alone: shape or place shows it too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import altair as alt

from reports.figures.point_names import LINE_PX
from reports.figures.sweep.observations import BROKER_CPU, CAPACITY, P99, THROUGHPUT, WIRE_BYTES
from reports.figures.sweep.surface_names import ON_LOG_AXIS
from reports.read.cell import Json
from reports.render.point_names import point_names

Chart = Any  # Altair's chart classes share no useful base type
_JUDGEMENTS = ["better", "worse", "negligible", "not clear"]
_RATIOS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100]
# Words of very different length stand on the left; page.js gives the plot what the longest of them leaves.
_LABELS = {
    "effects": {"data": "effects", "field": "label", "limit": 190},
    "interactions": {"data": "interactions", "field": "pair", "limit": 260},
    "surface": {"data": "surface", "field": "lane", "limit": 250},
}
_SURFACES = {
    CAPACITY: "capacity, records/s (log)",
    THROUGHPUT: "throughput, records/s",
    P99: "p99, ms (log)",
    BROKER_CPU: "broker CPU, µs a record (log)",
    WIRE_BYTES: "bytes on the wire a record (log)",
}
_LANE_PX = 62  # at least: its words have some lines
_FRONT = ["on the front", "beaten by another"]


def specifications(*, ratio_low: float, ratio_high: float, lines_in_a_lane: int = 1) -> dict[str, Json]:
    """Name -> specification. The limits give all effect charts one scale. A surface needs room for the names of its
    fullest lane."""
    lane_px = max(_LANE_PX, lines_in_a_lane * LINE_PX)
    return _with_labels({"effects": _effects(ratio_low, ratio_high)}) | _of_lanes(lane_px)


@cache
def _of_lanes(lane_px: int) -> dict[str, Json]:
    """Made once in a process for each height of a lane: Altair is slow."""
    charts = {"interactions": _interactions()} | {
        f"surface_{name}": _surface(title, lane_px, log=name in ON_LOG_AXIS) for name, title in _SURFACES.items()
    }
    return _with_labels(charts)


def _with_labels(charts: Mapping[str, Chart]) -> dict[str, Json]:
    specifications = {
        name: {**chart.to_dict(validate=False), "usermeta": _LABELS[name.split("_")[0]]}
        for name, chart in charts.items()
    }
    for specification in specifications.values():
        for layer in specification["layer"]:
            _name_range(layer["encoding"].get("color"))
    return specifications


def _name_range(color: Json | None) -> None:
    """Colours by a name that the page's theme defines; Altair lets only Vega's own names pass."""
    if color and color.get("field") in ("judgement", "front"):
        color["scale"]["range"] = color["field"]


def _effects(low: float, high: float) -> Chart:
    """One row a value: its ratio to the baseline with the interval; the line at 1 is no effect."""
    base = alt.Chart(alt.NamedData("effects"))
    x = alt.X(
        "ratio:Q",
        title="ratio to the baseline (log)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False, clamp=True),
        axis=alt.Axis(
            labelExpr="'×' + format(datum.value, '~g')", values=[ratio for ratio in _RATIOS if low <= ratio <= high]
        ),
    )
    y = alt.Y("label:N", title=None, sort=None, axis=alt.Axis(labelLimit=170, ticks=False, domain=False))
    none = alt.Chart(alt.NamedData("one")).mark_rule(style="front").encode(x=alt.X("ratio:Q"))
    bars = base.mark_rule(style="interval").encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    points = base.mark_point(size=70, filled=True).encode(
        x=x,
        y=y,
        shape=alt.Shape(
            "judgement:N",
            scale=alt.Scale(domain=_JUDGEMENTS, range=["triangle-up", "triangle-down", "square", "circle"]),
            title=None,
        ),
        color=alt.Color("judgement:N", scale=alt.Scale(domain=_JUDGEMENTS), title=None),
        tooltip=["label:N", "reference:N", "text:N", "judgement:N"],
    )
    return alt.layer(none, bars, points).properties(height=alt.Step(17), width=220)


def _interactions() -> Chart:
    base = alt.Chart(alt.NamedData("interactions"))
    x = alt.X("measure:N", title=None, axis=alt.Axis(labelAngle=0, labelLimit=140, orient="top"), sort=None)
    y = alt.Y("pair:N", title=None, sort=None, axis=alt.Axis(labelLimit=210))
    # Pale in both themes, so that dark words can be read on every cell.
    shades = alt.Scale(range=["#B9A6DF", "#F3F1ED", "#F2B56B"], domainMid=0, interpolate="rgb")
    color = alt.Color("strength:Q", scale=shades, legend=None)
    cells = base.mark_rect().encode(x=x, y=y, color=color, tooltip=["pair:N", "detail:N", "text:N", "inseparable:N"])
    words = base.mark_text(style="lane-label", clip=False, fontSize=11, align="center").encode(x=x, y=y, text="short:N")
    return alt.layer(cells, words).properties(height=alt.Step(22), width=400)


def _surface(title: str, lane_px: int, *, log: bool) -> Chart:
    """Cost to the right, what may be lost downwards: one point a configuration."""
    base = alt.Chart(alt.NamedData("surface"))
    scale = alt.Scale(type="log", nice=False, padding=20) if log else alt.Scale(zero=False, padding=20)
    x = alt.X("x:Q", title=title, scale=scale, axis=alt.Axis(format="~s" if not log else "~g", tickCount=4))
    y = alt.Y(
        "lane:N",
        title=None,
        sort=None,
        axis=alt.Axis(labelExpr="split(datum.label, '|')", labelLimit=250, ticks=False, grid=True),
    )
    bars = base.mark_rule(style="interval").encode(x=alt.X("low:Q"), x2="high:Q", y=y)
    points = base.mark_point(size=70, filled=True, opacity=0.85).encode(
        x=x,
        y=y,
        shape=alt.Shape("front:N", scale=alt.Scale(domain=_FRONT, range=["diamond", "circle"]), title=None),
        color=alt.Color("front:N", scale=alt.Scale(domain=_FRONT), title=None),
        tooltip=["title:N", "settings:N", "figure:N", "damage:N", alt.Tooltip("share:Q", title="on the front, share")],
    )
    names = point_names("x:Q", alt.Y("lane:N", sort=None), alt.Y("lane:N", sort=None), down="datum.down")
    return alt.layer(bars, *names, points).properties(height=alt.Step(lane_px), width=220)

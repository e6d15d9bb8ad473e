"""Vega-Lite specifications, made once with Altair and shared by all cells; colours come from the page's theme.

A specification names its data sets, and the page fills them for each cell. Widths are set in the browser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt

from reports.figures.over_time import LATENCIES, LATENCIES_UNACKNOWLEDGED
from reports.read.cell import Json
from reports.render.point_names import point_names

_SERIES = ["asked", "sent", "acked", "received"]
_CURVES = ["corrected", "uncorrected", "end to end"]
# Light enough for dark words on them, in both themes.
_LANE_COLORS = ["#56B4E9", "#E69F00", "#2DB88F", "#E39AC4", "#F0E442", "#FF8B4D"]
_STATES = ["up", "paused", "down"]
# Altair's chart classes share no useful base type; the charts here are built and turned into JSON at once.
Chart = Any


def specifications(
    *,
    p99_max_ms: float,
    capacity_min: float,
    capacity_max: float,
    throughput_max: float,
    records_per_batch_max: float,
) -> dict[str, Json]:
    """Name -> Vega-Lite specification. The limits give the small multiples of the sweep one scale each."""
    charts = {
        "sweep_capacity": _sweep("capacity", "capacity, records/s (log)", capacity_max, capacity_min),
        "sweep_throughput": _sweep("throughput", "records/s", throughput_max),
        "sweep_p99": _sweep("p99", "p99, ms", p99_max_ms),
        "sweep_records_per_batch": _sweep("records_per_batch", "records/batch", records_per_batch_max),
    }
    return {**_same_for_all_runs(), **{name: chart.to_dict(validate=False) for name, chart in charts.items()}}


@cache
def _same_for_all_runs() -> Mapping[str, Json]:
    """The specifications that do not depend on the run. They are made once, because Altair takes 0.4 s for them."""
    charts = {
        "time": _time(LATENCIES),
        "time_end_to_end": _time(LATENCIES_UNACKNOWLEDGED),
        "time_without_latency": _time(()),
        "curve": _curve(),
        "requests": _requests(),
        "price": _price("throughput, records/s", alt.Scale(zero=False, nice=True)),
        "price_at_ceilings": _price("capacity, records/s (log)", alt.Scale(type="log", nice=False, padding=24)),
    }
    made: dict[str, Json] = {name: chart.to_dict(validate=False) for name, chart in charts.items()}
    for name in ("price", "price_at_ceilings"):
        for layer in made[name]["layer"]:
            if layer["encoding"].get("color", {}).get("field") == "safety":
                # It is a name: the page's theme has the colours.
                layer["encoding"]["color"]["scale"]["range"] = "safety"
    return made


def _seconds(title: str | None = None, *, labels: bool = False) -> Chart:
    axis = alt.Axis(title=title, labels=labels, ticks=labels, format="~f")
    return alt.X("t:Q", axis=axis, scale=alt.Scale(nice=False, zero=False))


def _fault_band(x: Chart) -> Chart:
    return (
        alt.Chart(alt.NamedData("faults"))
        .mark_rect(style="fault")
        .encode(x=x, x2="t_end:Q", tooltip=[alt.Tooltip("label:N", title="fault"), alt.Tooltip("proof:N")])
    )


def _time(latencies: Sequence[str]) -> Chart:
    """Rates, latency, leader and ISR lanes and broker lanes over one axis of seconds.

    A logarithmic axis without a value has no domain, and Vega complains: without `latencies` there is no such panel.
    """
    latency = [_time_latency(list(latencies))] if latencies else []
    panels = [_rates(), *latency, _isr(), _leaders(), _brokers()]
    zoom = alt.selection_interval(bind="scales", encodings=["x"], name="zoom", zoom="wheel![event.shiftKey]")
    panels[0] = panels[0].add_params(zoom)
    return alt.vconcat(*panels, spacing=10).resolve_scale(x="shared", color="independent", strokeDash="independent")


def _rates() -> Chart:
    lines = (
        alt.Chart(alt.NamedData("rates"))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=_seconds(),
            y=alt.Y("drawn:Q", title="records/s", axis=alt.Axis(format=",~r", tickCount=4)),
            color=alt.Color("series:N", scale=alt.Scale(domain=_SERIES), title=None),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=_SERIES, range=[[2, 2], [6, 2], [1, 0], [8, 3, 2, 3]]), title=None
            ),
            tooltip=["t:Q", "series:N", alt.Tooltip("rate:Q", format=",.0f")],
        )
    )
    above = (
        alt.Chart(alt.NamedData("rates"))
        .mark_point(shape="triangle-up", filled=True)
        .encode(
            x=_seconds(),
            y="drawn:Q",
            size=alt.condition("datum.above", alt.value(30), alt.value(0)),
            color=alt.Color("series:N", scale=alt.Scale(domain=_SERIES), title=None),
            tooltip=["t:Q", "series:N", alt.Tooltip("rate:Q", title="above the axis, records/s", format=",.0f")],
        )
    )
    labels = (
        alt.Chart(alt.NamedData("faults"))
        .mark_text(style="fault-label", align="left", baseline="top", dx=3, dy=2)
        .encode(x=_seconds(), y=alt.value(0), text="number:N")
    )
    return alt.layer(_fault_band(_seconds()), lines, above, labels).properties(height=130, width=600)


def _time_latency(series: list[str]) -> Chart:
    scale = alt.Scale(type="log", nice=True)
    spread = (
        alt.Chart(alt.NamedData("spread"))
        .mark_area(style="spread", interpolate="step-after")
        .encode(x=_seconds(), y=alt.Y("low:Q", scale=scale), y2="high:Q")
    )
    lines = (
        alt.Chart(alt.NamedData("latency"))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=_seconds(),
            y=alt.Y("ms:Q", scale=scale, title="latency, ms (log)", axis=alt.Axis(format="~g", tickCount=4)),
            color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=series, range=[[1, 0], [2, 2], [6, 2]][: len(series)]), title=None
            ),
            tooltip=["t:Q", "series:N", alt.Tooltip("ms:Q", format=",.2f")],
        )
    )
    clock = (
        alt.Chart(alt.NamedData("clock"))
        .mark_area(style="clock", interpolate="step-after")
        .encode(x=_seconds(), y=alt.Y("low:Q", scale=scale), y2="high:Q", detail="series:N")
    )
    beyond = (
        alt.Chart(alt.NamedData("latency"))
        .mark_point(shape="triangle-up", filled=True)
        .encode(
            x=_seconds(),
            y=alt.value(4),
            # A filter would leave nothing in most cells, and Vega complains of an axis without a value.
            size=alt.condition("datum.beyond", alt.value(45), alt.value(0)),
            color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None),
            tooltip=["t:Q", "series:N", alt.Tooltip("beyond:N", title="not reached")],
        )
    )
    return alt.layer(_fault_band(_seconds()), spread, clock, lines, beyond).properties(height=120, width=600)


def _isr() -> Chart:
    lines = (
        alt.Chart(alt.NamedData("isr"))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=_seconds(),
            y=alt.Y(
                "size:Q",
                title="ISR size",
                scale=alt.Scale(domainMin=0, nice=False),
                axis=alt.Axis(tickMinStep=1, format="d", tickCount=4),
            ),
            color=alt.Color("partition:N", title=None),
            tooltip=["t:Q", "partition:N", "size:Q", "members:N"],
        )
    )
    return alt.layer(_fault_band(_seconds()), lines).properties(height=60, width=600)


def _lanes(data: str, title: str, color: Chart, *, bottom: bool) -> Chart:
    lane = alt.Y("lane:N", title=title, sort=None, axis=alt.Axis(ticks=False, domain=False))
    x = _seconds("seconds since the cell began", labels=True) if bottom else _seconds()
    bars = (
        alt.Chart(alt.NamedData(data))
        .mark_bar(height=13)
        .encode(x=x, x2="t_end:Q", y=lane, color=color, tooltip=["lane:N", "label:N", "t:Q", "t_end:Q"])
    )
    words = (
        alt.Chart(alt.NamedData(data))
        .mark_text(style="lane-label", align="left", dx=3)
        .encode(x=x, y=lane, text="label:N")
    )
    return alt.layer(_fault_band(x), bars, words).properties(height=alt.Step(17), width=600)


def _leaders() -> Chart:
    return _lanes(
        "leaders", "leader", alt.Color("broker:N", legend=None, scale=alt.Scale(range=_LANE_COLORS)), bottom=False
    )


def _brokers() -> Chart:
    # The three states keep their meaning in both themes, so their colours are fixed.
    colors = alt.Scale(domain=_STATES, range=["#56B4E9", "#E69F00", "#D55E00"])
    return _lanes("brokers", "broker", alt.Color("state:N", legend=None, scale=colors), bottom=True)


def _requests() -> Chart:
    """Requests of somebody's locustfile over the cell's own axis of seconds: how many ended, and how many of them
    failed."""
    bottom = _seconds("seconds since the cell began", labels=True)
    color = alt.Color("series:N", title=None)
    base = alt.Chart(alt.NamedData("requests"))
    ended = base.mark_line(interpolate="step-after", strokeWidth=1.5).encode(
        x=_seconds(),
        y=alt.Y(
            "requests:Q", title="requests/s", axis=alt.Axis(format=",~r", tickCount=4), scale=alt.Scale(domainMin=0)
        ),
        color=color,
        tooltip=["t:Q", "series:N", "requests:Q", "failures:Q", alt.Tooltip("p99_ms:Q", format=",.1f")],
    )
    failed = base.mark_point(shape="cross", filled=True).encode(
        x=_seconds(),
        y="failures:Q",
        size=alt.condition("datum.failures > 0", alt.value(40), alt.value(0)),
        color=color,
        tooltip=["t:Q", "series:N", alt.Tooltip("failures:Q", title="failed in this second")],
    )
    slow = base.mark_line(interpolate="step-after", strokeWidth=1.5).encode(
        x=bottom,
        y=alt.Y("p99_ms:Q", title="p99, ms", axis=alt.Axis(format=",~r", tickCount=4), scale=alt.Scale(domainMin=0)),
        color=color,
        tooltip=["t:Q", "series:N", alt.Tooltip("p99_ms:Q", format=",.1f")],
    )
    panels = (
        alt.layer(_fault_band(_seconds()), ended, failed).properties(height=100, width=600),
        alt.layer(_fault_band(bottom), slow).properties(height=90, width=600),
    )
    return alt.vconcat(*panels, spacing=10).resolve_scale(x="shared")


def _curve() -> Chart:
    """Percentile curve. The horizontal axis is 1 / (1 - q), logarithmic: p90, p99 and p99.9 are equally far apart."""
    labels = "datum.value < 1.5 ? '0 %' : format(100 - 100 / datum.value, '~r') + ' %'"
    clock = (
        alt.Chart(alt.NamedData("clock"))
        .mark_area(style="clock")
        .encode(
            x=alt.X("inverse:Q", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("low:Q", scale=alt.Scale(type="log")),
            y2="high:Q",
            tooltip=[alt.Tooltip("low:Q", format=",.2f"), alt.Tooltip("high:Q", format=",.2f")],
        )
    )
    lines = (
        alt.Chart(alt.NamedData("curve"))
        .mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5)
        .encode(
            x=alt.X(
                "inverse:Q",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(values=[1, 2, 10, 100, 1000, 10000, 100000, 1000000, 10000000], labelExpr=labels),
                title="percentile, as far as the sample carries; the last point is the maximum",
            ),
            y=alt.Y("ms:Q", scale=alt.Scale(type="log"), title="latency, ms (log)", axis=alt.Axis(format="~g")),
            color=alt.Color("series:N", scale=alt.Scale(domain=_CURVES), title=None),
            strokeDash=alt.StrokeDash(
                "series:N", scale=alt.Scale(domain=_CURVES, range=[[1, 0], [6, 2], [2, 2]]), title=None
            ),
            tooltip=["series:N", alt.Tooltip("percentile:Q", format=".3f"), alt.Tooltip("ms:Q", format=",.2f")],
        )
    )
    return alt.layer(clock, lines).properties(height=200, width=600)


def _price(rate: str, scale: Chart) -> Chart:
    """`rate` is the title of the rate axis. Capacities differ tenfold, so their axis is logarithmic. If all cells carry
    nearly the same rate, the axis begins near it."""
    tooltips = [
        "title:N", "settings:N", "safety:N", alt.Tooltip("rate:Q", title=rate, format=",.0f"),
        alt.Tooltip("p99:Q", format=",.2f"), "basis:N",
    ]  # fmt: skip
    safety = ["may lose acknowledged records", "loses none by contract", "promises nothing (acks=0)"]
    front = (
        alt.Chart(alt.NamedData("price"))
        .transform_filter("datum.front")
        .mark_line(style="front", interpolate="step-before")
        .encode(x="rate:Q", y="p99:Q", order="rate:Q")
    )
    points = (
        alt.Chart(alt.NamedData("price"))
        .mark_point(size=90, filled=True)
        .encode(
            x=alt.X("rate:Q", title=rate, scale=scale, axis=alt.Axis(tickCount=7, format=",~r")),
            y=alt.Y(
                "p99:Q",
                title="p99, ms (log)",
                scale=alt.Scale(type="log", nice=False, padding=16),
                axis=alt.Axis(format="~g"),
            ),
            color=alt.Color("safety:N", scale=alt.Scale(domain=safety), title=None),
            shape=alt.Shape("safety:N", scale=alt.Scale(domain=safety), title=None),
            tooltip=tooltips,
        )
    )
    bars = (
        alt.Chart(alt.NamedData("price"))
        .transform_filter("isValid(datum.p99_low)")
        .mark_rule(style="interval")
        .encode(x="rate:Q", y="p99_low:Q", y2="p99_high:Q")
    )
    across = (
        alt.Chart(alt.NamedData("price"))
        .transform_filter("isValid(datum.rate_low)")
        .mark_rule(style="interval")
        .encode(x="rate_low:Q", x2="rate_high:Q", y="p99:Q")
    )
    return alt.layer(front, bars, across, *point_names("rate:Q", "p99:Q", "p99_at:Q", down="-7"), points).properties(
        height=300, width=600
    )


def _sweep(field: str, title: str, limit: float, low: float | None = None) -> Chart:
    """One setting's effect on one figure: the baseline, and the cells that differ from it only in that setting. A point
    for each repetition shows the scatter. There is no interval from inside a cell, because readers would take it for
    the scatter. With `low` the axis is logarithmic and begins there."""
    linear = alt.Scale(domain=[0, limit], nice=True)
    y = alt.Y(
        f"{field}:Q",
        title=title,
        scale=linear if low is None else alt.Scale(type="log", domain=[low, limit], nice=True),
        axis=alt.Axis(format=",~r", tickCount=4),
    )
    x = alt.X("value:N", title=None, sort=None, axis=alt.Axis(labelAngle=0, labelLimit=70, labelOverlap=False))
    base = alt.Chart(alt.NamedData("sweep"))
    line = alt.Chart(alt.NamedData("middle")).mark_line(style="effect").encode(x=x, y=y)
    points = base.mark_point(size=100, filled=True).encode(
        x=x,
        y=y,
        shape=alt.Shape(
            "role:N", scale=alt.Scale(domain=["baseline", "changed"], range=["diamond", "circle"]), legend=None
        ),
        color=alt.Color("role:N", scale=alt.Scale(domain=["changed", "baseline"]), legend=None),
        tooltip=["title:N", "role:N", "value:N", alt.Tooltip(f"{field}:Q", format=",.2f")],
    )
    return alt.layer(line, points).properties(height=120, width=150)

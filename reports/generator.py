"""Generator health of each cell: the rows of its section, its chart and results/generator.csv. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from reports.criteria import Criteria
from reports.model import Json
from reports.noise import disturbance, host_noise
from reports.outputs import Judged
from reports.verdict import achieved_ratio

# (heading of the page, name in the CSV, factor)
COLUMNS: Final = (
    ("asked rate sent %", "achieved_share", 100.0),
    ("busiest process, % of a core", "cpu_share_busiest", 100.0),
    ("schedule lag p99 ms", "schedule_lag_us_p99", 1e-3),
    ("lag max ms", "schedule_lag_us_max", 1e-3),
    ("late sends", "late_sends", 1.0),
    ("refused for space", "backpressure_sends", 1.0),
    ("never sent", "unsent", 1.0),
    ("garbage collection ms", "gc_ms", 1.0),
    ("longest collection ms", "gc_ms_max", 1.0),
    ("hub p99 ms", "hub_lag_us_p99", 1e-3),
    ("foreign CPU %", "foreign_share", 100.0),
    ("stolen CPU %", "steal_share", 100.0),
    ("CPU pressure %", "psi_cpu_some_avg10", 1.0),
    ("IO pressure %", "psi_io_some_avg10", 1.0),
    ("memory pressure %", "psi_memory_some_avg10", 1.0),
)


def figures(item: Judged) -> dict[str, float | None]:
    """Name of the CSV -> value; None where it was not recorded."""
    health: Json = item.facts.cell.outcome.get("health") or {}
    noise = host_noise(item.facts, window_only=True)
    shares = health.get("cpu_share_by_process")
    busiest = max(shares) if isinstance(shares, list) and shares else health.get("cpu_share")
    found: dict[str, Any] = {
        **health,
        **noise,
        "achieved_share": achieved_ratio(item.facts),
        "cpu_share_busiest": busiest,
    }
    return {
        name: float(value) if isinstance(value := found.get(name), int | float) else None for _, name, _ in COLUMNS
    }  # fmt: skip


def table(judged: Sequence[Judged]) -> tuple[list[str], list[list[object]]]:
    """Header and rows of generator.csv."""
    header = ["cell_id", *(name for _, name, _ in COLUMNS), "mark"]
    rows: list[list[object]] = [
        [item.facts.cell.cell_id, *figures(item).values(), mark(item)] for item in judged
    ]  # fmt: skip
    return header, rows


def mark(item: Judged) -> str:
    """What the reader must know of the cell: client-bound, disturbed."""
    bound = [c.reason for c in item.verdict.checks if c.result != "pass" and "client-bound" in c.reason]
    return "; ".join([*bound, *filter(None, [disturbance(item.facts)])])


def view(judged: Sequence[Judged]) -> Json:
    return {
        "drawn": bool(chart_rows(judged)),
        "header": [heading for heading, _, _ in COLUMNS],
        "rows": [
            {
                "cell_id": item.facts.cell.cell_id,
                "title": item.facts.cell.title,
                "figures": [
                    "–" if (value := own[name]) is None else f"{value * factor:,.3g}" for _, name, factor in COLUMNS
                ],
                "mark": mark(item),
            }
            for item in judged
            for own in (figures(item),)
        ],
    }


def chart_rows(judged: Sequence[Judged]) -> list[Json]:
    rows: list[Json] = []
    for order, item in enumerate(judged, start=1):
        own = figures(item)
        for name, series in (("cpu_share_busiest", "generator, of a core"), ("foreign_share", "foreign, of all cores")):
            value = own[name]
            if value is not None:
                rows.append(
                    {"order": order, "title": item.facts.cell.title, "share": round(value, 3), "series": series}
                )
    return rows


def chart(judged: Sequence[Judged]) -> dict[str, Json]:
    """The chart's entry in the page, if anything was recorded."""
    rows = chart_rows(judged)
    limit = [{"share": Criteria().generator_cpu_share_max}]
    return {"generator": {"spec": "generator", "data": {"generator": rows, "limit": limit}}} if rows else {}


def specification() -> Json:
    """CPU shares in the order of the run, with the limit above which a shortfall is the client's."""
    series = ["generator, of a core", "foreign, of all cores"]
    points = (
        alt.Chart(alt.NamedData("generator"))
        .mark_line(point=alt.OverlayMarkDef(size=30), strokeWidth=1.2)
        .encode(
            x=alt.X("order:Q", title="cell, in the order of the run", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("share:Q", title="CPU share", axis=alt.Axis(format="%"), scale=alt.Scale(domainMin=0)),
            color=alt.Color("series:N", scale=alt.Scale(domain=series), title=None),
            strokeDash=alt.StrokeDash("series:N", scale=alt.Scale(domain=series, range=[[1, 0], [4, 2]]), title=None),
            tooltip=["title:N", "series:N", alt.Tooltip("share:Q", format=".0%")],
        )
    )
    rule = alt.Chart(alt.NamedData("limit")).mark_rule(style="front").encode(y="share:Q")
    layers: Any = alt.layer(points, rule).properties(height=150, width=600)
    result: Json = layers.to_dict(validate=False)
    return result

"""Generator health of each cell: the rows of its section, its chart and results/generator.csv. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from reports.asked import achieved_ratio
from reports.broker_cpu import still_warming
from reports.criteria import Criteria
from reports.model import Json
from reports.noise import disturbance, host_noise
from reports.outputs import Judged
from reports.verdict import ceiling_share, generator_ceiling_per_s

_SERIES: Final = {
    "cpu_share_busiest": "generator CPU, of a core",
    "ceiling_share": "rate, of the generator's ceiling",
    "foreign_share": "foreign CPU, of all cores",
}
# (heading of the page, name in the CSV, factor)
COLUMNS: Final = (
    ("asked rate sent %", "achieved_share", 100.0),
    ("busiest process, % of a core", "cpu_share_busiest", 100.0),
    ("ceiling of the generator, records/s", "ceiling_records_per_s", 1.0),
    ("share of that ceiling %", "ceiling_share", 100.0),
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
        "ceiling_records_per_s": generator_ceiling_per_s(item.facts),
        "ceiling_share": ceiling_share(item.facts),
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
    """What the reader must know of the cell: client-bound, disturbed, brokers still warming."""
    bound = [c.reason for c in item.verdict.checks if c.result != "pass" and "client-bound" in c.reason]
    return "; ".join([*bound, *filter(None, [disturbance(item.facts), still_warming(item.facts, Criteria())])])


CERTIFICATE_COLUMNS: Final = (
    ("ceiling, records/s", "records_per_s", 1.0),
    ("window s", "window_s", 1.0),
    ("tries", "attempts", 1.0),
    ("busiest process, % of a core", "cpu_share_busiest", 100.0),
    ("null broker, % of a core", "broker_cpu_share", 100.0),
    ("longest collection ms", "gc_ms_max", 1.0),
    ("hub p99 ms", "hub_lag_us_p99", 1e-3),
    ("foreign CPU %", "foreign_share", 100.0),
    ("disturbed", "disturbed", 1.0),
)


def _certificates(manifest: Json) -> list[Json]:
    certification = manifest.get("certification")
    found = certification.get("certificates") if isinstance(certification, dict) else None
    rows = [dict(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [{**one, "cpu_share_busiest": max(one.get("cpu_share_by_process") or [0.0])} for one in rows]


def certificate_table(manifest: Json) -> tuple[list[str], list[list[object]]]:
    """Header and rows of certificates.csv: what the generator reached by itself."""
    names = [name for _, name, _ in CERTIFICATE_COLUMNS]
    rows: list[list[object]] = [
        [one.get("id"), one.get("client"), one.get("shape"), _settings(one), *(one.get(name) for name in names)]
        for one in _certificates(manifest)
    ]
    return ["id", "client", "shape", "settings", *names], rows


def _settings(certificate: Json) -> str:
    properties = certificate.get("properties")
    return " ".join(f"{name}={value}" for name, value in properties.items()) if isinstance(properties, dict) else ""


def certification_sentence(manifest: Json) -> str:
    """Whether the generator was measured by itself before the run, and what doubt there is."""
    found = manifest.get("certification")
    if not isinstance(found, dict):
        return "The generator was not certified: the run is older than that, or ended before."
    rows = _certificates(manifest)
    why = f": {found['why']}" if found.get("why") else ""
    if not rows:
        return f"The generator was not certified ({found.get('status')}{why})."
    doubt = " Others ran meanwhile: the true ceilings are higher." if any(one.get("disturbed") for one in rows) else ""
    return (
        f"Before the first cell the generator was run by itself, as fast as it goes, against a broker that stores "
        f"nothing: {len(rows)} shape{'s' if len(rows) > 1 else ''} in {found.get('seconds', 0):.0f} s.{doubt}"
    )


def view(judged: Sequence[Judged], manifest: Json) -> Json:
    certification = manifest.get("certification")
    problems = certification.get("problems") if isinstance(certification, dict) else None
    return {
        "certification": certification_sentence(manifest),
        "certification_problems": [str(one) for one in problems] if isinstance(problems, list) else [],
        "certificate_header": [heading for heading, _, _ in CERTIFICATE_COLUMNS],
        "certificates": [
            {
                "id": one.get("id"),
                "title": f"{one.get('client')}, {one.get('shape')}",
                "settings": _settings(one),
                "figures": [_shown(one.get(name), factor) for _, name, factor in CERTIFICATE_COLUMNS],
            }
            for one in _certificates(manifest)
        ],
        "drawn": bool(chart_rows(judged)),
        "header": [heading for heading, _, _ in COLUMNS],
        "rows": [
            {
                "cell_id": item.facts.cell.cell_id,
                "title": item.facts.cell.title,
                "figures": [_shown(own[name], factor) for _, name, factor in COLUMNS],
                "mark": mark(item),
            }
            for item in judged
            for own in (figures(item),)
        ],
    }


def _shown(value: object, factor: float) -> str:
    """Three digits, all of those before the point."""
    if not isinstance(value, int | float):
        return "–"
    shown = value * factor
    return f"{shown:,.0f}" if abs(shown) >= 100 else f"{shown:,.3g}"


def chart_rows(judged: Sequence[Judged]) -> list[Json]:
    rows: list[Json] = []
    for order, item in enumerate(judged, start=1):
        own = figures(item)
        for name, series in _SERIES.items():
            value = own[name]
            if value is not None:
                rows.append(
                    {"order": order, "title": item.facts.cell.title, "share": round(value, 3), "series": series}
                )
    return rows


def chart(judged: Sequence[Judged]) -> dict[str, Json]:
    """The chart's entry in the page, if anything was recorded."""
    rows = chart_rows(judged)
    criteria = Criteria()
    limit = [{"share": criteria.generator_cpu_share_max}, {"share": criteria.generator_ceiling_share_max}]
    return {"generator": {"spec": "generator", "data": {"generator": rows, "limit": limit}}} if rows else {}


def specification() -> Json:
    """Shares in the order of the run, with the limits above which a figure may be the client's."""
    series = list(_SERIES.values())
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
    layers: Any = alt.layer(points, rule).properties(height=150, width=600)
    result: Json = layers.to_dict(validate=False)
    return result

"""What the page shows of a sweep's analysis: texts, tables, and the data sets of its charts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reports.model import Json
from reports.sweep import tables
from reports.sweep.analysis import SweepAnalysis
from reports.sweep.fork_scatter import how_many_clusters, words
from reports.sweep.observations import BY_NAME, MEASURES, NO_FIGURES, SAFE
from reports.sweep.recommend import effect_size, figure, significant
from reports.sweep.why import explain

# Attribute of Behaviour -> heading, factor.
_BEHAVIOUR: Final[Mapping[str, tuple[str, float]]] = {
    "records_per_batch": ("rec/batch", 1),
    "fill": ("fill %", 100),
    "records_per_request": ("rec/request", 1),
    "requests_per_s": ("requests/s", 1),
    "queue_ms": ("queue and linger ms", 1),
    "request_ms": ("round trip ms", 1),
    "retries": ("retries", 1),
    "buffer_wait_ms": ("wait for memory ms", 1),
    "backpressure_sends": ("refused for space", 1),
    "compression_ratio": ("compression", 1),
    "wire_bytes_per_record": ("B/record", 1),
    "broker_cpu_us_per_record": ("broker CPU µs/rec", 1),
    "broker_cpu_without_compiler_us_per_record": ("without JIT compiler", 1),
    "compiler_us_per_record": ("JIT compiler µs/rec", 1),
    "collector_us_per_record": ("GC µs/rec", 1),
    "client_cpu_us_per_record": ("client CPU µs/rec", 1),
}


def view(analysis: SweepAnalysis) -> Json:
    """The context of sweep.html.j2."""
    effects = tables.effect_rows(analysis)
    reasons = [one.why_no_interactions for one in analysis.effects.values() if one.why_no_interactions]
    return {
        "design": analysis.design,
        "repetitions": analysis.repetitions,
        "clusters": how_many_clusters(analysis.means),
        "fork_scatter": [words(item) for item in analysis.fork_scatters],
        "repeated": any(one.repeated for one in analysis.means.values()),
        "has_baseline": analysis.baseline is not None,
        "warnings": list(analysis.warnings),
        "effects": {name: {"title": BY_NAME[name].title, "rows": rows} for name, rows in effects.items()},
        "interactions": tables.interaction_rows(analysis),
        "why_no_interactions": "; ".join(dict.fromkeys(reasons)),
        "surface": list(tables.surface_rows(analysis)),
        "measure_titles": [f"{measure.title}, {measure.unit}" for measure in MEASURES],
        "surface_table": [
            {
                "title": point.title,
                "cell_id": point.cell_id,
                "contract": point.contract,
                "damage": point.damage.text(),
                "share": point.share_on_front,
                "figures": [
                    figure(point.levels[measure.name], measure).replace(f" {measure.unit}", "", 1)
                    if measure.name in point.levels
                    else "–"
                    for measure in MEASURES
                ],
            }
            for point in analysis.points
        ],
        "why": explain(analysis.observations, analysis.baseline),
        "behaviour_header": ["cell", "state", *(heading for heading, _ in _BEHAVIOUR.values())],
        "behaviour": [
            {
                "title": item.title,
                "cell_id": item.cell_id,
                "state": item.state,
                "values_": [
                    "–" if (value := getattr(item.behaviour, name)) is None else significant(value * factor)
                    for name, (_, factor) in _BEHAVIOUR.items()
                ],
            }
            for item in analysis.observations
        ],
        "sensitivity": [
            {
                "title": BY_NAME[item.measure].title,
                "scatter": f"{item.scatter:.1%}",
                "repetitions": item.repetitions,
                "smallest": effect_size(item.smallest_effect),
                "needed": item.repetitions_for_target or "more than 1,000",
            }
            for item in analysis.sensitivities
        ],
    }


def recommendation_view(analysis: SweepAnalysis) -> Json:
    own = analysis.recommendation
    properties = "\n".join(f"{name}={value}" for name, value in own.point.configuration) if own.point else ""
    safe = len([point for point in analysis.points if point.safety == SAFE])
    return {
        "sentences": list(own.sentences),
        "properties": properties,
        "safe": safe,
        "unusable": sum(item.state in NO_FIGURES for item in analysis.observations),
    }


def charts(analysis: SweepAnalysis) -> dict[str, Json]:
    """Chart name -> specification and data sets."""
    found: dict[str, Json] = {}
    for name, rows in tables.effect_rows(analysis).items():
        found[f"effects-{name}"] = {"spec": "effects", "data": {"effects": rows, "one": [{"ratio": 1}]}}
    interactions = tables.interaction_rows(analysis)
    if interactions:
        short = [
            {**row, "short": str(row["text"]).split(" (")[0] + (" ●" if row["clear"] else "")} for row in interactions
        ]
        found["interactions"] = {"spec": "interactions", "data": {"interactions": short}}
    for name, rows in tables.surface_rows(analysis).items():
        found[f"surface-{name}"] = {"spec": f"surface_{name}", "data": {"surface": rows}}
    return found


def ratio_limits(analysis: SweepAnalysis | None) -> dict[str, float]:
    """One scale for all effect charts: the widest estimate with room for its interval, at least 0.8 to 1.25."""
    effects = [effect.estimate for one in (analysis.effects.values() if analysis else ()) for effect in one.effects]
    ratios = [one.ratio if one.is_bounded else (one.ratio[0],) * 3 for one in effects]
    low = min([0.8, *(max(lower, value / 3) for value, lower, _ in ratios)])
    high = max([1.25, *(min(upper, value * 3) for value, _, upper in ratios)])
    return {"ratio_low": round(low * 0.95, 4), "ratio_high": round(high * 1.05, 4)}

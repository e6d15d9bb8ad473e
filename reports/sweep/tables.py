"""The analysis of a sweep as JSON and as tables: the same figures that stand behind the charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from reports.model import Json
from reports.statistics.variance import Estimate
from reports.sweep.analysis import SweepAnalysis
from reports.sweep.behaviour import Behaviour
from reports.sweep.effects import Effect
from reports.sweep.front import Damage, Point
from reports.sweep.observations import BY_NAME, MEASURES, Configuration, configuration_text
from reports.sweep.recommend import change, compiler_us, figure

Table = tuple[list[str], list[list[object]]]  # header, rows
SCHEMA_VERSION = 1


def as_json(analysis: SweepAnalysis) -> Json:
    """results/sweep.json; docs/internals/contracts.md names the fields."""
    recommendation = analysis.recommendation
    combination = recommendation.combination
    return {
        "schema_version": SCHEMA_VERSION,
        "design": analysis.design,
        "repetitions": analysis.repetitions,
        "forks": analysis.forks,
        "fork_scatter": [asdict(item) for item in analysis.fork_scatters],
        "recommendation": {
            "settings": _settings(recommendation.point.configuration) if recommendation.point else None,
            "cell_id": recommendation.point.cell_id if recommendation.point else None,
            "objective": recommendation.objective,
            "certainty": recommendation.certainty,
            "not_distinguishable": list(recommendation.ties),
            "sentences": list(recommendation.sentences),
            "predicted": _predicted(recommendation.point, analysis) if recommendation.point else None,
            "combination": {
                "settings": _settings(combination.settings),
                "predicted_p99": _level(combination.p99, "p99") if combination.p99 else None,
            }
            if combination
            else None,
        },
        "warnings": list(analysis.warnings),
        "effects": [dict(zip(_EFFECTS, row, strict=True)) for row in effect_table(analysis)[1]],
        "interactions": [dict(zip(_INTERACTIONS, row, strict=True)) for row in interaction_table(analysis)[1]],
        "sensitivity": [asdict(item) for item in analysis.sensitivities],
        "surface": [
            {
                "settings": _settings(point.configuration),
                "cell_id": point.cell_id,
                "contract": point.contract,
                "damage": asdict(point.damage),
                "share_on_front": point.share_on_front,
                "figures": {name: _level(level, name) for name, level in point.levels.items()},
            }
            for point in analysis.points
        ],
        "cells": [
            {
                "cell_id": item.cell_id,
                "round": item.round,
                "fork": item.fork,
                "state": item.state,
                "reason": item.reason,
                "warming": item.warming,
                "settings": _settings(item.configuration),
                "values": item.values,
                "behaviour": asdict(item.behaviour),
            }
            for item in analysis.observations
        ],
    }


def _settings(configuration: Configuration) -> dict[str, str]:
    return dict(configuration)


def _level(level: Estimate, name: str) -> Json:
    scale = BY_NAME[name].scale
    value, low, high = _rounded_all((level.ratio[0], *level.bounds), 6, scale)
    return {"value": value, "low": low, "high": high, "unit": BY_NAME[name].unit}


def _predicted(point: Point, analysis: SweepAnalysis) -> Json:
    """What a confirmation is held against. Broker CPU with the compilers' part beside it, which is not in it; without
    that key it is in it."""
    levels = {
        name: {
            **_level(own.expected, name),
            "forks": own.forks,
            "rounds": own.rounds,
            "flattery": round(math.exp(own.flattery), 6),
            "level": _level(point.levels[name], name),
        }
        for name, own in analysis.recommendation.predicted.items()
    }
    compiler = compiler_us(point.configuration, analysis.observations)
    if "broker_cpu" in levels and compiler is not None:
        levels["broker_cpu"]["compiler"] = round(compiler, 6)
    return levels


_EFFECTS = ["measure", "setting", "reference", "value", "ratio", "low", "high", "judgement", "basis"]
_INTERACTIONS = ["measure", "first", "second", "ratio", "low", "high", "clear", "inseparable"]
_SURFACE = [
    "settings",
    "contract",
    "faults_tried",
    "lost",
    "duplicated",
    "reordered",
    "damaged_per_million",
    "on_front",
]
_FORKS = ["measure", "clusters", "rounds_on_each", "between_clusters", "within_a_cluster", "cluster", "offset"]
_SENSITIVITY = ["measure", "scatter_of_one_repetition", "repetitions", "smallest_effect", "repetitions_for_5_percent"]


def judgement(effect: Effect) -> str:
    """better, worse or not clear, by the interval; what ran once is neither better nor worse."""
    if not effect.clear or not effect.repeated:
        return "not clear"
    return "better" if (effect.estimate.value > 0) == BY_NAME[effect.measure].more_is_better else "worse"


def effect_table(analysis: SweepAnalysis) -> Table:
    rows: list[list[object]] = []
    for effects in analysis.effects.values():
        for effect in effects.effects:
            ratio, low, high = _rounded_all((effect.estimate.ratio[0], *effect.estimate.bounds), 5)
            basis = "between repetitions" if effect.repeated else "inside one run only"
            rows.append(
                [
                    *(effect.measure, effect.setting, effect.reference, effect.value),
                    *(ratio, low, high, judgement(effect), basis),
                ]
            )
    return _EFFECTS, rows


def interaction_table(analysis: SweepAnalysis) -> Table:
    rows: list[list[object]] = []
    for effects in analysis.effects.values():
        for item in effects.interactions:
            ratio, low, high = _rounded_all((item.estimate.ratio[0], *item.estimate.bounds), 5)
            rows.append(
                [
                    *(item.measure, item.first, item.second, ratio, low, high),
                    *(item.estimate.excludes_zero, "; ".join(item.inseparable)),
                ]
            )
    return _INTERACTIONS, rows


def surface_table(analysis: SweepAnalysis) -> Table:
    header = [*_SURFACE, *(f"{m.name}_{part}" for m in MEASURES for part in ("value", "low", "high"))]
    rows: list[list[object]] = []
    for point in analysis.points:
        damage = point.damage
        row: list[object] = [configuration_text(point.configuration), point.contract, damage.cells, damage.lost]
        row += [damage.duplicated, damage.reordered, round(damage.per_million, 1), round(point.share_on_front, 3)]
        for measure in MEASURES:
            level = point.levels.get(measure.name)
            row += [None] * 3 if level is None else _rounded_all((level.ratio[0], *level.bounds), 5, measure.scale)
        rows.append(row)
    return header, rows


def sensitivity_table(analysis: SweepAnalysis) -> Table:
    return _SENSITIVITY, [
        [s.measure, round(s.scatter, 5), s.repetitions, round(s.smallest_effect, 5), s.repetitions_for_target]
        for s in analysis.sensitivities
    ]


def fork_table(analysis: SweepAnalysis) -> Table:
    """One row a cluster and measure."""
    return _FORKS, [
        [s.measure, s.forks, s.rounds, round(s.between, 5), round(s.within, 5), number, round(offset, 5)]
        for s in analysis.fork_scatters
        for number, offset in zip(s.numbers, s.offsets, strict=True)
    ]


def behaviour_table(analysis: SweepAnalysis) -> Table:
    names = list(Behaviour.__dataclass_fields__)
    return (
        ["cell_id", "title", "round", "fork", "state", *names],
        [
            [item.cell_id, item.title, item.round, item.fork, item.state]
            + [_rounded(getattr(item.behaviour, name)) for name in names]
            for item in analysis.observations
        ],
    )


def _rounded_all(numbers: Sequence[float | None], digits: int, scale: float = 1.0) -> list[float | None]:
    return [None if number is None else round(number * scale, digits) for number in numbers]


def _drawn(estimate: Estimate, scale: float = 1.0) -> list[float]:
    """Value and the ends of the bar around it; no bar where nothing tells how long it is."""
    numbers = estimate.ratio if estimate.is_bounded else (estimate.ratio[0],) * 3
    return [round(number * scale, 4) for number in numbers]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def tables(analysis: SweepAnalysis) -> dict[str, Table]:
    """File name below results/ -> table."""
    return {
        "effects.csv": effect_table(analysis),
        "interactions.csv": interaction_table(analysis),
        "surface.csv": surface_table(analysis),
        "sensitivity.csv": sensitivity_table(analysis),
        "forks.csv": fork_table(analysis),
        "behaviour.csv": behaviour_table(analysis),
    }


# --- what page and charts show ---------------------------------------------------------------------------------------


_SHORT = {"max.in.flight.requests.per.connection": "max.in.flight", "enable.idempotence": "idempotence"}


def effect_rows(analysis: SweepAnalysis) -> dict[str, list[Json]]:
    """Measure -> rows of the effect chart."""
    return {
        name: [
            {
                "label": f"{_SHORT.get(effect.setting, effect.setting)}={effect.value}",
                "setting": effect.setting,
                "reference": effect.reference,
                "ratio": ratio,
                "low": low,
                "high": high,
                "judgement": judgement(effect),
                "text": change(effect.estimate),
            }
            for effect in effects.effects
            for ratio, low, high in [_drawn(effect.estimate)]
        ]
        for name, effects in analysis.effects.items()
        if effects.effects
    }


def interaction_rows(analysis: SweepAnalysis) -> list[Json]:
    rows: list[Json] = []
    for effects in analysis.effects.values():
        rows += [
            {
                "measure": BY_NAME[item.measure].title,
                "pair": " x ".join(item.settings),
                "detail": f"{item.first} with {item.second}",
                "strength": round(item.estimate.value, 4),
                "text": change(item.estimate),
                "clear": item.estimate.excludes_zero,
                "mark": "clear" if item.estimate.excludes_zero else "",
                "inseparable": ", ".join(item.inseparable) or "none",
            }
            for item in effects.interactions
        ]
    return rows


def surface_rows(analysis: SweepAnalysis) -> dict[str, list[Json]]:
    """Measure -> points; the lane says what may be lost and what was lost under faults."""
    result: dict[str, list[Json]] = {}
    for measure in MEASURES:
        rows: list[Json] = []
        for point in analysis.points:
            level = point.levels.get(measure.name)
            if level is None:
                continue
            value, low, high = _drawn(level, measure.scale)
            rows.append(
                {
                    "title": point.title,
                    "settings": configuration_text(point.configuration),
                    "lane": f"{point.contract}|{_damage_text(point.damage)}",
                    "damage": point.damage.text(),
                    "x": value,
                    "low": low,
                    "high": high,
                    "front": "on the front" if point.on_front else "beaten by another",
                    "share": round(point.share_on_front, 2),
                    "figure": figure(level, measure),
                }
            )
        if rows:
            result[measure.name] = rows
    return result


def _damage_text(damage: Damage) -> str:
    if not damage.cells:
        return "not tried under faults"
    return f"{damage.per_million:,.0f} of a million damaged by faults" if damage.total else "nothing damaged by faults"

"""The analysis of a sweep as tables, with the same figures as the charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

from reports.figures.sweep.effects import Effect, Interaction, judgement
from reports.figures.sweep.observations import MEASURES, configuration_text
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.read.model import PREDICTED_KINDS
from runlog.records.sweep import Behaviour, EffectRecord, InteractionRecord

Table = tuple[list[str], list[list[object]]]  # header, rows


_SURFACE = [
    "settings",
    "contract",
    "faults_tried",
    "lost",
    "duplicated",
    "reordered",
    *(f"{kind}_per_million" for kind in PREDICTED_KINDS),
    "on_front",
]
_FORKS = ["measure", "clusters", "rounds_on_each", "between_clusters", "within_a_cluster", "cluster", "offset"]
_SENSITIVITY = ["measure", "scatter_of_one_repetition", "repetitions", "smallest_effect", "repetitions_for_5_percent"]


def effect_records(analysis: SweepAnalysis) -> tuple[EffectRecord, ...]:
    return tuple(_effect(effect) for effects in analysis.effects.values() for effect in effects.effects)


def _effect(effect: Effect) -> EffectRecord:
    ratio, low, high = _rounded_all((effect.estimate.ratio[0], *effect.estimate.bounds), 5)
    return EffectRecord(
        measure=effect.measure,
        setting=effect.setting,
        reference=effect.reference,
        value=effect.value,
        ratio=ratio,
        low=low,
        high=high,
        judgement=judgement(effect),
        basis="between repetitions" if effect.repeated else "inside one run only",
    )


def interaction_records(analysis: SweepAnalysis) -> tuple[InteractionRecord, ...]:
    return tuple(_interaction(item) for effects in analysis.effects.values() for item in effects.interactions)


def _interaction(item: Interaction) -> InteractionRecord:
    ratio, low, high = _rounded_all((item.estimate.ratio[0], *item.estimate.bounds), 5)
    return InteractionRecord(
        measure=item.measure,
        first=item.first,
        second=item.second,
        ratio=ratio,
        low=low,
        high=high,
        clear=item.estimate.excludes_zero,
        inseparable="; ".join(item.inseparable),
    )


def _table_of(record_type: type, records: Sequence[object]) -> Table:
    """One column a field."""
    names = [field.name for field in fields(record_type)]
    return names, [[getattr(record, name) for name in names] for record in records]


def surface_table(analysis: SweepAnalysis) -> Table:
    header = [*_SURFACE, *(f"{m.name}_{part}" for m in MEASURES for part in ("value", "low", "high"))]
    rows: list[list[object]] = []
    for point in analysis.points:
        damage = point.damage
        row: list[object] = [configuration_text(point.ran_with), point.contract, damage.cells, damage.lost]
        row += [damage.duplicated, damage.reordered]
        row += _rounded_all([damage.per_million_of(kind) for kind in PREDICTED_KINDS], 1)
        row.append(round(point.share_on_front, 3))
        for measure in MEASURES:
            level = point.levels.get(measure.name)
            row += [None] * 3 if level is None else _rounded_all((level.ratio[0], *level.bounds), 5, measure.scale)
        rows.append(row)
    return header, rows


def sensitivity_table(analysis: SweepAnalysis) -> Table:
    return _SENSITIVITY, [
        [s.measure, round(s.scatter, 5), s.repetitions, _log(s.smallest_effect), s.repetitions_for_target]
        for s in analysis.sensitivities
    ]


def _log(share: float) -> float:
    return round(math.log1p(share), 5)


def fork_table(analysis: SweepAnalysis) -> Table:
    """One row a cluster and measure."""
    return _FORKS, [
        [s.measure, s.forks, s.rounds, round(s.between, 5), round(s.within, 5), number, round(offset, 5)]
        for s in analysis.fork_scatters
        for number, offset in zip(s.numbers, s.offsets, strict=True)
    ]


def behaviour_table(analysis: SweepAnalysis) -> Table:
    names = [field.name for field in fields(Behaviour)]
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


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def tables(analysis: SweepAnalysis) -> dict[str, Table]:
    """File name below results/ -> table."""
    return {
        "effects.csv": _table_of(EffectRecord, effect_records(analysis)),
        "interactions.csv": _table_of(InteractionRecord, interaction_records(analysis)),
        "surface.csv": surface_table(analysis),
        "sensitivity.csv": sensitivity_table(analysis),
        "forks.csv": fork_table(analysis),
        "behaviour.csv": behaviour_table(analysis),
    }

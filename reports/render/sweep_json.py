"""results/sweep.json: the analysis of a sweep for programs."""

from __future__ import annotations

from collections.abc import Mapping

from reports.figures.sweep.figures import SweepFigures
from reports.figures.sweep.front import Point
from reports.figures.sweep.observations import Observation
from runlog.records.sweep import (
    SWEEP_VERSION,
    CombinationRecord,
    DamageRecord,
    Level,
    RecommendationRecord,
    SurfacePointRecord,
    SweepRecord,
    SweptCell,
)


def sweep_record(sweep: SweepFigures, *, analysis_id: str) -> SweepRecord:
    analysis = sweep.analysis
    return SweepRecord(
        schema_version=SWEEP_VERSION,
        design=analysis.design,
        repetitions=analysis.repetitions,
        forks=analysis.forks,
        fork_scatter=analysis.fork_scatters,
        recommendation=_recommendation(sweep),
        warnings=analysis.warnings,
        effects=sweep.effect_records,
        interactions=sweep.interaction_records,
        sensitivity=analysis.sensitivities,
        surface=tuple(_point(point, levels) for point, levels in zip(analysis.points, sweep.levels, strict=True)),
        cells=tuple(_cell(item) for item in analysis.observations),
        analysis_id=analysis_id,
    )


def _recommendation(sweep: SweepFigures) -> RecommendationRecord:
    found = sweep.analysis.recommendation
    point, combination = found.point, found.combination
    return RecommendationRecord(
        settings=dict(point.ran_with) if point else None,
        cell_id=point.cell_id if point else None,
        objective=found.objective,
        certainty=found.certainty,
        not_distinguishable=found.ties,
        sentences=found.sentences,
        predicted=sweep.predicted if point else None,
        combination=CombinationRecord(settings=dict(combination.settings), predicted_p99=sweep.combination_p99)
        if combination
        else None,
    )


def _point(point: Point, levels: Mapping[str, Level]) -> SurfacePointRecord:
    damage = point.damage
    return SurfacePointRecord(
        settings=dict(point.ran_with),
        cell_id=point.cell_id,
        contract=point.contract,
        damage=DamageRecord(
            cells=damage.cells,
            lost=damage.lost,
            duplicated=damage.duplicated,
            reordered=damage.reordered,
            sent=damage.sent,
        ),
        share_on_front=point.share_on_front,
        figures=levels,
    )


def _cell(item: Observation) -> SweptCell:
    return SweptCell(
        cell_id=item.cell_id,
        round=item.round,
        fork=item.fork,
        state=item.state,
        reason=item.reason,
        warming=item.warming,
        settings=dict(item.ran_with),
        values=item.values,
        behaviour=item.behaviour,
    )

"""results/verdicts.json: the verdicts of the run and of each cell, for programs. `results_schema.py` has its schema."""

from __future__ import annotations

import math
from datetime import datetime

from reports.figures.cell import CellFigures
from reports.figures.damage import KindOfDamage
from reports.figures.figures import Figures
from reports.figures.reading import reading_of
from reports.judge.catalogue import IN_JSON
from reports.judge.run_limits import RunLimit
from reports.read.model import (
    CORRECTED,
    END_TO_END,
    SCHEDULE_LAG,
    UNCORRECTED,
    IdentitySet,
    Latency,
    Recovery,
)
from runlog.records.hosts import known_error_us
from runlog.records.verdicts import (
    VERDICTS_VERSION,
    AnalysisRecord,
    CellVerdict,
    CheckRecord,
    ComparedSets,
    JudgedRun,
    LatenciesRecord,
    LatencyRecord,
    PredictedDamage,
    RecoveryRecord,
    RunLimitVerdict,
    SendCounts,
    SetComparisonRecord,
    SetRecord,
    VerdictsRecord,
)


def verdicts_record(figures: Figures) -> VerdictsRecord:
    run = figures.run
    return VerdictsRecord(
        schema_version=VERDICTS_VERSION,
        analysis=AnalysisRecord(
            id=run.analysis_id, written_at=datetime.now().astimezone().isoformat(timespec="seconds")
        ),
        run=JudgedRun(
            run_id=run.run_id,
            engine=run.engine,
            seed=run.seed,
            t0_wall=run.t0_wall,
            versions=run.versions,
            notes=run.notes,
            problems=run.problems,
        ),
        reading=reading_of(figures),
        limits=tuple(_run_limit(one) for one in run.limits),
        cells=tuple(cell_record(cell) for cell in figures.cells),
        verdict=run.verdict,
        exit_code=run.exit_code,
    )


def _run_limit(one: RunLimit) -> RunLimitVerdict:
    held = one.held
    return RunLimitVerdict(
        subject=one.subject,
        limit=held.limit,
        figure=held.figure,
        value=held.value,
        bound=held.bound,
        outcome=held.outcome,
        reason=held.reason,
        result=one.check.result,
        allowed=one.check.allowed,
        clock_error=held.clock_error,
    )


def cell_record(cell: CellFigures) -> CellVerdict:
    verdict, counts = cell.verdict, cell.counts
    figures = [(figure, figure.filed(cell.source)) for figure in IN_JSON]
    return CellVerdict(
        cell_id=cell.id,
        title=cell.title,
        kind=cell.kind,
        client=cell.client,
        scenario=cell.scenario,
        case=cell.case,
        verdict=verdict.result,
        reasons=tuple(verdict.reasons),
        notes=verdict.notes,
        holes=verdict.holes,
        checks=tuple(CheckRecord(name=c.name, result=c.result, reason=c.reason) for c in verdict.checks),
        limits=verdict.limits,
        figures={figure.name: value for figure, value in figures if value is not None or not figure.is_left_out},
        throughput_interval=cell.throughput_interval,
        throughput_basis=cell.throughput_basis,
        latency_us=LatenciesRecord(
            corrected=_latency(cell.told_latency[CORRECTED]),
            uncorrected=_latency(cell.latency[UNCORRECTED]),
            end_to_end=_latency(cell.latency[END_TO_END]),
            schedule_lag=_latency(cell.latency[SCHEDULE_LAG]),
            end_to_end_clock_error=cell.end_to_end_clock_error_us,
        ),
        in_window=SendCounts(sent=counts.sent, acked=counts.acked, failed=counts.failed, unknown=counts.unknown),
        anomalies=cell.anomalies,
        recovery=_recovery(cell.recovery),
        observed_sets={kind: _set(identities) for kind, identities in cell.observed.items()},
        predicted=PredictedDamage(
            lost=_damage(cell.damage["lost"]),
            duplicated=_damage(cell.damage["duplicated"]),
            reordered=_damage(cell.damage["reordered"]),
        ),
    )


def _latency(latency: Latency) -> LatencyRecord:
    return LatencyRecord(
        p50=latency.p50_us,
        p90=latency.p90_us,
        p99=latency.p99_us,
        p999=latency.p999_us,
        max=latency.max_us,
        mean=latency.mean_us,
        n=latency.n,
        unanswered=latency.unanswered,
        p99_interval=_interval(latency.p99_interval_us),
        not_reached=latency.not_reached,
        answered_share=None if latency.answered_share is None else round(latency.answered_share, 6),
    )


def _interval(found: tuple[float, float] | None) -> tuple[float, float | None] | None:
    return None if found is None else (found[0], found[1] if math.isfinite(found[1]) else None)


def _set(identities: IdentitySet) -> SetRecord:
    return SetRecord(
        count=identities.count,
        hash=identities.hash_text,
        ranges=tuple(item.text() for item in identities.ranges),
        ranges_complete=identities.complete,
    )


def _damage(damage: KindOfDamage) -> SetComparisonRecord:
    compared = damage.comparison
    sets = ComparedSets(
        predicted=_set(compared.predicted),
        observed=_set(compared.observed),
        both=_set(compared.both),
        only_predicted=_set(compared.only_predicted),
        only_observed=_set(compared.only_observed),
    )
    return SetComparisonRecord(
        expected=damage.expected,
        predicted=sets.predicted.count,
        observed=sets.observed.count,
        both=sets.both.count,
        only_predicted=sets.only_predicted.count,
        only_observed=sets.only_observed.count,
        how=compared.how,
        equal=compared.equal,
        sets=sets,
    )


def _recovery(found: Recovery | None) -> RecoveryRecord | None:
    if found is None:
        return None
    return RecoveryRecord(
        fault=found.fault,
        fault_us=found.fault_us,
        process_fault=found.process_fault,
        process_fault_us=found.process_fault_us,
        detect_us=found.detect_us,
        elect_us=found.elect_us,
        first_ack_us=found.first_ack_us,
        recover_us=found.recover_us,
        area_record_seconds=found.area_record_seconds,
        service_level_records_per_s=found.service_level_records_per_s,
        clock_error_us=known_error_us(found.clock_error_us),
    )

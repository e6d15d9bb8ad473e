"""results/verdicts.json: the verdicts of the run and of each cell, for programs. `results_schema.py` has its form."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.judge.run_limits import RunLimit
from reports.read.cell import Json
from reports.render.reading import reading_of
from reports.render.results_schema import VERDICTS_VERSION


def verdicts_document(figures: Figures) -> Json:
    run = figures.run
    return {
        "schema_version": VERDICTS_VERSION,
        "analysis": {"id": run.analysis_id, "written_at": datetime.now().astimezone().isoformat(timespec="seconds")},
        "run": {
            "run_id": run.run_id,
            "engine": run.engine,
            "seed": run.seed,
            "t0_wall": run.t0_wall,
            "versions": run.versions,
            "notes": list(run.notes),
            "problems": list(run.problems),
        },
        "reading": asdict(reading_of(figures)),
        "limits": [_run_limit(one) for one in run.limits],
        "cells": [cell_document(cell) for cell in figures.cells],
        "verdict": run.verdict,
        "exit_code": run.exit_code,
    }


def _run_limit(one: RunLimit) -> Json:
    return {"subject": one.subject, **asdict(one.held), "result": one.check.result, "allowed": one.check.allowed}


def cell_document(cell: CellFigures) -> Json:
    """The cell's entry."""
    verdict, counts = cell.verdict, cell.counts
    return {
        "cell_id": cell.id,
        "title": cell.title,
        "kind": cell.kind,
        "client": cell.client,
        "scenario": cell.scenario,
        "case": cell.case,
        "verdict": verdict.result,
        "reasons": verdict.reasons,
        "notes": list(verdict.notes),
        "checks": [{"name": c.name, "result": c.result, "reason": c.reason} for c in verdict.checks],
        "limits": [asdict(limit) for limit in verdict.limits],
        "throughput_records_per_s": cell.throughput_records_per_s,
        "throughput_interval": list(cell.throughput_interval) if cell.throughput_interval else None,
        "throughput_basis": cell.throughput_basis,
        "capacity_records_per_s": cell.capacity_records_per_s,
        "achieved_ratio": round(cell.load.achieved, 4) if cell.load.achieved is not None else None,
        "latency_us": {kind: latency.as_json() for kind, latency in cell.latency.items()},
        "sent": counts.sent_total,
        "acked": counts.acked_total,
        "failed": counts.failed_total,
        "unknown": counts.unknown_total,
        "in_window": {
            "sent": counts.sent,
            "acked": counts.acked,
            "failed": counts.failed,
            "unknown": counts.unknown,
        },
        "in_log": counts.log_total,
        "received": counts.received_total,
        "lost": cell.lost,
        **_sets(cell),
        "anomalies": dict(cell.anomalies),
        "recovery": asdict(cell.recovery) if cell.recovery else None,
        "observed_sets": {kind: identities.as_json() for kind, identities in cell.observed.items()},
        "gap_ms": cell.gap_ms,
        "predicted": {
            kind: {"expected": damage.expected, **damage.comparison.as_json()} for kind, damage in cell.damage.items()
        },
        "records_per_batch": cell.records_per_batch,
        "compression_ratio": cell.compression_ratio,
        "batches": cell.batches,
        "log_bytes": cell.log_bytes,
    }


def _sets(cell: CellFigures) -> dict[str, int]:
    kinds = ("duplicated", "reordered", "recovered", "unexpected", "corrupt", "dup_delivered")
    return {kind: cell.set_count(kind) for kind in kinds}

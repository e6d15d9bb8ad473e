"""results/sweep.json: the analysis of a sweep for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from reports.figures.sweep.figures import SweepFigures
from reports.figures.sweep.levels import PredictedLevel
from reports.figures.sweep.tables import Table
from reports.read.cell import Json

SCHEMA_VERSION: Final = 1


def sweep_document(sweep: SweepFigures, *, analysis_id: str) -> Json:
    """results/sweep.json; docs/internals/contracts.md names the fields."""
    analysis, recommendation = sweep.analysis, sweep.analysis.recommendation
    combination = recommendation.combination
    return {
        "schema_version": SCHEMA_VERSION,
        "design": analysis.design,
        "repetitions": analysis.repetitions,
        "forks": analysis.forks,
        "fork_scatter": [asdict(item) for item in analysis.fork_scatters],
        "recommendation": {
            "settings": dict(recommendation.point.configuration) if recommendation.point else None,
            "cell_id": recommendation.point.cell_id if recommendation.point else None,
            "objective": recommendation.objective,
            "certainty": recommendation.certainty,
            "not_distinguishable": list(recommendation.ties),
            "sentences": list(recommendation.sentences),
            "predicted": _predicted(sweep.predicted) if recommendation.point else None,
            "combination": {
                "settings": dict(combination.settings),
                "predicted_p99": asdict(sweep.combination_p99) if sweep.combination_p99 else None,
            }
            if combination
            else None,
        },
        "warnings": list(analysis.warnings),
        "effects": _rows(sweep.tables["effects.csv"]),
        "interactions": _rows(sweep.tables["interactions.csv"]),
        "sensitivity": [asdict(item) for item in analysis.sensitivities],
        "surface": [
            {
                "settings": dict(point.configuration),
                "cell_id": point.cell_id,
                "contract": point.contract,
                "damage": asdict(point.damage),
                "share_on_front": point.share_on_front,
                "figures": {name: asdict(level) for name, level in levels.items()},
            }
            for point, levels in zip(analysis.points, sweep.levels, strict=True)
        ],
        "cells": [
            {
                "cell_id": item.cell_id,
                "round": item.round,
                "fork": item.fork,
                "state": item.state,
                "reason": item.reason,
                "warming": item.warming,
                "settings": dict(item.configuration),
                "values": item.values,
                "behaviour": asdict(item.behaviour),
            }
            for item in analysis.observations
        ],
        "analysis_id": analysis_id,
    }


def _rows(table: Table) -> list[Json]:
    header, rows = table
    return [dict(zip(header, row, strict=True)) for row in rows]


def _predicted(levels: Mapping[str, PredictedLevel]) -> Json:
    """What a confirmation is held against. Broker CPU with the compilers' part beside it, which is not in it; without
    that key it is in it."""
    return {
        name: {
            **asdict(own.expected),
            "forks": own.forks,
            "rounds": own.rounds,
            "flattery": own.flattery,
            "level": asdict(own.level),
            **({} if own.compiler is None else {"compiler": own.compiler}),
        }
        for name, own in levels.items()
    }

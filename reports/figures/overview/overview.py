"""All of the front page, computed once. Pure. Shown by tests/reports/test_reports_overview.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.cell import CellFigures
from reports.figures.generator import GeneratorFigures
from reports.figures.overview.choice import Choice, choice_of
from reports.figures.overview.damage import DamageMatrix, damage_matrix
from reports.figures.overview.doubts import Doubt, doubts_of
from reports.figures.overview.forest import Forest, forest_of
from reports.figures.overview.head import Head, head_of
from reports.figures.overview.safe_settings import SafeSettings, safe_settings, safe_whole
from reports.figures.overview.safety_cost import SafetyCost, safety_cost
from reports.figures.overview.silence import silences
from reports.figures.overview.table import CellTable, cell_table
from reports.figures.search import SearchFigures
from reports.figures.sweep.figures import SweepFigures
from reports.judge.checks import Check
from reports.judge.judged import Judged
from reports.read.cell import Run
from reports.read.model import CORRECTED

_SPEEDS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A cell without faults where nothing is swept; p99 in microseconds, infinite if it is not reached."""

    cell_id: str
    title: str
    records_per_s: float
    p99_us: float | None
    disturbed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """`forest` of a sweep, `safety` of one with acks=all and acks=1, `highest_rate` of a rate search; without a sweep
    and a search `speeds` has what was seen, once each."""

    head: Head
    damage: DamageMatrix
    safe: tuple[SafeSettings, ...]
    safe_whole: str  # The configuration that met all faults without damage. Empty where there was but one.
    forest: Forest | None
    safety: SafetyCost | None
    highest_rate: str
    speeds: tuple[Speed, ...]
    choice: Choice | None
    doubts: tuple[Doubt, ...]
    table: CellTable


def overview_of(
    run: Run,
    judged: Sequence[Judged],
    cells: Sequence[CellFigures],
    *,
    sweep: SweepFigures | None,
    generator: GeneratorFigures,
    search: SearchFigures | None,
    limits: Sequence[Check] = (),
) -> Overview:
    """`cells` are the figures of `judged`, in its order."""
    analysis = sweep.analysis if sweep is not None else None
    forest = forest_of(analysis) if analysis is not None else None
    matrix = damage_matrix(judged, cells)
    return Overview(
        head=head_of(judged, run.problems, limits),
        damage=matrix,
        safe=safe_settings(matrix.rows),
        safe_whole=safe_whole(matrix.rows),
        forest=forest,
        safety=safety_cost(analysis, silences(judged)) if analysis is not None else None,
        highest_rate=search.sentence if search is not None else "",
        speeds=_speeds(cells) if forest is None and search is None else (),
        choice=choice_of(sweep.recommendation, run.record.argv) if sweep is not None else None,
        doubts=doubts_of(
            judged, analysis, generator, problems=run.problems, notes=run.notes, cores=run.record.host.cores
        ),
        table=cell_table(cells),
    )


def _speeds(cells: Sequence[CellFigures]) -> tuple[Speed, ...]:
    calm = [cell for cell in cells if cell.kind != "chaos" and cell.throughput_records_per_s]
    return tuple(
        Speed(
            cell_id=cell.id,
            title=cell.title,
            records_per_s=cell.throughput_records_per_s,
            p99_us=cell.latency[CORRECTED].us_of("p99"),
            disturbed=cell.disturbed,
        )
        for cell in calm[:_SPEEDS_MAX]
    )

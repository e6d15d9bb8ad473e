"""The text beside the figures: damage, doubts, limits, the cost of safety, the highest rate, what to run. Pure.

One text for summary.md, the terminal and programs. Damage and warnings are those of the front page, so that all of them
say the same. Shown by tests/reports/test_reports_reading.py.
"""

from __future__ import annotations

from collections import Counter

from reports.figures.figures import Figures
from reports.figures.overview.damage import DamageCell
from reports.figures.overview.overview import Overview
from reports.figures.overview.safety_cost import SafetyCost
from runlog.records.verdicts import LimitOutcome, LimitTally, Reading


def reading_of(figures: Figures) -> Reading:
    sweep = figures.sweep
    return Reading(
        damage=_damage(figures.overview),
        safety_cost=_safety_cost(figures.overview.safety),
        highest_rate=figures.overview.highest_rate,
        recommendation=sweep.recommendation.sentences if sweep else (),
        properties=sweep.recommendation.properties if sweep else "",
        warnings=tuple(doubt.text for doubt in figures.overview.doubts),
        limits=_tallies(figures),
    )


def _damage(overview: Overview) -> tuple[str, ...]:
    """The cells in which something was damaged, then the settings under which nothing was."""
    struck = [
        f"{row.fault}, {cell.setting}: {_found(cell)}"
        for row in overview.damage.rows
        for cell in row.cells
        if cell.is_damaged or any(finding.is_unexpected for finding in cell.findings)
    ]
    kept = [f"under these faults {safe.text}" for safe in overview.safe]
    return tuple(filter(None, [*struck, *kept, overview.safe_whole, overview.damage.calm]))


def _found(cell: DamageCell) -> str:
    told = ", ".join(" ".join(filter(None, (finding.text, finding.of, finding.against))) for finding in cell.findings)
    return f"{told}. {cell.why}" if cell.why else told


def _safety_cost(cost: SafetyCost | None) -> tuple[str, ...]:
    """Each figure of acks=all and acks=1, and how the one differs from the other."""
    if cost is None:
        return ()
    rows = [
        f"{row.title} {row.safe} with acks=all, {row.loose} with acks=1: {cost.direction} {row.change}"
        for row in cost.rows
    ]
    return (*rows, *cost.silences, *cost.notes, *cost.warnings)


def _tallies(figures: Figures) -> tuple[LimitTally, ...]:
    counts: dict[str, Counter[LimitOutcome]] = {}
    for one in (held for cell in figures.cells for held in cell.verdict.limits):
        counts.setdefault(one.limit, Counter())[one.outcome] += 1
    for of_run in figures.run.limits:
        counts.setdefault(of_run.held.limit, Counter())[of_run.held.outcome] += 1
    return tuple(
        LimitTally(
            limit=limit,
            held=count[LimitOutcome.HELD],
            broken=count[LimitOutcome.BROKEN],
            undecided=count[LimitOutcome.UNDECIDED],
        )
        for limit, count in counts.items()
    )

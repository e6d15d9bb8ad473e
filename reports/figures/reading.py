"""What changes how a run is read, beside its figures: recommendation, warnings, what was disturbed, limits. Pure.

One text for summary.md, the terminal and programs. The warnings are the doubts of the front page, so that all of them
say the same. Shown by tests/reports/test_reports_reading.py.
"""

from __future__ import annotations

from collections import Counter

from reports.figures.figures import Figures
from runlog.records.verdicts import LimitOutcome, LimitTally, Reading


def reading_of(figures: Figures) -> Reading:
    sweep = figures.sweep
    return Reading(
        recommendation=sweep.recommendation.sentences if sweep else (),
        properties=sweep.recommendation.properties if sweep else "",
        warnings=tuple(doubt.text for doubt in figures.overview.doubts),
        limits=_tallies(figures),
    )


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

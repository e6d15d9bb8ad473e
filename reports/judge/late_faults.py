"""Whether the faults of a cell came only when its load had ended. Pure.

A host that is too busy starts a fault late. Then nothing was sent while it acted, and a cell without damage shows
little. If a fault was to come within the load, the cell is inconclusive. Otherwise that is told and decides
nothing: a scenario may want a fault after the load, for example a loss of power.
Shown by tests/reports/test_reports_verdict.py.
"""

from __future__ import annotations

from reports.read.model import CellFacts
from runlog.records.fault import PLANNED_US, WAIT, FaultLine, FaultPhase


def after_the_load(facts: CellFacts) -> str:
    """One sentence without a full stop; empty if a fault came in time, or if there was none."""
    _, end_us = facts.cell.window_us()
    begun = [line.t_us for line in _applied(facts)]
    if not begun or not end_us or min(begun) < end_us:
        return ""
    late_s = (min(begun) - end_us) / 1e6
    return f"its first fault came {late_s:.1f} s after the load had ended: nothing was sent under it"


def missed_the_load(facts: CellFacts) -> str:
    """The same sentence if a fault was planned within the load and none came in time; empty otherwise. Only a step with
    `at` has a planned time."""
    _, end_us = facts.cell.window_us()
    was_planned = any(line.detail[PLANNED_US] < end_us for line in _applied(facts) if PLANNED_US in line.detail)
    return after_the_load(facts) if was_planned else ""


def _applied(facts: CellFacts) -> list[FaultLine]:
    return [line for line in facts.cell.fault_lines if line.kind != WAIT and line.phase is FaultPhase.APPLIED]

"""How many records were due in the measured window of a cell, and how many were handed over in time.

The number of due records depends on the shape of the load:

- With a constant rate it is `rate_per_s` of the workload.
- A closed loop has no due records: there `rate_per_s` is an upper limit.
- For every other shape it is read from the run log. Each record that was handed over has its intended time. Records
  that were due and were never handed over are `unsent` in the figures of the load.

Pure. Shown by tests/reports/test_reports_asked.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.read.cell import Cell
from reports.read.model import CellFacts
from runlog.quality.steadiness import CLOSED, CONSTANT, backlog_share

if TYPE_CHECKING:
    import pandas as pd


def schedule_kind(cell: Cell) -> str:
    return cell.record.workload.schedule.kind


def is_closed_loop(cell: Cell) -> bool:
    """It has no schedule: a record is due when there is room for it. So no latency is corrected for a time at which it
    should have been sent."""
    return schedule_kind(cell) == CLOSED


def asked_per_s(facts: CellFacts) -> float | None:
    """Mean rate at which records were due in the measured window; None for a closed loop, and where it is unknown.
    Records in transactions that are aborted as planned are not due to anybody."""
    kind = schedule_kind(facts.cell)
    if kind == CONSTANT:
        rate, counts = _constant_rate(facts), facts.counts
        return rate if rate is None or not counts.aborted else rate * counts.sent / (counts.sent + counts.aborted)
    start_us, end_us = facts.cell.window_us()
    if kind == CLOSED or end_us <= start_us:
        return None
    return (facts.counts.sent + unsent(facts.cell)) * 1e6 / (end_us - start_us)


def achieved_ratio(facts: CellFacts) -> float | None:
    """Records handed to the client, divided by records due, in the whole time buckets of the measured window. None as
    above. If a record was handed over later than it was due, it counts in the bucket where it was handed over."""
    kind = schedule_kind(facts.cell)
    inside = _whole_slots(facts)
    if kind == CLOSED or not len(inside):
        return None
    if kind == CONSTANT:
        due = (_constant_rate(facts) or 0.0) * len(inside) * facts.slot_us / 1e6
    else:
        due = float(inside["intended"].sum()) + unsent(facts.cell)
    return float(inside["sent"].sum()) / due if due > 0 else None


def warm_up_backlog(facts: CellFacts) -> float | None:
    """The backlog from before the measured window, as a share of what was due in the window. None for a closed loop,
    which is asked for nothing, and with acks=0."""
    if schedule_kind(facts.cell) == CLOSED or facts.throughput_basis != "acknowledged":
        return None
    share = backlog_share(facts.counts.acks_in_window, facts.counts.sent + unsent(facts.cell))
    start_us, end_us = facts.cell.window_us()
    if share is None or end_us <= start_us:
        return share
    # A transaction that was open when the window began is committed in it. That is no backlog.
    return max(0.0, share - facts.cell.record.workload.commit_interval_ms * 1_000 / (end_us - start_us))


def _constant_rate(facts: CellFacts) -> float | None:
    rate = facts.cell.record.workload.rate_per_s
    return float(rate) if rate is not None and rate > 0 else None


def _whole_slots(facts: CellFacts) -> pd.DataFrame:
    start_us, end_us = facts.cell.window_us()
    slots = facts.slots
    if not len(slots) or end_us <= start_us:
        return slots.iloc[:0]
    return slots[(slots["t_us"] >= start_us) & (slots["t_us"] + facts.slot_us <= end_us)]


def unsent(cell: Cell) -> int:
    """Due and never handed over. Each producer sends in the order of the schedule, so that these were due last: in the
    measured window, unless nothing was sent in it at all."""
    return cell.record.outcome.health.unsent or 0

"""The CPU that other processes, or the warm-up of the brokers, took from a cell's window. The rules are in
runlog.quality."""

from __future__ import annotations

from reports.evidence.asked import warm_up_backlog
from reports.judge.holes import Evidence
from reports.judge.under_holes import holes_of, told, touches
from reports.read.model import CellFacts
from runlog.quality.criteria import Criteria
from runlog.quality.noise import disturbance_of, means
from runlog.quality.steadiness import backlog_reason


def host_noise(facts: CellFacts, *, window_only: bool = False) -> dict[str, float]:
    """Means of the host's samples by name, over the cell or its measured window."""
    return means(facts.cell.samples, facts.cell.window_us() if window_only else None)


def disturbance(facts: CellFacts, criteria: Criteria | None = None) -> str:
    """Why the host was not the cell's own, or why that is not known; empty if it was, or in a cell without samples."""
    found = disturbance_of(facts.cell.samples, facts.cell.window_us(), criteria or Criteria())
    if found or not (unseen := unseen_host(facts)):
        return found
    return f"whether other programs disturbed the host is not known: {unseen}"


def unseen_host(facts: CellFacts) -> str:
    """The holes in the samples of host and brokers, in words; empty if there are none."""
    return told([hole for hole in holes_of(facts) if touches(hole, frozenset({Evidence.SAMPLES}))])


def backlog(facts: CellFacts, criteria: Criteria) -> str:
    """Why the window is not the load's alone: it began with a backlog of the warm-up. Empty if it did not, and if the
    window is too short to be judged: there a single pause has the same effect."""
    start_us, end_us = facts.cell.window_us()
    if end_us - start_us < criteria.steady_window_us_min:
        return ""
    return backlog_reason(warm_up_backlog(facts), criteria.backlog_share_max)

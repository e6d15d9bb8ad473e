"""The CPU that other processes, or the warm-up of the brokers, took from a cell's window. The rules are in
runlog.quality."""

from __future__ import annotations

from reports.evidence.asked import schedule_kind, warm_up_backlog
from reports.judge.holes import Evidence
from reports.judge.under_holes import holes_of, told, touches
from reports.read.model import CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.quality.noise import disturbance_of, means, untold_stalls_of
from runlog.quality.steadiness import CHANGING_KINDS, backlog_reason
from runlog.records.cell import CellKind


def host_noise(facts: CellFacts, *, window_only: bool = False) -> dict[str, float]:
    """Means of the host's samples by name, over the cell or its measured window."""
    return means(facts.cell.samples, facts.cell.window_us() if window_only else None)


def disturbance(facts: CellFacts) -> str:
    """Why the host was not the cell's own, or why that is not known; empty if it was, or in a cell without samples."""
    found = disturbance_of(facts.cell.samples, facts.cell.window_us())
    if found or not (unseen := unseen_host(facts)):
        return found
    return f"whether other programs disturbed the host is not known: {unseen}"


def unseen_host(facts: CellFacts) -> str:
    """The holes in the samples of host and brokers, in words; empty if there are none."""
    return told([hole for hole in holes_of(facts) if touches(hole, frozenset({Evidence.SAMPLES}))])


def unsteady(facts: CellFacts) -> str:
    """How the rate of the window changed though the load's did not, or how it began with a backlog of the warm-up. A
    mark, and no doubt: it is computed from acknowledgements, so the system under test may be the cause. Empty if the
    window is too short to be judged: there a single pause has the same effect. Empty too in a cell with planned faults:
    there the fault changes the rate, and the cell's recovery says how."""
    if facts.cell.kind is CellKind.CHAOS and facts.cell.record.has_faults:
        return ""
    start_us, end_us = facts.cell.window_us()
    ratio = facts.steady_ratio
    if end_us - start_us < CRITERIA.steady_window_us_min or ratio is None:
        return ""
    if late := backlog_reason(warm_up_backlog(facts), CRITERIA.backlog_share_max):
        return f"{late}; it counts"
    if ratio >= CRITERIA.steady_ratio_min:
        return ""
    of = "rate, of what was due" if schedule_kind(facts.cell) in CHANGING_KINDS else "rate"
    return f"unsteady: the slowest third had {ratio:.0%} of the fastest third's {of}; it counts"


def untold_stalls(facts: CellFacts) -> str:
    """How long nobody can tell whether the host or the system under test stood still; empty if not for long."""
    return untold_stalls_of(facts.cell.samples, facts.cell.window_us())

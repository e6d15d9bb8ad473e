"""Whether a cell's evidence is complete. Without it, damage can neither be seen nor excluded. Pure.

A check that does not pass is inconclusive and not a fail, because the run does not show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from reports.evidence.completeness import FILES
from reports.evidence.share_groups import share_stories
from reports.evidence.wire_clocks import has_host_clocks, unclear_order
from reports.judge.checks import INCONCLUSIVE, PASS, Check, check
from reports.judge.holes import RESTS_OF_CHECKS, TOUCHES, Evidence
from reports.judge.late_faults import missed_the_load
from reports.judge.under_holes import holes_of
from reports.read.model import Basis, CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.records.cell import CellKind, CellStatus
from runlog.records.fault import WAIT, FaultPhase
from runlog.records.holes import HoleKind
from runlog.records.hosts import HostState

READABLE: Final = "run log readable"
RECORDED: Final = "recorded throughout"
# The check that tells of a hole. All others are told by RECORDED.
_TOLD_BY: Final[Mapping[HoleKind, str]] = {
    HoleKind.LOAD_HOST: "load hosts held",
    HoleKind.FINAL_READ: "final read complete",
    **dict.fromkeys((*FILES.values(), HoleKind.UNKNOWN), READABLE),
}
# What these checks look at, in words, for docs/reference/lawful.md.
EVIDENCE_CHECKS = {
    "cell finished": "the harness carried the cell out to its end",
    READABLE: "the streams that the cell must have are there, and every file of them can be read",
    RECORDED: "no recorder of the harness stopped, and no question that it asks after the load stayed open",
    "final read complete": "every partition was read from its log's start to its end, after all faults were healed",
    "enough records": f"at least {CRITERIA.records_min} records in the measured window were acknowledged, or with "
    "acks=0 were found by the final read",
    "sends accepted": f"at least {CRITERIA.accepted_share_min:.0%} of the sends were acknowledged, or with acks=0 "
    f"accepted by the client; {CRITERIA.accepted_share_min_chaos:.0%} in a scenario with faults",
    "run log agrees with itself": "no stream contradicts another (below)",
    "all partitions delivered": "a reader that begins at the log's start got records of every partition that it "
    "reads and in which the final read finds records",
    "share groups asked": "for a share group: its coordinator said at the end how many records are left",
    "load hosts held": "for a load on other hosts: each host did its share to the end, kept its link and its schedule, "
    "has a bound for its clock, and its run log was gathered",
    "order of requests known": "for requests that proxies of fault hosts saw: the bounds of their clocks leave no "
    "order open on which a prediction rests",
    "fault took effect": "for a scenario with faults: every fault that was applied is proved to have acted, and one "
    "that was to come within the load did not come after it",
}
_ACTED = frozenset({FaultPhase.APPLIED, FaultPhase.PROVED, FaultPhase.NOT_EFFECTIVE})


def evidence_checks(facts: CellFacts) -> list[Check]:
    """The checks of every cell. A cell with faults must also show that the faults acted."""
    checks = [
        *_evidence(facts),
        _all_delivered(facts),
        *_shares_asked(facts),
        *_load_hosts_held(facts),
        *_order_known(facts),
    ]
    if facts.cell.kind is CellKind.CHAOS:
        checks.append(_fault_proved(facts))
    return [replace(one, rests=RESTS_OF_CHECKS[one.name]) for one in checks]


def is_usable(facts: CellFacts) -> bool:
    """Whether the streams are of one cell that was carried out, and agree.

    Holes are not looked at (`under_holes`), and neither is how much was sent and acknowledged: what is damaged among
    few records is damaged."""
    return all(one.result == PASS for one in _of_whole_cell(facts))


def _of_whole_cell(facts: CellFacts) -> tuple[Check, Check, Check]:
    outcome = facts.cell.record.outcome
    why = outcome.final_read.reason or "it is not recorded as complete"
    return (
        check(
            "cell finished",
            outcome.status is CellStatus.DONE,
            "the cell ran to its end",
            f"the cell is {outcome.status}: {outcome.reason or 'no reason recorded'}",
        ),
        check(
            "final read complete",
            facts.cell.is_read_to_end,
            "every partition was read to its end",
            f"the log was not read to its end: {why}",
        ),
        check(
            "run log agrees with itself",
            not facts.contradictions,
            "nothing in the run log contradicts another part of it",
            f"the run log contradicts itself: {'; '.join(facts.contradictions)}",
        ),
    )


def _evidence(facts: CellFacts) -> list[Check]:
    finished, read, agrees = _of_whole_cell(facts)
    # At a ceiling what is answered in the window was sent a queue's length before.
    done = facts.counts.acks_in_window if facts.cell.kind is CellKind.CEILING else facts.counts.acked
    if facts.throughput_basis is not Basis.ACKNOWLEDGED:
        done = facts.counts.log_in_window
    return [
        finished,
        _readable(facts),
        _recorded(facts),
        read,
        check(
            "enough records",
            done >= CRITERIA.records_min,
            f"{done} records in the measured window",
            f"only {done} records in the measured window, {CRITERIA.records_min} are needed",
        ),
        agrees,
        *([] if facts.cell.kind is CellKind.SEARCH else [_accepted(facts)]),  # a try above the limit may time out
    ]


def _readable(facts: CellFacts) -> Check:
    missing = [hole.text() for hole in holes_of(facts) if _TOLD_BY.get(hole.kind) == READABLE]
    return check(
        READABLE,
        not missing,
        "all that the plan must have recorded is there",
        f"parts of the run log are missing: {'; '.join(missing)}",
    )


def _recorded(facts: CellFacts) -> Check:
    """Holes under figures of the host alone are told too, and only what rests on them is in doubt."""
    own = [hole for hole in holes_of(facts) if hole.kind not in _TOLD_BY]
    missing = "; ".join(hole.text() for hole in own)
    if all(TOUCHES[hole.kind] == {Evidence.SAMPLES} for hole in own):
        return Check(name=RECORDED, result=PASS, reason=missing or "every recorder ran to the end of the cell")
    return Check(name=RECORDED, result=INCONCLUSIVE, reason=f"parts of the evidence were not recorded: {missing}")


def _load_hosts_held(facts: CellFacts) -> list[Check]:
    """The check of load hosts, only for a cell whose load ran on them."""
    hosts = facts.cell.record.outcome.load_hosts
    if not hosts:
        return []
    wrong = [f"load host {host.name}: {host.reason}" for host in hosts if host.state is not HostState.DONE]
    told = {f"load host {host.name}" for host in hosts if host.state is not HostState.DONE}
    wrong += [hole.text() for hole in holes_of(facts) if hole.kind is HoleKind.LOAD_HOST and hole.where not in told]
    names = ", ".join(host.name for host in hosts)
    return [check("load hosts held", not wrong, f"{names} did their shares to the end", "; ".join(wrong))]


def _shares_asked(facts: CellFacts) -> list[Check]:
    """The check of share groups, only for a cell that has any. Without the answer nobody knows what is done."""
    stories = share_stories(facts.cell)
    if not stories:
        return []
    unknown = [story.group for story in stories if not story.is_end_known]
    return [
        check(
            "share groups asked",
            not unknown,
            "the coordinators of the share groups said where each of them stands",
            f"it is not known what share group {', '.join(unknown)} was done with at the end",
        )
    ]


def _order_known(facts: CellFacts) -> list[Check]:
    """Only for a cell whose requests were seen by the clocks of fault hosts."""
    if not has_host_clocks(facts.cell):
        return []
    unclear = unclear_order(facts.cell)
    known = "the clocks of the fault hosts are known well enough for the order of requests"
    return [check("order of requests known", not unclear, known, "; ".join(unclear))]


def _all_delivered(facts: CellFacts) -> Check:
    unread = facts.set_count("unread")
    return check(
        "all partitions delivered",
        not unread,
        "every reader got something of every partition that it reads",
        f"a reader got nothing at all of partitions that hold {unread} record(s): whether delivery works there "
        "cannot be said",
    )


def _accepted(facts: CellFacts) -> Check:
    """If the sends of a cell are refused or unanswered, the cell shows nothing about speed, and no promise that was
    kept."""
    counts = facts.counts
    is_acknowledged = facts.throughput_basis is Basis.ACKNOWLEDGED
    sent = counts.acked_total + counts.failed_total + counts.unknown_total
    accepted = counts.acked_total if is_acknowledged else sent - counts.failed_total
    least = CRITERIA.accepted_share_min_chaos if facts.cell.kind is CellKind.CHAOS else CRITERIA.accepted_share_min
    share = accepted / sent if sent else 1.0  # that there is nothing at all is another check's part
    what = "acknowledged" if is_acknowledged else "taken over by the client"
    rest = f"{counts.failed_total} failed, {counts.unknown_total} are unknown"
    how_many = "none" if not accepted else f"{accepted} ({share:.0%})"
    return check(
        "sends accepted",
        share >= least,
        f"{share:.0%} of the sends were {what}",
        f"{how_many} of the {sent} sends were {what}; {rest}; {least:.0%} are needed",
    )


def _fault_proved(facts: CellFacts) -> Check:
    phases: dict[str, set[FaultPhase]] = {}
    names: dict[str, str] = {}
    for line in facts.cell.fault_lines:
        if line.kind == WAIT:  # It is of the same step. That what was waited for came is no proof of the fault.
            continue
        phases.setdefault(line.id, set()).add(line.phase)
        names[line.id] = f"{line.kind} on {line.target}"
    applied = [fault_id for fault_id, seen in phases.items() if seen & _ACTED and FaultPhase.MISSED not in seen]
    if not facts.cell.record.has_faults:
        return Check(name="fault took effect", result=PASS, reason="a control run: no fault was planned")
    unproved = [fault_id for fault_id in applied if FaultPhase.PROVED not in phases[fault_id]]
    if not applied:
        return Check(name="fault took effect", result=INCONCLUSIVE, reason="no fault was applied")
    if late := missed_the_load(facts):
        return Check(name="fault took effect", result=INCONCLUSIVE, reason=late)
    return check(
        "fault took effect",
        not unproved,
        f"{len(applied)} fault(s) applied and proved",
        f"no proof that {', '.join(names[item] for item in unproved)} had an effect",
    )

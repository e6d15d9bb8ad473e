"""What rests on which evidence, and what a hole in it does to a check. The only place where that is said. Pure.

`TOUCHES` says which evidence each kind of hole may concern, and `RESTS` on which evidence each check rests. A hole
matters to a check if both have evidence in common. tests/reports/test_reports_holes.py holds the tables against the
kinds, the anomalies and the checks that there are.

The rule: a check that rests on a hole does not pass. It fails only if what it has seen is a violation whatever the hole
hides: `Rests.undone_by` is the evidence that could make it none. Every hole is told by a check of its own too
(`evidence_checks`), so the cell is no pass and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runlog.records.holes import HoleKind


class Evidence(StrEnum):
    SENDS = "sends and their answers"
    DELIVERIES = "what readers got"
    LOG = "records of the final read"
    BATCHES = "batches of the final read"
    COPIES = "copies of the final read"
    AUDITS = "copies that readers got"
    JOURNALS = "brokers' journals"
    LEADERS = "leaders as Metadata tells them"
    HIGH_WATERMARKS = "end offsets shown to consumers"
    PROCESS_ENDS = "ends of processes"
    CUTS = "what dead and deposed leaders had"
    REPLICAS = "comparison of the replicas"
    REQUESTS = "requests that proxies saw"
    FAULTS = "the course of the faults"
    HISTORY = "clients' history of groups and transactions"
    SAMPLES = "CPU of host and brokers"
    OUTCOME = "the harness's own account of the cell"


_E = Evidence
ALL: Final = frozenset(Evidence)

TOUCHES: Final[Mapping[HoleKind, frozenset[Evidence]]] = {
    HoleKind.UNKNOWN: ALL,
    HoleKind.JOURNALS: frozenset({_E.JOURNALS}),
    HoleKind.LEADERS: frozenset({_E.LEADERS}),
    HoleKind.HIGH_WATERMARKS: frozenset({_E.HIGH_WATERMARKS}),
    HoleKind.PROCESS_ENDS: frozenset({_E.PROCESS_ENDS}),
    HoleKind.REQUESTS: frozenset({_E.REQUESTS, _E.CUTS}),
    HoleKind.SAMPLES: frozenset({_E.SAMPLES}),
    HoleKind.HISTORY: frozenset({_E.HISTORY}),
    HoleKind.FAULTS: frozenset({_E.FAULTS}),
    HoleKind.DEAD_LOGS: frozenset({_E.CUTS}),
    HoleKind.DEPOSED_LEADERS: frozenset({_E.CUTS}),
    HoleKind.REPLICAS: frozenset({_E.REPLICAS}),
    HoleKind.FINAL_READ: frozenset({_E.LOG, _E.BATCHES}),
    HoleKind.LOAD_HOST: frozenset({_E.SENDS, _E.DELIVERIES}),
    HoleKind.CELL_FILE: ALL,
    HoleKind.CLUSTER_FILE: frozenset(
        {_E.JOURNALS, _E.LEADERS, _E.HIGH_WATERMARKS, _E.PROCESS_ENDS, _E.CUTS, _E.REPLICAS}
    ),
    HoleKind.FAULTS_FILE: frozenset({_E.FAULTS}),
    HoleKind.HISTORY_FILE: frozenset({_E.HISTORY}),
    HoleKind.STATS_FILE: frozenset({_E.SAMPLES}),
    HoleKind.WIRE_FILE: frozenset({_E.REQUESTS}),
    HoleKind.SEND_ROWS: frozenset({_E.SENDS}),
    HoleKind.RECV_ROWS: frozenset({_E.DELIVERIES}),
    HoleKind.LOG_ROWS: frozenset({_E.LOG}),
    HoleKind.BATCHES_ROWS: frozenset({_E.BATCHES}),
    HoleKind.COPIES_ROWS: frozenset({_E.COPIES}),
    HoleKind.AUDIT_ROWS: frozenset({_E.AUDITS}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rests:
    """`on`: evidence that can hide a case. `undone_by`: the part of it without which a case that was seen may be none:
    a missing row of the final read looks like a loss."""

    on: frozenset[Evidence]
    undone_by: frozenset[Evidence] = frozenset()


def _rests(*on: Evidence, undone_by: Iterable[Evidence] = ()) -> Rests:
    undone = frozenset(undone_by)
    return Rests(on=frozenset(on) | undone, undone_by=undone)


EVERYTHING: Final = Rests(on=ALL, undone_by=ALL)
NOTHING: Final = Rests(on=frozenset())
# By the name of the anomaly. All of them but those that are no damage (damage_checks.JUDGED_ELSEWHERE).
RESTS: Final[Mapping[str, Rests]] = {
    "lost": _rests(undone_by=(_E.SENDS, _E.LOG)),
    "duplicated": _rests(_E.LOG),
    "reordered": _rests(undone_by=(_E.LOG,)),  # without its first copy, a record's second one looks late
    "offset_reused": _rests(_E.SENDS, _E.LOG),
    "misrouted": _rests(_E.SENDS, _E.LOG),
    "ack_misplaced": _rests(_E.SENDS, undone_by=(_E.LOG,)),
    "answered_twice": _rests(_E.SENDS),
    "lost_in_delivery": _rests(_E.LOG, undone_by=(_E.DELIVERIES,)),
    "acked_below_min_isr": _rests(_E.SENDS, undone_by=(_E.JOURNALS,)),
    "hw_regression": _rests(undone_by=(_E.HIGH_WATERMARKS, _E.FAULTS)),
    "read_above_hw": _rests(_E.DELIVERIES, undone_by=(_E.LOG,)),
    "lost_unacked": _rests(undone_by=(_E.SENDS, _E.LOG)),
    "phantom": _rests(_E.LOG, undone_by=(_E.SENDS,)),
    "unexpected": _rests(_E.LOG, undone_by=(_E.SENDS,)),
    "foreign": _rests(_E.LOG),
    "corrupt": _rests(_E.LOG, _E.DELIVERIES),
    "dup_delivered": _rests(_E.DELIVERIES),
    "redelivered": _rests(_E.DELIVERIES),
    "redelivered_overdue": _rests(undone_by=(_E.DELIVERIES, _E.FAULTS)),
    "dup_bound_exceeded": _rests(undone_by=(_E.HISTORY,)),
    "nonmonotonic_poll": _rests(undone_by=(_E.DELIVERIES,)),
    "poll_skip": _rests(_E.LOG, undone_by=(_E.DELIVERIES,)),
    "send_realtime_violation": _rests(_E.SENDS),
    "epoch_regression": _rests(_E.BATCHES),
    "copy_missing": _rests(_E.LOG, undone_by=(_E.COPIES,)),
    "copied_twice": _rests(_E.COPIES),
    "copy_reordered": _rests(undone_by=(_E.COPIES,)),
    # These three concern copies, and records of a load in transactions. Without a marker, these seem to be open.
    "aborted_read": _rests(_E.AUDITS, _E.DELIVERIES, undone_by=(_E.COPIES, _E.LOG)),
    "precommitted_read": _rests(_E.COPIES, _E.AUDITS, _E.HISTORY, _E.SENDS, _E.DELIVERIES),
    "torn_txn": _rests(_E.SENDS, undone_by=(_E.COPIES, _E.HISTORY, _E.LOG)),
    "copy_passed_over": _rests(_E.COPIES, undone_by=(_E.AUDITS,)),
    "copy_delivered_twice": _rests(_E.AUDITS),
    "copy_gone": _rests(_E.AUDITS, undone_by=(_E.COPIES,)),
    "copy_corrupt": _rests(_E.COPIES, _E.AUDITS),
    "copy_unexpected": _rests(_E.COPIES, undone_by=(_E.SENDS,)),
    "zombie_write": _rests(_E.JOURNALS, undone_by=(_E.FAULTS,)),
    "conservation": _rests(undone_by=(_E.HISTORY,)),
    "replica_divergence": _rests(_E.REPLICAS, undone_by=(_E.FAULTS,)),
    "isr_never_recovers": _rests(undone_by=(_E.JOURNALS, _E.LEADERS, _E.FAULTS)),
    "two_leaders_ack": _rests(_E.SENDS, undone_by=(_E.JOURNALS, _E.FAULTS)),
    "truncate_below_hw": _rests(_E.HIGH_WATERMARKS, _E.CUTS, undone_by=(_E.JOURNALS, _E.LEADERS, _E.FAULTS)),
    "two_controllers": _rests(_E.JOURNALS),
    "commit_regression": _rests(undone_by=(_E.HISTORY,)),
    "double_owner": _rests(undone_by=(_E.HISTORY, _E.FAULTS)),
    "rebalance_storm": _rests(_E.HISTORY),
    "stuck_consumer": _rests(_E.OUTCOME, undone_by=(_E.HISTORY,)),
    "spurious_reset": _rests(undone_by=(_E.HISTORY,)),
    "share_lost": _rests(undone_by=(_E.HISTORY, _E.FAULTS)),
    "share_after_done": _rests(undone_by=(_E.HISTORY,)),
    "share_over_limit": _rests(_E.HISTORY),
    "no_recovery": _rests(_E.OUTCOME),
    "crashed": _rests(_E.PROCESS_ENDS, undone_by=(_E.JOURNALS, _E.FAULTS)),
    "hang": _rests(_E.OUTCOME),
    "client_died": _rests(_E.OUTCOME),
}
# On what a prediction rests, beside what is seen: of each damage that is compared with one.
PREDICTION: Final = frozenset({_E.SENDS, _E.LOG, _E.JOURNALS, _E.LEADERS, _E.CUTS, _E.REQUESTS, _E.FAULTS})
# By the name of the check of the evidence (evidence_checks.EVIDENCE_CHECKS) or of the figures. Some rest on nothing:
# they tell of holes themselves, or more evidence would only confirm them.
RESTS_OF_CHECKS: Final[Mapping[str, Rests]] = {
    "cell finished": NOTHING,
    "run log readable": NOTHING,
    "recorded throughout": NOTHING,
    "final read complete": NOTHING,
    "enough records": NOTHING,
    "sends accepted": _rests(_E.SENDS),
    "run log agrees with itself": NOTHING,
    "all partitions delivered": _rests(_E.LOG, _E.DELIVERIES),
    "share groups asked": _rests(_E.HISTORY),
    "load hosts held": NOTHING,
    "order of requests known": _rests(_E.REQUESTS),
    "fault took effect": _rests(_E.FAULTS),
    "measured": NOTHING,
    "generator kept up": _rests(_E.SENDS),
    "steady": _rests(_E.SENDS, _E.DELIVERIES),
}
_EVENTS: Final = (_E.JOURNALS, _E.LEADERS, _E.FAULTS)
# By a scenario's word for the figure that it limits (figure_checks). Both sides of a limit rest on the figure.
RESTS_OF_CRITERIA: Final[Mapping[str, Rests]] = {
    "gap": _rests(undone_by=(_E.SENDS,)),
    "detect": _rests(undone_by=_EVENTS),
    "elect": _rests(undone_by=_EVENTS),
    "first ack": _rests(undone_by=(_E.SENDS, *_EVENTS)),
    "recover": _rests(undone_by=(_E.SENDS, *_EVENTS)),
    "area": _rests(undone_by=(_E.SENDS, *_EVENTS)),
    "a reader late": _rests(undone_by=(_E.SENDS, _E.DELIVERIES)),
}


def with_prediction(rests: Rests) -> Rests:
    """Of damage that is compared with a prediction: a hole under either side can make or hide a difference."""
    both = rests.on | PREDICTION
    return Rests(on=both, undone_by=both)

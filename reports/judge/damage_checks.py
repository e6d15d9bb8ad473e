"""Checks of the records: the damage that a cell may show, and the anomalies that it must not show. Pure.

They look at what is there. `under_holes.py` says afterwards which of them rest on what is missing."""

from __future__ import annotations

from dataclasses import replace

from reports.evidence.configuration import Configuration
from reports.evidence.removals import is_compacted, start_offsets
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.breakable import is_breakable
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check
from reports.judge.holes import NOTHING, PREDICTION, RESTS, Evidence, Rests, with_prediction
from reports.judge.late_faults import after_the_load
from reports.judge.lawful import LAWFUL, rule
from reports.read.model import PREDICTED_KINDS, CellFacts, IdentitySet
from runlog.records.cell import Expectation, Shown

# Judged by what the cell expects, or by the evidence checks.
JUDGED_ELSEWHERE = (
    *PREDICTED_KINDS, "recovered", "removed", "removed_in_doubt", "unseen_pending", "unread", "harness_error",
)  # fmt: skip
_IN_DOUBT = "removed_in_doubt"
_MAY_BE_REMOVED = ("lost", "lost_unacked", "ack_misplaced", "read_above_hw")
_REMOVAL = frozenset({Evidence.JOURNALS, Evidence.FAULTS})
NEEDS_WHOLE_STREAMS = (
    "unexpected",
    "ack_misplaced",
    "lost_in_delivery",
    "poll_skip",
    "read_above_hw",
    "copy_missing",
    "copy_passed_over",
    "copy_gone",
    "copy_unexpected",
    "phantom",
)


def damage_checks(facts: CellFacts, configuration: Configuration, *, is_usable: bool) -> list[Check]:
    """`is_usable`: the evidence agrees with itself (evidence_checks.is_usable)."""
    others = [anomaly.name for anomaly in ANOMALIES if anomaly.name not in JUDGED_ELSEWHERE]
    return [
        *(
            replace(
                _expected(kind, facts, configuration, is_usable),
                rests=_of_removed(_rests_of(expectation(facts, kind), kind), kind, facts),
                producers=_producers(facts.predictions[kind].observed),
            )
            for kind in PREDICTED_KINDS
        ),
        *(
            replace(
                _never(name, facts, configuration, is_usable),
                rests=_of_removed(_rests_of_other(name, facts, configuration), name, facts),
                is_breakable=is_breakable(name, facts.cell, configuration),
                producers=_producers(facts.observed.get(name, IdentitySet())),
            )
            for name in others
        ),
    ]


def _rests_of(expected: Expectation, kind: str) -> Rests:
    """Where any number is accepted, nothing that was seen or not seen changes the result."""
    if expected is Expectation.ANY:
        return NOTHING
    if expected is Expectation.NONE:  # what was predicted only contradicts; what was seen decides
        return Rests(on=RESTS[kind].on | PREDICTION, undone_by=RESTS[kind].undone_by)
    return with_prediction(RESTS[kind])


def _rests_of_other(kind: str, facts: CellFacts, configuration: Configuration) -> Rests:
    """What was seen and is lawful stays so, whatever is missing."""
    is_lawful = bool(facts.anomaly_count(kind)) and rule(kind, configuration).lawful == LAWFUL
    return NOTHING if is_lawful else RESTS[kind]


def _of_removed(rests: Rests, kind: str, facts: CellFacts) -> Rests:
    """If a log does not begin at 0, or is compacted, journals and faults say what was removed lawfully."""
    may_be_removed = any(start_offsets(facts.cell).values()) or is_compacted(facts.cell)
    if kind not in _MAY_BE_REMOVED or not may_be_removed:
        return rests
    return Rests(on=rests.on | _REMOVAL, undone_by=rests.undone_by | _REMOVAL)


def _producers(found: IdentitySet) -> frozenset[int]:
    return frozenset(item.producer for item in found.ranges)


def expectation(facts: CellFacts, kind: str) -> Expectation:
    expect = facts.cell.record.expect
    return {"lost": expect.lost, "duplicated": expect.duplicated, "reordered": expect.reordered}[kind]


def is_any_allowed(facts: CellFacts, kind: str) -> bool:
    """The cell accepts any amount of this damage: what was seen is not compared with a prediction."""
    return expectation(facts, kind) is Expectation.ANY


def _expected(kind: str, facts: CellFacts, configuration: Configuration, usable: bool) -> Check:
    expected = expectation(facts, kind)
    comparison = facts.predictions[kind]
    observed, predicted = comparison.observed.count, comparison.predicted.count
    name = f"{kind}: {expected} expected"
    ruling = rule(kind, configuration)
    if kind == "lost" and not facts.cell.is_read_to_end:
        return Check(name=name, result=INCONCLUSIVE, reason="loss cannot be told: the log was not read to its end")
    if expected is Expectation.ANY:
        return Check(name=name, result=PASS, reason=f"{observed} {kind} (allowed): any number is accepted")
    if why := _first_copies_may_be_gone(kind, facts):
        return Check(name=name, result=INCONCLUSIVE, reason=why)
    if expected is Expectation.NONE:
        if observed:
            # Streams that contradict each other do not show what is missing.
            doubtful = kind == "lost" and not usable
            return Check(
                name=name,
                result=INCONCLUSIVE if doubtful else FAIL,
                reason=f"{observed} {kind}, none expected; {ruling.permission} ({configuration.text()}): "
                f"{ruling.reason}{_beyond(facts, kind)}",
            )
        if kind == "lost" and facts.set_count(_IN_DOUBT):
            return Check(name=name, result=INCONCLUSIVE, reason=_in_doubt(facts))
        if predicted:
            return Check(
                name=name,
                result=INCONCLUSIVE,
                reason=f"{predicted} {kind} were predicted and none was observed: the evidence contradicts itself",
            )
        return Check(name=name, result=PASS, reason=f"no record {kind}")
    if not usable:
        return Check(
            name=name, result=INCONCLUSIVE, reason=f"{observed} of {predicted} {kind}, but the evidence is incomplete"
        )
    if not comparison.equal:
        return Check(
            name=name,
            result=FAIL,
            reason=f"{kind}: {comparison.both.count} as predicted, {comparison.only_predicted.count} only predicted, "
            f"{comparison.only_observed.count} only observed{_beyond(facts, kind)}",
        )
    if kind == "lost" and facts.set_count(_IN_DOUBT):
        return Check(name=name, result=INCONCLUSIVE, reason=_in_doubt(facts))
    if predicted == 0 and expected is Expectation.EXACT:
        return Check(name=name, result=PASS, reason=f"no record {kind}, and none predicted")
    if predicted == 0:
        why = f": {late}" if (late := after_the_load(facts)) else ""
        return Check(name=name, result=INCONCLUSIVE, reason=f"damage was to be shown, but no record was {kind}{why}")
    return Check(name=name, result=PASS, reason=f"{observed} {kind}: exactly the {predicted} predicted")


def _first_copies_may_be_gone(kind: str, facts: CellFacts) -> str:
    """Why damage that is not as predicted says nothing; empty if it does. A compaction removes the first copy of a
    record that is there twice: then it is there once, and seems to come late. Without a second copy, which is
    predicted, there is no such record. A duplicate that is there and that nobody expects stays one."""
    comparison = facts.predictions[kind]
    if not is_compacted(facts.cell) or not facts.predictions["duplicated"].predicted.count:
        return ""
    is_one_too_many = comparison.only_observed.count or (
        comparison.observed.count and expectation(facts, kind) is Expectation.NONE
    )
    is_open = kind == "reordered" or (kind == "duplicated" and not is_one_too_many)
    if not is_open or comparison.equal:
        return ""
    return (
        f"{kind}: {comparison.both.count} as predicted, {comparison.only_predicted.count} only predicted, "
        f"{comparison.only_observed.count} only observed, and compaction may have removed first copies of records"
    )


def _beyond(facts: CellFacts, kind: str) -> str:
    """Where brokers deleted more than they may."""
    return "".join(f"; {words}" for words in facts.removed_beyond) if kind == "lost" else ""


def _in_doubt(facts: CellFacts) -> str:
    return (
        f"{facts.set_count(_IN_DOUBT)} record(s) are gone, and nobody can tell whether they were removed lawfully: "
        f"{'; '.join(facts.removal_doubts) or 'nobody was told their offsets, and other records were removed'}"
    )


def _never(kind: str, facts: CellFacts, configuration: Configuration, usable: bool) -> Check:
    """Any other anomaly fails if it is unlawful. It also fails if the rules call it impossible: then rule or finding is
    wrong."""
    observed = facts.anomaly_count(kind)
    ruling = rule(kind, configuration)
    title = BY_NAME[kind].title.lower()
    if kind == "corrupt":
        observed = max(observed, facts.counts.corrupt_received, len(_corrupt_batches(facts)))
    name = f"none {title}"
    if not observed and kind == "lost_unacked" and facts.set_count(_IN_DOUBT):
        return Check(name=name, result=INCONCLUSIVE, reason=_in_doubt(facts))
    if not observed and (
        (kind == "lost_in_delivery" and _is_to_be_passed_over(facts))
        or (kind == "lost_unacked" and facts.cell.record.expect.lost_unacked is Shown.SOME)
    ):
        return Check(name=name, result=INCONCLUSIVE, reason=f"damage was to be shown, but none was {title}")
    if not observed:
        return Check(name=name, result=PASS, reason=f"did not happen: {title}")
    examples = facts.findings[kind].examples if kind in facts.findings else ()
    reason = f"{observed} {title} ({ruling.permission}: {ruling.reason})" + (f": {examples[0]}" if examples else "")
    if ruling.lawful == LAWFUL:
        return Check(name=name, result=PASS, reason=reason)
    # Streams that contradict each other do not show what was sent and what the log holds.
    return Check(name=name, result=INCONCLUSIVE if kind in NEEDS_WHOLE_STREAMS and not usable else FAIL, reason=reason)


def _corrupt_batches(facts: CellFacts) -> tuple[str, ...]:
    """Batches that a leader served with a wrong CRC; the log has no rows of those that cannot be decoded."""
    return facts.cell.record.outcome.final_read.corrupt or ()


def _is_to_be_passed_over(facts: CellFacts) -> bool:
    """A scenario that shows what committing ahead of processing costs must show it."""
    return facts.cell.record.expect.passed_over is Shown.SOME

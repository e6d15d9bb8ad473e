"""Checks of the records: the damage that a cell may show, and the anomalies that it must not show. Pure."""

from __future__ import annotations

from reports.evidence.configuration import Configuration
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check
from reports.judge.lawful import LAWFUL, rule
from reports.read.model import PREDICTED_KINDS, CellFacts
from runlog.records.cell import Expectation, Shown

# Judged by what the cell expects, or by the evidence checks.
JUDGED_ELSEWHERE = (*PREDICTED_KINDS, "recovered", "unseen_pending", "unread", "harness_error")
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
    """`is_usable`: the evidence is whole (evidence_checks.is_usable)."""
    others = [anomaly.name for anomaly in ANOMALIES if anomaly.name not in JUDGED_ELSEWHERE]
    return [
        *(_expected(kind, facts, configuration, is_usable) for kind in PREDICTED_KINDS),
        *(_never(name, facts, configuration, is_usable) for name in others),
    ]


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
    if expected is Expectation.NONE:
        if observed:
            # If a log was not read to its end, loss cannot be judged, but other damage is visible in what was read.
            # What is missing from a stream with holes may have been there.
            doubtful = kind == "lost" and not usable
            return Check(
                name=name,
                result=INCONCLUSIVE if doubtful else FAIL,
                reason=f"{observed} {kind}, none expected; with {configuration.text()} that is {ruling.lawful}: "
                f"{ruling.reason}",
            )
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
            f"{comparison.only_observed.count} only observed",
        )
    if predicted == 0 and expected is Expectation.EXACT:
        return Check(name=name, result=PASS, reason=f"no record {kind}, and none predicted")
    if predicted == 0:
        return Check(name=name, result=INCONCLUSIVE, reason=f"damage was to be shown, but no record was {kind}")
    return Check(name=name, result=PASS, reason=f"{observed} {kind}: exactly the {predicted} predicted")


def _never(kind: str, facts: CellFacts, configuration: Configuration, usable: bool) -> Check:
    """Any other anomaly fails if it is unlawful. It also fails if the rules call it impossible: then rule or finding is
    wrong."""
    observed = facts.anomaly_count(kind)
    ruling = rule(kind, configuration)
    title = BY_NAME[kind].title.lower()
    if kind == "corrupt":
        observed = max(observed, facts.counts.corrupt_received, len(_corrupt_batches(facts)))
    name = f"none {title}"
    if not observed and (
        (kind == "lost_in_delivery" and _is_to_be_passed_over(facts))
        or (kind == "lost_unacked" and facts.cell.record.expect.lost_unacked is Shown.SOME)
    ):
        return Check(name=name, result=INCONCLUSIVE, reason=f"damage was to be shown, but none was {title}")
    if not observed:
        return Check(name=name, result=PASS, reason=f"did not happen: {title}")
    examples = facts.findings[kind].examples if kind in facts.findings else ()
    reason = f"{observed} {title} ({ruling.lawful}: {ruling.reason})" + (f": {examples[0]}" if examples else "")
    if ruling.lawful == LAWFUL:
        return Check(name=name, result=PASS, reason=reason)
    # Streams with holes do not show what was sent and what the log holds.
    return Check(name=name, result=INCONCLUSIVE if kind in NEEDS_WHOLE_STREAMS and not usable else FAIL, reason=reason)


def _corrupt_batches(facts: CellFacts) -> tuple[str, ...]:
    """Batches that a leader served with a wrong CRC; the log has no rows of those that cannot be decoded."""
    return facts.cell.record.outcome.final_read.corrupt or ()


def _is_to_be_passed_over(facts: CellFacts) -> bool:
    """A scenario that shows what committing ahead of processing costs must show it."""
    return facts.cell.record.expect.passed_over is Shown.SOME

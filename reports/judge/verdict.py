"""From the facts of a cell to pass, fail or inconclusive, with the reasons. Pure; thresholds are in `criteria.py`.

An observed violation is a fail, even if the figures of speed are in doubt. Inconclusive means that the run cannot say.
For example, the fault was not proved, the log was not read to its end, or the load was not what was asked for. There is
never a silent pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.evidence.asked import achieved_ratio, schedule_kind
from reports.evidence.configuration import Configuration, configuration_of
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.broker_cpu import still_warming
from reports.judge.lawful import LAWFUL, rule
from reports.judge.limit_grammar import Held
from reports.judge.noise import backlog, disturbance
from reports.read.model import PREDICTED_KINDS, SCHEDULE_LAG, Basis, CellFacts
from runlog.quality.criteria import Criteria
from runlog.quality.steadiness import CHANGING_KINDS
from runlog.records.cell import CellKind, CellStatus, Expectation, Shown
from runlog.records.fault import WAIT, FaultPhase

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
EXIT_CODES = {PASS: 0, FAIL: 1, INCONCLUSIVE: 4}
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
# What `_evidence` and `_fault_proved` look at, in words, for docs/reference/lawful.md.
EVIDENCE_CHECKS = {
    "cell finished": "the harness carried the cell out to its end",
    "run log readable": "the streams that the cell must have are there, and every file of them can be read",
    "final read complete": "every partition was read from its log's start to its end, after all faults were healed",
    "enough records": f"at least {Criteria().records_min} records in the measured window, acknowledged ones, or with "
    "acks=0 those that the final read found",
    "sends accepted": f"at least {Criteria().accepted_share_min:.0%} of the sends were acknowledged, or with acks=0 "
    f"taken over by the client; {Criteria().accepted_share_min_chaos:.0%} in a scenario with faults",
    "run log agrees with itself": "no stream says the opposite of another (below)",
    "all partitions delivered": "a reader that begins at the log's start got something of every partition that it "
    "reads and in which the final read finds something",
    "fault took effect": "of a scenario with faults: every fault that was applied is proved to have acted",
}
_ACTED = frozenset({FaultPhase.APPLIED, FaultPhase.PROVED, FaultPhase.NOT_EFFECTIVE})
READABLE = "run log readable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant of one cell: a JUnit test case."""

    name: str
    result: str
    reason: str
    allowed: str = ""  # a failure that an allowance covers: the allowance, and what it covers


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    result: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()  # worth knowing, changes nothing
    limits: tuple[Held, ...] = ()  # each is a check too

    @property
    def reasons(self) -> list[str]:
        """Why it is not a pass; for a pass, what was shown."""
        wanted = [check.reason for check in self.checks if check.result == self.result]
        return wanted or [check.reason for check in self.checks]


def judge(facts: CellFacts, criteria: Criteria | None = None) -> Verdict:
    """The verdict on one cell."""
    criteria = criteria or Criteria()
    configuration = configuration_of(facts.cell)
    evidence = _evidence(facts, criteria)
    usable = all(check.result == PASS for check in evidence if check.name != READABLE) and not facts.missing_streams
    checks = [*evidence]
    unread = facts.set_count("unread")
    checks.append(
        _check(
            "all partitions delivered",
            not unread,
            "every reader got something of every partition that it reads",
            f"a reader got nothing at all of partitions that hold {unread} record(s): whether delivery works there "
            "cannot be said",
        )
    )
    if facts.cell.kind is CellKind.CHAOS:
        checks.append(_fault_proved(facts))
    checks += [_expected(kind, facts, configuration, usable) for kind in PREDICTED_KINDS]
    checks += [
        _never(anomaly.name, facts, configuration, usable)
        for anomaly in ANOMALIES
        if anomaly.name not in JUDGED_ELSEWHERE
    ]
    checks += _criteria(facts)
    if facts.cell.kind not in ("chaos", "search"):  # a try above the limit falls behind, as it should
        checks += [_measured(facts), _generator(facts, criteria), _steady(facts, criteria)]
    return Verdict(
        result=worst([check.result for check in checks]), checks=tuple(checks), notes=_notes(facts, criteria)
    )


def worst(results: Sequence[str]) -> str:
    """Fail comes before inconclusive, and inconclusive before pass. No check at all is inconclusive."""
    if FAIL in results:
        return FAIL
    return INCONCLUSIVE if INCONCLUSIVE in results or not results else PASS


def _check(name: str, good: bool, reason: str, otherwise: str, result: str = INCONCLUSIVE) -> Check:
    return Check(name=name, result=PASS if good else result, reason=reason if good else otherwise)


def _evidence(facts: CellFacts, criteria: Criteria) -> list[Check]:
    outcome = facts.cell.record.outcome
    why = outcome.final_read.reason or "it is not recorded as complete"
    missing = (*facts.missing_streams, *facts.missing_beside)
    # At a ceiling what is answered in the window was sent a queue's length before.
    done = facts.counts.acks_in_window if facts.cell.kind is CellKind.CEILING else facts.counts.acked
    if facts.throughput_basis is not Basis.ACKNOWLEDGED:
        done = facts.counts.log_in_window
    return [
        _check(
            "cell finished",
            outcome.status is CellStatus.DONE,
            "the cell ran to its end",
            f"the cell is {outcome.status}: {outcome.reason or 'no reason recorded'}",
        ),
        _check(
            READABLE,
            not missing,
            "all that the plan must have recorded is there",
            f"parts of the run log are missing: {'; '.join(missing)}",
        ),
        _check(
            "final read complete",
            facts.cell.is_read_to_end,
            "every partition was read to its end",
            f"the log was not read to its end: {why}",
        ),
        _check(
            "enough records",
            done >= criteria.records_min,
            f"{done} records in the measured window",
            f"only {done} records in the measured window, {criteria.records_min} are needed",
        ),
        _check(
            "run log agrees with itself",
            not facts.contradictions,
            "nothing in the run log contradicts another part of it",
            f"the run log contradicts itself: {'; '.join(facts.contradictions)}",
        ),
        *(
            [] if facts.cell.kind is CellKind.SEARCH else [_accepted(facts, criteria)]
        ),  # a try above the limit may time out
    ]


def _accepted(facts: CellFacts, criteria: Criteria) -> Check:
    """If the sends of a cell are refused or unanswered, it says nothing about speed or about promises kept."""
    counts = facts.counts
    is_acknowledged = facts.throughput_basis is Basis.ACKNOWLEDGED
    sent = counts.acked_total + counts.failed_total + counts.unknown_total
    accepted = counts.acked_total if is_acknowledged else sent - counts.failed_total
    least = criteria.accepted_share_min_chaos if facts.cell.kind is CellKind.CHAOS else criteria.accepted_share_min
    share = accepted / sent if sent else 1.0  # that there is nothing at all is another check's part
    what = "acknowledged" if is_acknowledged else "taken over by the client"
    rest = f"{counts.failed_total} failed, {counts.unknown_total} are unknown"
    how_many = "none" if not accepted else f"{accepted} ({share:.0%})"
    return _check(
        "sends accepted",
        share >= least,
        f"{share:.0%} of the sends were {what}",
        f"{how_many} of the {sent} sends were {what}; {rest}; {least:.0%} are needed",
    )


def _fault_proved(facts: CellFacts) -> Check:
    phases: dict[str, set[FaultPhase]] = {}
    names: dict[str, str] = {}
    for line in facts.cell.fault_lines:
        if line.kind == WAIT:  # of the same step: that what was waited for came is no proof of the fault
            continue
        phases.setdefault(line.id, set()).add(line.phase)
        names[line.id] = f"{line.kind} on {line.target}"
    applied = [fault_id for fault_id, seen in phases.items() if seen & _ACTED and FaultPhase.MISSED not in seen]
    if not facts.cell.record.has_faults:
        return Check(name="fault took effect", result=PASS, reason="a control run: no fault was planned")
    unproved = [fault_id for fault_id in applied if FaultPhase.PROVED not in phases[fault_id]]
    if not applied:
        return Check(name="fault took effect", result=INCONCLUSIVE, reason="no fault was applied")
    return _check(
        "fault took effect",
        not unproved,
        f"{len(applied)} fault(s) applied and proved",
        f"no proof that {', '.join(names[item] for item in unproved)} had an effect",
    )


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
        return Check(name=name, result=PASS, reason=f"none {title}")
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


def _criteria(facts: CellFacts) -> list[Check]:
    """A scenario's limits on recovery, and on silence."""
    checks: list[Check] = []
    for item in facts.cell.record.criteria:
        value = _figure(facts, item.figure)
        if value is None:
            checks.append(Check(name=item.text, result=INCONCLUSIVE, reason=f"{item.text}: the run does not show it"))
            continue
        told = f"{item.text}: {value:.2f} {'record-seconds' if item.figure == 'area' else 's'}"
        checks.append(_check(item.text, value <= item.limit, told, told, FAIL))
    return checks


def _figure(facts: CellFacts, figure: str) -> float | None:
    """In seconds, or record-seconds. An outage that never began is one of no length."""
    if figure == "gap":
        return None if facts.gap_us is None else facts.gap_us / 1e6
    found = facts.recovery
    if found is None:
        return None
    values = {
        "detect": found.detect_us,
        "elect": found.elect_us,
        "first ack": found.first_ack_us,
        "recover": found.recover_us,
    }
    if figure == "area":
        return found.area_record_seconds
    value = values.get(figure)
    return None if value is None else value / 1e6


def generator_ceiling_per_s(facts: CellFacts) -> float | None:
    """What the generator reached by itself for records like this cell's (self-certification); None: not measured."""
    value = facts.cell.record.certificate.records_per_s
    return float(value) if value is not None and value > 0 else None


def ceiling_share(facts: CellFacts) -> float | None:
    """The cell's rate over the ceiling of its generator."""
    ceiling = generator_ceiling_per_s(facts)
    return facts.throughput_records_per_s / ceiling if ceiling else None


def _generator(facts: CellFacts, criteria: Criteria) -> Check:
    """A rate below the one asked for is a result if the brokers are the limit, and none if the generator is."""
    ratio = achieved_ratio(facts)
    share = facts.cell.record.outcome.health.busiest_process_cpu_share
    name = "generator kept up"
    if facts.cell.kind is CellKind.CEILING:
        return Check(name=name, result=PASS, reason=ceiling_limit(facts, criteria) or "the generator had room left")
    near, ceiling = ceiling_share(facts), generator_ceiling_per_s(facts)
    if near is not None and ceiling is not None and near >= criteria.generator_ceiling_share_max:
        return Check(
            name=name,
            result=INCONCLUSIVE,
            reason=f"client-bound: {facts.throughput_records_per_s:,.0f} records/s are {near:.0%} of the "
            f"{ceiling:,.0f} that the generator reaches against a broker that stores nothing (limit "
            f"{criteria.generator_ceiling_share_max:.0%}); lower the rate, or add processes",
        )
    if ratio is None:
        return Check(name=name, result=PASS, reason="no rate was asked for")
    if ratio >= criteria.achieved_ratio_min:
        return Check(name=name, result=PASS, reason=f"{ratio:.0%} of the asked rate was sent")
    if share is not None and share < criteria.generator_cpu_share_max:
        return Check(
            name=name,
            result=PASS,
            reason=f"{ratio:.0%} of the asked rate was sent with the generator at {share:.0%} CPU: "
            "the configuration carries no more",
        )
    busy = "its CPU share is unknown" if share is None else f"it used {share:.0%} CPU"
    return Check(
        name=name,
        result=INCONCLUSIVE,
        reason=f"client-bound: only {ratio:.0%} of the asked rate was sent and {busy}; lower the rate",
    )


def ceiling_limit(facts: CellFacts, criteria: Criteria) -> str:
    """Why the rate of a ceiling may be that of the load generator, which is no capacity. Empty if it is not."""
    share = facts.cell.record.outcome.health.limiting_cpu_share
    unknown = "the load generator may be the limit: no capacity is claimed, because"
    if facts.cell.record.client == "java":
        return f"{unknown} what its JVM took was not recorded"
    if share is None:
        return f"{unknown} what it took of the processor was not recorded"
    if share >= criteria.generator_cpu_share_max:
        return (
            f"the load generator was the limit: no capacity is claimed. It used {share:.0%} of what one core gives it "
            f"(limit {criteria.generator_cpu_share_max:.0%})"
        )
    return ""


def _measured(facts: CellFacts) -> Check:
    """If all records of the window are acknowledged only after it, the window has no throughput."""
    return _check(
        "measured",
        facts.throughput_records_per_s > 0,
        f"{facts.throughput_records_per_s:,.0f} records/s in the measured window",
        "no acknowledgement came in the measured window: it is shorter than the latency, or the host stood still",
    )


def _steady(facts: CellFacts, criteria: Criteria) -> Check:
    start_us, end_us = facts.cell.window_us()
    ratio = facts.steady_ratio
    name = "steady"
    of = "rate, of what was due" if schedule_kind(facts.cell) in CHANGING_KINDS else "rate"
    if ratio is None or end_us - start_us < criteria.steady_window_us_min:
        return Check(name=name, result=PASS, reason="the window is too short to judge steadiness")
    if late := backlog(facts, criteria):
        return Check(name=name, result=INCONCLUSIVE, reason=late)
    return _check(
        name,
        ratio >= criteria.steady_ratio_min,
        f"the slowest third had {ratio:.0%} of the fastest third's {of}",
        f"unsteady: the slowest third had {ratio:.0%} of the fastest third's {of}; repeat on a quieter host",
    )


def _notes(facts: CellFacts, criteria: Criteria) -> tuple[str, ...]:
    notes = [*facts.cell.notes]
    if facts.unseen:
        notes.append(
            f"{facts.unseen} acknowledged record(s) were not found, but the log was not read to its end: "
            "their fate is unknown"
        )
    lag = facts.latency[SCHEDULE_LAG].p99_us if SCHEDULE_LAG in facts.latency else None
    if lag is not None and lag > criteria.schedule_lag_us_p99_max:
        notes.append(f"schedule lag p99 {lag / 1000:.0f} ms: the latencies contain that delay of the generator")
    disturbed = disturbance(facts, criteria)
    if disturbed:
        notes.append(disturbed)
    warming = still_warming(facts, criteria)
    if warming:
        notes.append(warming)
    unheard = facts.set_count("lost_unacked")
    if unheard:
        notes.append(
            f"{unheard} record(s) that the client counted as sent are not in the log: with acks=0 nobody hears of it, "
            "and no promise was broken"
        )
    recovered = facts.set_count("recovered")
    if recovered:
        notes.append(f"{recovered} record(s) without an acknowledgement were found in the log (recovered)")
    negative = sum(latency.negative for latency in facts.latency.values())
    if negative:
        notes.append(f"up to {negative} latencies are negative: the clocks of the processes disagree")
    return tuple(notes)

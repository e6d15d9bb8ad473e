"""`harness.explore.findings.causes`: findings of one cause are one, whatever was disturbed, and others are not."""

from __future__ import annotations

from dataclasses import replace

from harness.explore.findings.causes import by_cause, cause_of, of_kind
from harness.explore.oracles.oracles import Kind, Suspicion
from harness.explore.search.search import Finding, Signature
from harness.explore.trial.history import (
    Change,
    Connected,
    Delivered,
    Ended,
    Happening,
    History,
    Problem,
    Rebalance,
    Stuck,
)
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

PROGRAM = Program(name="group", role=Role.CONSUMER, moves=(Move(do=Do.SUBSCRIBE),))
STUCK = Stuck(at_us=20_000_000, what="records unread", missing=1, expected=1, waited_ms=15_000)


def exchange(api: str, at_s: float) -> KafkaExchange:
    return KafkaExchange(
        mono_ns=int(at_s * 1e9),
        ended_ns=int(at_s * 1e9),
        proxy="client-1",
        connection=1,
        api=api,
        api_version=1,
        correlation_id=1,
        request_bytes=1,
        outcome=ExchangeOutcome.DELIVERED,
    )


def finding(
    kind: Kind, api: str, *happened: Happening, asks: tuple[str, ...] = (), met_s: float = 2.0, moves: int = 1
) -> Finding:
    program = Program(name="group", role=Role.CONSUMER, moves=(Move(do=Do.SUBSCRIBE),) * moves)
    trial = Trial(program=program, disturbance=Disturbance(api=api, how=How.ERROR_BEFORE, code=16))
    history = History(
        happened=(Connected(at_us=0), *happened),
        log=(),
        first_disturbed_us=int(met_s * 1e6),
        exchanges=(exchange("Fetch", 3), *(exchange(api, 19.0) for api in asks)),
    )
    return Finding(
        signature=Signature(kind=kind, role=Role.CONSUMER, api=api),
        first=trial,
        trial=trial,
        suspicion=Suspicion(kind=kind, what="", count=1),
        history=history,
    )


def test_a_client_that_is_left_in_one_state_has_one_cause_whichever_answer_stopped_it() -> None:
    one = finding(Kind.STUCK, "OffsetFetch", STUCK, asks=("Heartbeat",), moves=3)
    other = finding(Kind.STUCK, "FindCoordinator", STUCK, asks=("Heartbeat",), moves=2)
    ((cause, members),) = by_cause([one, other])
    assert str(cause) == "no progress after healing (consumer; at its start; asks for Heartbeat)"
    assert members == [other, one], "the smallest first"


def test_what_one_trial_shows_at_once_is_one_cause_with_the_worst_of_it_first() -> None:
    torn, twice, alone = (
        finding(Kind.TORN, "AddPartitionsToTxn"),
        finding(Kind.DUPLICATED, "AddPartitionsToTxn"),
        finding(Kind.DUPLICATED, "EndTxn"),
    )
    (first, members), (second, others) = by_cause([torn, twice, alone])
    assert (first.kind, members, of_kind(first, members)) == (Kind.TORN, [torn, twice], [torn])
    assert (second.kind, others) == (Kind.DUPLICATED, [alone])


def test_a_cause_is_one_line_that_begins_with_why_the_client_died() -> None:
    words = "some log\npanic: runtime error: nil\n\ngoroutine 1 [running]:\n\tmain.go:62 +0x12a"
    died = Ended(at_us=3_000_000, code=2, last_words=words)
    ((cause, _),) = by_cause([finding(Kind.CRASHED, "Fetch", died)])
    assert cause.state == "panic: runtime error: nil goroutine N [running]: main.go:N +N"


def test_another_state_another_phase_or_another_kind_is_another_cause() -> None:
    delivered = Delivered(at_us=1_000_000, partition=0, offset=0, value=b"")
    assigned = Rebalance(at_us=1_000_000, change=Change.ASSIGNED, partitions=frozenset({0}))
    findings = [
        finding(Kind.STUCK, "OffsetFetch", STUCK, asks=("Heartbeat",)),
        finding(Kind.STUCK, "OffsetFetch", STUCK, asks=("Fetch", "Heartbeat")),
        finding(Kind.STUCK, "OffsetFetch", STUCK),
        finding(Kind.STUCK, "OffsetFetch", assigned, STUCK, asks=("Heartbeat",)),
        finding(Kind.STUCK, "OffsetFetch", delivered, STUCK, asks=("Heartbeat",)),
        finding(Kind.SKIPPED, "OffsetFetch", STUCK, asks=("Heartbeat",), moves=2),
    ]
    assert len(by_cause(findings)) == len(findings)
    phases = [cause_of(one).phase for one in findings]
    assert phases == ["at its start"] * 3 + ["before its first record", "at work", "at its start"]
    assert cause_of(findings[2]).state == "asks for nothing"


def test_damage_of_records_is_told_apart_by_what_was_disturbed() -> None:
    findings = [finding(Kind.LOST, "Produce"), finding(Kind.LOST, "Metadata")]
    assert len(by_cause(findings)) == 2


def test_names_and_numbers_of_one_run_are_no_part_of_a_state() -> None:
    words = [
        Ended(
            at_us=3_000_000, code=-11, signal=11, last_words=f'segment {number} of "explore-a-{number}" at 0x{number}f'
        )
        for number in (7, 8)
    ]
    assert len(by_cause([finding(Kind.CRASHED, api, one) for api, one in zip("ab", words, strict=True)])) == 1
    fatal = [Problem(at_us=3_000_000, reason=f"epoch {number} is fenced", is_fatal=True) for number in (1, 2)]
    assert len(by_cause([finding(Kind.GAVE_UP, api, one) for api, one in zip("ab", fatal, strict=True)])) == 1


def quiet(*rare: Do, kind: Kind = Kind.DELIVERED_AGAIN) -> Finding:
    moves = tuple(Move(do=do) for do in (Do.SUBSCRIBE, *rare, Do.READ))
    trial = Trial(program=Program(name="group", role=Role.CONSUMER, moves=moves))
    return replace(
        finding(kind, ""), trial=trial, first=trial, signature=Signature(kind=kind, role=Role.CONSUMER, api="")
    )


def test_what_was_not_made_as_small_as_another_one_is_told_with_it() -> None:
    large, small, other = quiet(Do.SEEK, Do.RESUME), quiet(Do.RESUME), quiet(Do.RESTART)
    (first, members), (second, alone) = by_cause([large, small, other])
    assert (first.state, members) == ("with resume", [small, large])
    assert (second.state, alone) == ("with restart", [other])


def test_damage_of_another_kind_has_another_cause_whatever_its_trial_has() -> None:
    assert len(by_cause([quiet(Do.RESUME), quiet(Do.RESUME, Do.SEEK, kind=Kind.SKIPPED)])) == 2

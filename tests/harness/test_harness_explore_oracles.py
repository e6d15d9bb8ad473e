"""`harness.explore.oracles.oracles`: each kind of damage is planted into a history and found, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.explore.oracles.oracles import Kind, suspicions
from harness.explore.trial.history import (
    Busy,
    Change,
    Connected,
    Delivered,
    Ended,
    Fate,
    FlushedEarly,
    Happening,
    History,
    Logged,
    Outcome,
    Overdue,
    Problem,
    Rebalance,
    Sent,
    Stuck,
    Told,
    TransactionEnd,
)
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

IDEMPOTENT = Program(
    name="p", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=4),), properties={"enable.idempotence": "true"}
)
PLAIN = replace(IDEMPOTENT, properties={"enable.idempotence": "false", "max.in.flight.requests.per.connection": "5"})
ONE_IN_FLIGHT = replace(
    IDEMPOTENT, properties={"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"}
)
READER = Program(name="c", role=Role.CONSUMER, moves=(Move(do=Do.SUBSCRIBE), Move(do=Do.READ)))
REFUSED = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6)
UNHEARD = Disturbance(api="Produce", how=How.CLOSED_AFTER)
FORBIDDEN = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=29)
NO_TOPIC = Disturbance(api="Metadata", how=How.ERROR_BEFORE, code=3)


def value(seq: int) -> bytes:
    return b"r%d" % seq


def sent(*seqs: int, transaction: int = 0) -> list[Happening]:
    return [Sent(at_us=1, seq=seq, value=value(seq), transaction=transaction) for seq in seqs]


def acknowledged(*seqs: int) -> list[Happening]:
    return [Outcome(at_us=2, seq=seq, fate=Fate.ACKNOWLEDGED, partition=0, offset=seq) for seq in seqs]


def log(*seqs: int, aborted: Sequence[int] = ()) -> tuple[Logged, ...]:
    return tuple(
        Logged(partition=0, offset=offset, value=value(seq), is_aborted=seq in aborted)
        for offset, seq in enumerate(seqs)
    )


def kinds(
    program: Program, disturbance: Disturbance | None, happened: list[Happening], there: tuple[Logged, ...]
) -> list[Kind]:
    history = History(happened=tuple(happened), log=there, disturbed=int(disturbance is not None))
    return [one.kind for one in suspicions(Trial(program=program, disturbance=disturbance), history)]


RIGHT = [*sent(0, 1, 2, 3), *acknowledged(0, 1, 2, 3)]


@pytest.mark.parametrize("program", [IDEMPOTENT, PLAIN, ONE_IN_FLIGHT])
@pytest.mark.parametrize("disturbance", [None, REFUSED, UNHEARD])
def test_a_producer_that_does_all_right_is_not_suspected(program: Program, disturbance: Disturbance | None) -> None:
    assert kinds(program, disturbance, RIGHT, log(0, 1, 2, 3)) == []


def test_an_acknowledged_record_that_is_not_in_the_log_is_lost() -> None:
    found = [*sent(0, 1, 2), *acknowledged(0, 1)]
    assert kinds(IDEMPOTENT, UNHEARD, found, log(0)) == [Kind.LOST]


def test_without_an_acknowledgement_nothing_is_lost() -> None:
    unknown = Outcome(at_us=2, seq=1, fate=Fate.UNKNOWN)
    assert kinds(IDEMPOTENT, replace(UNHEARD, count=0), [*sent(0, 1), *acknowledged(0), unknown], log(0)) == []


@pytest.mark.parametrize(
    ("program", "disturbance", "is_unlawful"),
    [
        (IDEMPOTENT, UNHEARD, True),
        (IDEMPOTENT, None, True),
        (PLAIN, UNHEARD, False),  # it cannot know that the first one was done
        (PLAIN, REFUSED, True),  # the first one was surely not done
        (PLAIN, None, True),
    ],
)
def test_a_record_that_is_there_twice(program: Program, disturbance: Disturbance | None, is_unlawful: bool) -> None:
    there = (*log(0, 1, 2, 3), Logged(partition=0, offset=9, value=value(3)))
    assert kinds(program, disturbance, RIGHT, there) == ([Kind.DUPLICATED] if is_unlawful else [])


@pytest.mark.parametrize(
    ("program", "disturbance", "is_unlawful"),
    [(IDEMPOTENT, REFUSED, True), (ONE_IN_FLIGHT, REFUSED, True), (PLAIN, REFUSED, False), (PLAIN, None, False)],
)
def test_records_in_another_order(program: Program, disturbance: Disturbance | None, is_unlawful: bool) -> None:
    happened = [*sent(0, 1, 2, 3), *(replace(one, offset=-1) for one in acknowledged(0, 1, 2, 3))]  # type: ignore[type-var]
    assert kinds(program, disturbance, happened, log(0, 2, 1, 3)) == ([Kind.REORDERED] if is_unlawful else [])


@pytest.mark.parametrize(
    ("there", "is_unlawful"),
    [
        ((0, 1, 2, 3, 4, 5), False),
        ((1, 3, 0, 2, 4, 5), False),  # the second caller was first
        ((1, 0, 3, 2, 4, 5), False),
        ((2, 0, 1, 3, 4, 5), True),  # two of one caller
        ((0, 1, 4, 2, 3, 5), True),  # the next command had to wait for both
        ((3, 0, 2, 1, 4, 5), True),
    ],
)
def test_records_that_several_callers_give_at_once_have_an_order_for_each_caller(
    there: tuple[int, ...], is_unlawful: bool
) -> None:
    """Records 0 and 2 are of one caller, 1 and 3 of the other one, 4 and 5 of the next command."""
    happened: list[Happening] = [
        Sent(at_us=1, seq=seq, value=value(seq), command=1 if seq < 4 else 2, caller=seq % 2 if seq < 4 else 0)
        for seq in range(6)
    ]
    assert kinds(IDEMPOTENT, None, happened, log(*there)) == ([Kind.REORDERED] if is_unlawful else [])


@pytest.mark.parametrize(("callers", "is_unlawful"), [(1, True), (2, False)])
def test_who_waits_for_room_beside_others_may_be_refused_by_its_library(callers: int, is_unlawful: bool) -> None:
    happened: list[Happening] = [
        *(Sent(at_us=1, seq=seq, value=value(seq), command=1, caller=seq % callers) for seq in range(4)),
        *acknowledged(1, 2, 3),
        Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=-1, reason="timed out"),
    ]
    there = tuple(replace(one, offset=one.offset + 1) for one in log(1, 2, 3))
    assert kinds(IDEMPOTENT, None, happened, there) == ([Kind.GAVE_UP] if is_unlawful else [])


def test_the_partition_that_was_asked_for_binds() -> None:
    asked = Sent(at_us=1, seq=0, value=value(0), partition=1)
    assert kinds(IDEMPOTENT, None, [asked, *acknowledged(0)], log(0)) == [Kind.WRONG_PLACE]


def test_a_record_in_another_topic_is_told() -> None:
    history = History(happened=tuple(RIGHT), log=log(0, 1, 2, 3), other_topics=(value(2),))
    assert [one.kind for one in suspicions(Trial(program=IDEMPOTENT), history)] == [Kind.WRONG_PLACE]


def test_an_acknowledged_offset_holds_that_record() -> None:
    assert kinds(IDEMPOTENT, None, [*sent(0, 1), *acknowledged(0, 1)], log(1, 0)) == [
        Kind.REORDERED,
        Kind.WRONG_CONTENT,
    ]


# --- giving up and dying ----------------------------------------------------------------------------------------------


def failed(seq: int) -> Outcome:
    return Outcome(at_us=3, seq=seq, fate=Fate.FAILED, code=6, reason="NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize(
    ("disturbance", "is_unlawful"),
    [
        (REFUSED, True),  # one refusal that passes by itself
        (UNHEARD, True),
        (replace(REFUSED, count=0), False),  # it may lose patience
        (FORBIDDEN, False),
        (NO_TOPIC, False),  # it was told that its topic is not there
        (replace(NO_TOPIC, code=5), True),  # a leader is missing for a moment
        (None, True),
    ],
)
def test_giving_up(disturbance: Disturbance | None, is_unlawful: bool) -> None:
    happened = [*sent(0, 1), *acknowledged(0), failed(1)]
    assert kinds(IDEMPOTENT, disturbance, happened, log(0)) == ([Kind.GAVE_UP] if is_unlawful else [])


def test_a_fatal_error_needs_a_reason() -> None:
    fatal = Problem(at_us=4, reason="all is lost", is_fatal=True)
    assert kinds(IDEMPOTENT, REFUSED, [*RIGHT, fatal], log(0, 1, 2, 3)) == [Kind.GAVE_UP]
    assert kinds(IDEMPOTENT, FORBIDDEN, [*RIGHT, fatal], log(0, 1, 2, 3)) == []
    assert kinds(IDEMPOTENT, NO_TOPIC, [*RIGHT, fatal], log(0, 1, 2, 3)) == [Kind.GAVE_UP]
    assert kinds(READER, NO_TOPIC, [fatal], ()) == [Kind.GAVE_UP]
    assert kinds(IDEMPOTENT, NO_TOPIC, RIGHT, log(0, 1, 2)) == [Kind.LOST]


@pytest.mark.parametrize(
    ("disturbance", "properties", "is_unlawful"),
    [
        (replace(REFUSED, count=0), {}, True),
        (replace(UNHEARD, count=0), {}, True),
        (replace(FORBIDDEN, count=0), {}, False),
        (replace(REFUSED, count=0), {"delivery.timeout.ms": "2500"}, False),  # its records were lost meanwhile
    ],
)
def test_a_producer_may_fail_records_that_are_refused_for_long_and_must_not_end_for_good(
    disturbance: Disturbance, properties: dict[str, str], is_unlawful: bool
) -> None:
    """What passes within the time that each record has leaves a producer that can send."""
    program = replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, **properties})
    fatal = Problem(at_us=4, reason="unable to guarantee consistency", is_fatal=True)
    happened = [*sent(0, 1), *acknowledged(0), failed(1), fatal, Ended(at_us=5, code=1)]
    assert kinds(program, disturbance, happened, log(0)) == [Kind.GAVE_UP] * is_unlawful
    in_transactions = replace(program, moves=(Move(do=Do.BEGIN), *program.moves, Move(do=Do.COMMIT_TRANSACTION)))
    assert kinds(in_transactions, disturbance, happened, log(0)) == []
    assert kinds(replace(READER, properties=program.properties), disturbance, [fatal], ()) == []


@pytest.mark.parametrize(
    ("disturbance", "timeout_ms", "is_unlawful"),
    [
        (replace(UNHEARD, count=0), "2500", False),
        (replace(UNHEARD, count=0), "30000", True),
        (replace(REFUSED, count=0), "2500", True),  # nothing of it was written
    ],
)
def test_what_was_unanswered_when_a_record_expired_may_be_written_twice(
    disturbance: Disturbance, timeout_ms: str, is_unlawful: bool
) -> None:
    """librdkafka takes another epoch then, and sends with other sequences what the broker may have."""
    program = replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, "delivery.timeout.ms": timeout_ms})
    happened = [*sent(0, 1), *acknowledged(0), failed(1)]
    assert kinds(program, disturbance, happened, log(0, 0)) == [Kind.DUPLICATED] * is_unlawful
    assert kinds(program, disturbance, [*sent(0), *acknowledged(0)], log(0, 0)) == [Kind.DUPLICATED]


def test_a_topic_may_take_less_than_a_batch() -> None:
    """Some libraries cut such a batch in two, others fail its records, and Kafka's own client with a batch.size beyond
    the limit sends it again until its time is over."""
    small = replace(IDEMPOTENT, topic={"max.message.bytes": "20000"})
    refused = Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=10)
    assert kinds(small, None, [*sent(0), refused], ()) == []
    assert kinds(IDEMPOTENT, None, [*sent(0), refused], ()) == [Kind.GAVE_UP]
    expired = replace(refused, fate=Fate.UNKNOWN, code=-1, reason="expired")
    assert kinds(small, None, [*sent(0), expired], ()) == []
    assert kinds(IDEMPOTENT, None, [*sent(0), expired], ()) == [Kind.GAVE_UP]


def test_a_record_that_lives_shorter_than_a_busy_host_can_be_told_may_expire() -> None:
    """One late answer lasts longer than such a record."""
    little = replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, "delivery.timeout.ms": "2500"})
    expired = Outcome(at_us=2_600_000, seq=0, fate=Fate.UNKNOWN, code=-1, reason="expired")
    assert kinds(little, None, [*sent(0), expired], ()) == []
    assert kinds(little, None, [*sent(0), replace(expired, at_us=2_000)], ()) == [Kind.GAVE_UP]


def test_a_record_has_the_time_that_is_in_force_and_not_the_one_that_the_client_does_not_know() -> None:
    """aiokafka has no delivery.timeout.ms, and says what its records have instead."""
    program = replace(PLAIN, properties={**PLAIN.properties, "delivery.timeout.ms": "30000"})
    expired = Outcome(at_us=2_100_000, seq=0, fate=Fate.UNKNOWN, code=7, reason="expired")
    trial = Trial(program=program, disturbance=UNHEARD)
    history = History(happened=(*sent(0), expired), log=(), disturbed=1)
    assert [one.kind for one in suspicions(trial, history)] == [Kind.GAVE_UP]
    assert suspicions(trial, replace(history, effective={"delivery.timeout.ms": "2000"})) == []


def test_a_flush_waits_for_all_outcomes_whatever_is_answered() -> None:
    early = FlushedEarly(at_us=9, what="flush is answered, and 2 records have no outcome: 2, 3")
    for disturbance in (None, REFUSED, FORBIDDEN):
        assert kinds(IDEMPOTENT, disturbance, [*RIGHT, early], log(0, 1, 2, 3)) == [Kind.FLUSHED_EARLY]


def test_a_processor_that_is_used_for_nothing_is_told_whatever_was_answered() -> None:
    for disturbance in (None, REFUSED, FORBIDDEN):
        busy = Busy(at_us=9, share=0.98, looked_ms=2_000)
        history = History(happened=(*RIGHT, busy), log=log(0, 1, 2, 3), disturbed=int(disturbance is not None))
        (found,) = suspicions(Trial(program=IDEMPOTENT, disturbance=disturbance), history)
        assert (found.kind, found.what) == (Kind.BUSY, "98% of one for 2000 ms, with nothing to do")


def test_a_signal_is_a_crash_whatever_was_answered() -> None:
    for disturbance in (None, REFUSED, FORBIDDEN):
        dead = Ended(at_us=4, code=-11, signal=11)
        assert kinds(IDEMPOTENT, disturbance, [*RIGHT, dead], log(0, 1, 2, 3)) == [Kind.CRASHED]


def test_an_exit_after_a_fatal_error_is_no_crash() -> None:
    happened = [*RIGHT, Problem(at_us=4, reason="forbidden", is_fatal=True), Ended(at_us=5, code=1)]
    assert kinds(IDEMPOTENT, FORBIDDEN, happened, log(0, 1, 2, 3)) == []


def test_no_progress_is_told_unless_the_client_may_stop_and_says_so() -> None:
    stuck = Stuck(at_us=9, what="records unread", missing=3, expected=4, waited_ms=15_000)
    problem = Problem(at_us=4, reason="TOPIC_AUTHORIZATION_FAILED", code=29)
    reading_forbidden = Disturbance(api="Fetch", how=How.ERROR_BEFORE, code=29)
    there = log(0, 1, 2, 3)
    assert kinds(READER, REFUSED, [problem, stuck], there) == [Kind.STUCK]
    assert kinds(READER, reading_forbidden, [stuck], there) == [Kind.STUCK]  # silent
    assert kinds(READER, reading_forbidden, [problem, stuck], there) == []


def test_a_call_that_outlives_its_time_is_told() -> None:
    overdue = Overdue(at_us=9, command="close", allowed_ms=15_000)
    assert kinds(READER, None, [overdue], ()) == [Kind.HUNG]


def test_who_is_killed_because_it_does_not_answer_has_not_died_by_itself() -> None:
    overdue = Overdue(at_us=9, command="poll", allowed_ms=10_000)
    killed = Ended(at_us=9, code=-9, signal=9)
    assert kinds(READER, None, [overdue, killed], ()) == [Kind.HUNG]
    assert kinds(READER, None, [killed], ()) == [Kind.CRASHED]
    assert kinds(READER, None, [overdue, replace(killed, signal=11)], ()) == [Kind.CRASHED, Kind.HUNG]


def produced(took_ms: int, outcome: ExchangeOutcome = ExchangeOutcome.DELIVERED, *codes: int) -> KafkaExchange:
    return KafkaExchange(
        mono_ns=0, ended_ns=took_ms * 1_000_000, proxy="p", connection=1, api="Produce", api_version=9,
        correlation_id=1, request_bytes=1, error_codes=codes, outcome=outcome,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("exchange", "is_unlawful"),
    [
        (produced(900), True),
        (produced(1_100), False),  # of 2,000: the client may have waited longer than that
        (produced(5, ExchangeOutcome.UNANSWERED), False),
    ],
)
def test_what_a_busy_host_makes_late_is_repeated_lawfully(exchange: KafkaExchange, is_unlawful: bool) -> None:
    plain = replace(PLAIN, properties={**PLAIN.properties, "request.timeout.ms": "2000"})
    found = History(happened=(*sent(0, 1), *acknowledged(0, 1)), log=log(0, 1, 0), exchanges=(produced(5), exchange))
    assert [one.kind for one in suspicions(Trial(program=plain), found)] == [Kind.DUPLICATED] * is_unlawful
    idempotent = replace(plain, properties={**plain.properties, "enable.idempotence": "true"})
    assert [one.kind for one in suspicions(Trial(program=idempotent), found)] == [Kind.DUPLICATED]


@pytest.mark.parametrize(("told_us", "is_unlawful"), [(40_000, True), (9_000_000, False)])
def test_what_expires_in_a_client_that_is_not_let_run_is_no_giving_up(told_us: int, is_unlawful: bool) -> None:
    """Its answer was there after 5 ms. It told of that only when it was let run again, and the other record expired."""
    expired = Outcome(at_us=30_000_002, seq=1, fate=Fate.UNKNOWN, reason="expired")
    happened = (*sent(0, 1), *(replace(one, at_us=told_us) for one in acknowledged(0)), expired)  # type: ignore[type-var]
    trial = Trial(program=replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, "delivery.timeout.ms": "30000"}))
    found = suspicions(trial, History(happened=happened, log=log(0), exchanges=(produced(5),)))
    assert [one.kind for one in found] == [Kind.GAVE_UP] * is_unlawful
    soon = replace(expired, at_us=told_us + 1)  # it did not wait for its time-out
    found = suspicions(trial, History(happened=(*happened[:-1], soon), log=log(0), exchanges=(produced(5),)))
    assert [one.kind for one in found] == [Kind.GAVE_UP]


def test_between_sends_that_are_under_way_together_only_idempotence_promises_an_order() -> None:
    other = log(1, 0)
    assert kinds(PLAIN, None, sent(0, 1), other) == []
    assert kinds(ONE_IN_FLIGHT, None, sent(0, 1), other) == [Kind.REORDERED]
    assert kinds(IDEMPOTENT, None, sent(0, 1), other) == [Kind.REORDERED]


def test_what_we_did_wrong_accuses_nobody() -> None:
    history = History(happened=(*sent(0), *acknowledged(0)), log=(), problem="the log could not be read")
    assert suspicions(Trial(program=IDEMPOTENT), history) == []


# --- transactions -----------------------------------------------------------------------------------------------------


def transaction(number: int, *seqs: int, is_commit: bool = True, told: Told = Told.DONE) -> list[Happening]:
    end = TransactionEnd(at_us=3, transaction=number, is_commit=is_commit, told=told)
    unplaced = [replace(one, offset=-1) for one in acknowledged(*seqs)]  # type: ignore[type-var]
    return [*sent(*seqs, transaction=number), *unplaced, end]


TRANSACTIONAL = replace(IDEMPOTENT, moves=(Move(do=Do.BEGIN), Move(do=Do.SEND), Move(do=Do.COMMIT_TRANSACTION)))


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (How.ERROR_BEFORE, [Kind.ABORTED_VISIBLE]),
        (How.CLOSED_BEFORE, [Kind.ABORTED_VISIBLE]),
        (How.CLOSED_AFTER, []),
        (How.SILENCE_BEFORE, []),
        (How.LATE, []),
    ],
)
def test_what_is_given_up_after_a_commit_without_an_answer_may_be_there_unless_that_was_surely_not_done(
    how: How, found: list[Kind]
) -> None:
    given_up = [*transaction(1, 0, 1)[:-1]]
    end = TransactionEnd(at_us=3, transaction=1, is_commit=False, told=Told.DONE, is_after_commit=True)
    ended = Disturbance(api="EndTxn", how=how, code=-1 if how.is_error else 0, count=0)
    assert kinds(TRANSACTIONAL, ended, [*given_up, end], log(0, 1)) == found
    assert kinds(TRANSACTIONAL, ended, [*given_up, end], log(0)) == (found or [Kind.TORN])
    assert kinds(TRANSACTIONAL, ended, [*given_up, end], ()) == []
    aborted = replace(end, is_after_commit=False)
    assert kinds(TRANSACTIONAL, ended, [*given_up, aborted], log(0, 1)) == [Kind.ABORTED_VISIBLE]


def refused(number: int, seq: int) -> list[Happening]:
    """A transaction whose record is not accepted, and which the client commits all the same."""
    unsent = Outcome(at_us=2, seq=seq, fate=Fate.UNKNOWN, code=45)
    end = TransactionEnd(at_us=3, transaction=number, is_commit=True, told=Told.DONE)
    return [*sent(seq, transaction=number), unsent, end]


@pytest.mark.parametrize(
    ("happened", "found"),
    [
        ([*transaction(1, 0), *refused(2, 1), *refused(3, 2), *refused(4, 3)], [Kind.STUCK]),
        ([*transaction(1, 0), *refused(2, 1), *refused(3, 2), *transaction(4, 3)], []),
        ([*transaction(1, 0), *transaction(2, 1), *refused(3, 2), *refused(4, 3)], []),
    ],
    ids=["none is accepted any more", "it recovers", "too few to say"],
)
def test_a_transactional_producer_that_has_nothing_accepted_any_more_stands_still(
    happened: list[Happening], found: list[Kind]
) -> None:
    """aiokafka 0.14.0 kept its sequence after an abort, and committed one empty transaction after the other."""
    denied = Disturbance(api="AddPartitionsToTxn", how=How.ERROR_BEFORE, code=29)
    there = log(*(one.seq for one in happened if isinstance(one, Outcome) and one.fate is Fate.ACKNOWLEDGED))
    assert kinds(TRANSACTIONAL, denied, happened, there) == found
    assert kinds(TRANSACTIONAL, replace(denied, count=0), happened, there) == []


@pytest.mark.parametrize(
    ("happened", "there", "expected"),
    [
        (transaction(1, 0, 1), log(0, 1), []),
        (transaction(1, 0, 1), log(), [Kind.LOST]),
        (transaction(1, 0, 1), log(0), [Kind.TORN]),
        (transaction(1, 0, 1, told=Told.UNANSWERED), log(0), [Kind.TORN]),
        (transaction(1, 0, 1, told=Told.UNANSWERED), log(0, 1), []),
        (transaction(1, 0, 1, told=Told.UNANSWERED), log(0, 1, aborted=(0, 1)), []),
        (transaction(1, 0, 1, is_commit=False), log(0, 1, aborted=(0, 1)), []),
        (transaction(1, 0, 1, is_commit=False), log(0, 1), [Kind.ABORTED_VISIBLE]),
        (transaction(1, 0, 1), log(0, 1, aborted=(1,)), [Kind.TORN]),
    ],
)
def test_a_transaction_is_all_or_nothing(
    happened: list[Happening], there: tuple[Logged, ...], expected: list[Kind]
) -> None:
    assert kinds(TRANSACTIONAL, None, happened, there) == expected


# --- consumers --------------------------------------------------------------------------------------------------------


def read(*offsets: int) -> list[Happening]:
    assigned = Rebalance(at_us=1, change=Change.ASSIGNED, partitions=frozenset({0}))
    polled = [
        Delivered(at_us=2 + at, partition=0, offset=offset, value=value(offset)) for at, offset in enumerate(offsets)
    ]
    return [Connected(at_us=0), assigned, *polled]


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        (read(0, 1, 2, 3), []),
        (read(0, 1, 3), [Kind.SKIPPED]),
        (read(0, 1, 1, 2, 3), [Kind.DELIVERED_AGAIN]),
        ([*read(0, 1), *read(0, 1, 2, 3)], []),  # a new life, and nothing was committed
        ([*read(0, 3), *read(0, 1, 2, 3)], []),  # late, and not skipped
    ],
)
def test_a_reader(happened: list[Happening], expected: list[Kind]) -> None:
    assert kinds(READER, None, happened, log(0, 1, 2, 3)) == expected


def test_a_record_of_an_aborted_transaction_is_not_handed_out() -> None:
    there = log(0, 1, 2, 3, aborted=(1,))
    assert kinds(READER, None, read(0, 2, 3), there) == []
    assert kinds(READER, None, read(0, 1, 2, 3), there) == [Kind.ABORTED_VISIBLE]
    history = History(happened=tuple(read(0, 1, 2, 3)), log=there, is_read_uncommitted=True)
    assert suspicions(Trial(program=READER), history) == []


def test_a_record_with_other_contents_is_told() -> None:
    wrong = Delivered(at_us=7, partition=0, offset=3, value=b"other")
    assert kinds(READER, None, [*read(0, 1, 2), wrong], log(0, 1, 2, 3)) == [Kind.WRONG_CONTENT]


# --- what the cluster did ---------------------------------------------------------------------------------------------


def changed(program: Program, *does: Do) -> Program:
    return replace(program, moves=(*program.moves, *(Move(do=do, count=1) for do in does)))


def test_deleted_records_need_not_be_read_and_may_be() -> None:
    there = tuple(replace(record, is_deleted=record.offset < 2) for record in log(0, 1, 2, 3))
    program = changed(READER, Do.DELETE_RECORDS)
    begin: list[Happening] = [Rebalance(at_us=1, change=Change.ASSIGNED, partitions=frozenset({0}))]
    read = [Delivered(at_us=2, partition=0, offset=offset, value=value(offset)) for offset in range(4)]
    assert kinds(program, None, [*begin, *read], there) == []
    assert kinds(program, None, [*begin, *read[2:]], there) == []
    assert kinds(program, None, [*begin, *read[3:]], there) == [Kind.SKIPPED]


def test_what_was_sent_before_the_topic_became_another_one_may_be_gone_with_it() -> None:
    trial = Trial(program=changed(IDEMPOTENT, Do.RECREATE))
    late = [
        Sent(at_us=9, seq=4, value=value(4)),
        Outcome(at_us=9, seq=4, fate=Fate.ACKNOWLEDGED, partition=0, offset=0),
    ]

    def kinds_with(there: tuple[Logged, ...]) -> list[Kind]:
        return [one.kind for one in suspicions(trial, History(happened=(*RIGHT, *late), log=there, recreated_us=5))]

    assert kinds_with(log(4)) == []
    assert kinds_with(()) == [Kind.LOST]
    assert kinds_with(log(4, 4)) == [Kind.DUPLICATED]


@pytest.mark.parametrize(
    ("do", "found"),
    [
        *((Do.MOVE_LEADER, [Kind.GAVE_UP]), (Do.CUT, []), (Do.FREEZE, []), (Do.LOSE, [])),
        *((Do.CUT_ALL, []), (Do.FREEZE_ALL, [])),
        *((Do.DIE, []), (Do.HANG, []), (Do.ISOLATE, []), (Do.LAG, [Kind.GAVE_UP])),
    ],
)
def test_a_client_may_give_up_what_cannot_be_reached_and_not_what_moves(do: Do, found: list[Kind]) -> None:
    failed = [*sent(0), Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=-1, reason="timed out")]
    assert kinds(changed(IDEMPOTENT, do), None, failed, ()) == found


def test_a_leader_that_answered_alone_may_lose_records_when_it_moves() -> None:
    alone = replace(PLAIN, properties={**PLAIN.properties, "acks": "1"})
    assert kinds(changed(alone, Do.MOVE_LEADER), None, RIGHT, log(0, 1, 2)) == []
    assert kinds(alone, None, RIGHT, log(0, 1, 2)) == [Kind.LOST]
    assert kinds(changed(PLAIN, Do.MOVE_LEADER), None, RIGHT, log(0, 1, 2)) == [Kind.LOST]


def test_without_idempotence_a_moving_leader_may_cause_duplicates_and_another_order() -> None:
    unheard, there = sent(0, 1, 2, 3), log(0, 1, 1, 3, 2)
    assert kinds(changed(PLAIN, Do.MOVE_LEADER), None, unheard, there) == []
    assert kinds(changed(IDEMPOTENT, Do.MOVE_LEADER), None, unheard, there) == [Kind.DUPLICATED, Kind.REORDERED]


@pytest.mark.parametrize("how", [How.ALTERED, How.THROTTLED])
def test_an_answer_with_other_contents_excuses_nothing(how: How) -> None:
    altered = Disturbance(api="Metadata", how=how, alteration="reversed" if how is How.ALTERED else "")
    assert kinds(PLAIN, altered, RIGHT, log(0, 1, 2, 3, 1)) == [Kind.DUPLICATED]
    failed = [*sent(0), Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=-1, reason="timed out")]
    assert kinds(IDEMPOTENT, altered, failed, ()) == [Kind.GAVE_UP]


def test_a_record_beyond_the_batch_size_may_be_refused_by_the_library_itself() -> None:
    """franz-go takes `batch.size` for a limit of records too."""

    def of(batch_size: str, code: int) -> list[Kind]:
        program = replace(PLAIN, properties={**PLAIN.properties, "batch.size": batch_size})
        sent = Sent(at_us=1, seq=0, value=b"x" * 5_000, partition=0)
        refused = Outcome(at_us=2, seq=0, fate=Fate.UNKNOWN, code=code)
        return kinds(program, None, [sent, refused], ())

    assert of("1000", 10) == []
    assert of("16384", 10) == [Kind.GAVE_UP]
    assert of("1000", 2) == [Kind.GAVE_UP]


@pytest.mark.parametrize(
    ("do", "found"),
    [(Do.LOSE, [Kind.STUCK]), (Do.DIE, [Kind.STUCK]), (Do.RECREATE, [Kind.STUCK]), (Do.HANG, []), (Do.CUT, [])],
)
def test_who_waits_for_a_lost_broker_or_the_topic_of_before_makes_no_progress_whatever_it_tells(
    do: Do, found: list[Kind]
) -> None:
    waits = Stuck(at_us=9, what="transactions not ended", missing=1, expected=1, waited_ms=40_000)
    told = Problem(at_us=3, reason="timed out", code=-1, command="commit-transaction")
    assert kinds(changed(IDEMPOTENT, do), None, [told, waits], ()) == found


@pytest.mark.parametrize(
    ("do", "found"),
    [
        *((do, [Kind.STUCK]) for do in (Do.CUT_ALL, Do.FREEZE_ALL, Do.LOSE, Do.DIE, Do.DIE_ALL, Do.HANG, Do.ISOLATE)),
        (Do.CUT, []),
    ],
)
def test_a_reader_goes_on_when_all_brokers_are_back_whatever_it_has_told(do: Do, found: list[Kind]) -> None:
    """Libraries tell that no broker is there. That excused every reader that stood still for good afterwards."""
    waits = Stuck(at_us=9, what="records unread", missing=1, expected=1, waited_ms=15_000)
    told = Problem(at_us=3, reason="all brokers are down", code=-1, command="poll")
    assert kinds(changed(READER, do), None, [told, waits], ()) == found


@pytest.mark.parametrize(("after_s", "found"), [(1, []), (29, [Kind.STUCK])])
def test_what_expires_long_after_its_topic_was_created_anew_is_no_progress(after_s: int, found: list[Kind]) -> None:
    """KAFKA-13488: the new topic has lower leader epochs, so kafka-clients 3.0.0 took no leader of it for true."""
    expired = Outcome(at_us=1 + after_s * 1_000_000, seq=0, fate=Fate.UNKNOWN, code=7)
    history = History(happened=(*sent(0), expired), log=(), recreated_us=1)
    program = changed(IDEMPOTENT, Do.RECREATE)
    assert [one.kind for one in suspicions(Trial(program=program), history)] == found


@pytest.mark.parametrize(("delivery_ms", "found"), [("2500", []), ("30000", [Kind.GAVE_UP])])
@pytest.mark.parametrize("how", [How.LATE, How.SILENCE_BEFORE, How.SILENCE_AFTER])
def test_records_with_less_time_than_an_answer_is_late_may_fail_with_those_before_them(
    how: How, delivery_ms: str, found: list[Kind]
) -> None:
    program = replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, "delivery.timeout.ms": delivery_ms})
    late = Disturbance(api="Produce", how=how, late_ms=3_000 if how is How.LATE else 0)
    failed = [*sent(0), Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=-1, reason="timed out")]
    assert kinds(program, late, failed, ()) == found

"""`harness.explore.execution.copying`, and the whole way of a copy: the program, its subject and the oracle, with a
client and its brokers in one process. A right one is not accused, and each mutant is."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.explore.execution.copying import Copying
from harness.explore.execution.subject import Subject
from harness.explore.generators.programs import COPIER
from harness.explore.oracles.oracles import Kind, Suspicion, suspicions
from harness.explore.trial.history import (
    Commit,
    Fate,
    History,
    Logged,
    Outcome,
    Sent,
    Sought,
    Told,
    TransactionEnd,
)
from harness.explore.trial.model import Do, Move, Program, Role, Trial
from runlog.records.exchange import ExchangeOutcome, KafkaExchange
from tests.harness.copier_client import LOST_ANSWER, NOT_DONE, RECORDS, TOLD_LATE
from tests.harness.explore_site import SITE

CLIENT = Path(__file__).with_name("copier_client.py")


# --- what a copier has ------------------------------------------------------------------------------------------------


def reading(*places: tuple[int, int]) -> Copying:
    copying = Copying()
    copying.hear_records(places)
    return copying


def test_a_transaction_takes_records_in_the_order_in_which_they_came_and_sends_the_offset_behind_the_last() -> None:
    copying = reading((0, 4), (1, 7), (0, 5), (0, 6))
    assert copying.take(3) == [(0, 4), (1, 7), (0, 5)]
    assert copying.positions == {0: 6, 1: 8}
    copying.end_committed()
    assert copying.positions == {}
    assert copying.take(3) == [(0, 6)]


def test_what_was_given_up_comes_again_from_its_first_record_on() -> None:
    copying = reading((0, 4), (0, 5), (1, 7), (0, 6))
    copying.take(2)
    assert copying.end_aborted() == {0: 4}
    # Of partition 0 nothing waits any more: offset 6 comes again behind 4 and 5.
    assert copying.take(5) == [(1, 7)]


def test_a_transaction_with_records_of_a_partition_that_was_taken_away_is_void_and_takes_no_more() -> None:
    copying = reading((0, 4), (1, 7), (1, 8))
    copying.take(2)
    copying.revoke({0})
    assert copying.is_void
    assert copying.take(1) == []
    # Whoever has partition 0 now begins at the group's offset, so there is nothing to seek back to.
    assert copying.end_aborted() == {1: 7}
    assert not copying.is_void


def test_records_that_wait_are_no_reason_to_give_a_transaction_up_and_go_with_their_partition() -> None:
    copying = reading((0, 4), (1, 7))
    copying.take(1)
    copying.revoke({1})
    assert not copying.is_void
    assert copying.take(5) == []


def test_another_connection_begins_with_nothing() -> None:
    copying = reading((0, 4), (0, 5))
    copying.take(1)
    copying.revoke({0})
    copying.begin_anew()
    assert (copying.positions, copying.is_void, copying.take(5)) == ({}, False, [])


# --- the oracle, by histories -----------------------------------------------------------------------------------------

PROGRAM = Program(name="c", role=Role.COPIER, moves=(Move(do=Do.SUBSCRIBE), Move(do=Do.BEGIN)), properties=COPIER)
INPUT = tuple(Logged(partition=0, offset=offset, value=b"other/%d" % offset) for offset in range(4))


def copy_of(offset: int, seq: int, transaction: int) -> Sent:
    return Sent(at_us=1, seq=seq, value=b"copy %d" % seq, transaction=transaction, source=(0, offset))


def judged(
    copies: Mapping[int, bool],
    committed: int,
    *happened: Sent | TransactionEnd | Commit | Outcome,
    program: Program = PROGRAM,
    exchanges: Sequence[KafkaExchange] = (),
) -> list[Kind]:
    """`copies`: sequence of a copy -> whether it is given up."""
    there = tuple(
        Logged(partition=0, offset=place, value=b"copy %d" % seq, is_aborted=is_aborted)
        for place, (seq, is_aborted) in enumerate(copies.items())
    )
    history = History(happened=happened, log=INPUT, copies=there, committed={0: committed}, exchanges=tuple(exchanges))
    return [one.kind for one in suspicions(Trial(program=program), history)]


def end(transaction: int, *, is_commit: bool = True, told: Told = Told.DONE) -> TransactionEnd:
    return TransactionEnd(at_us=2, transaction=transaction, is_commit=is_commit, told=told)


FIRST, AGAIN = [copy_of(0, 0, 1), copy_of(1, 1, 1)], [copy_of(0, 2, 2), copy_of(1, 3, 2)]


def test_each_record_that_was_copied_once_with_its_offset_is_right() -> None:
    assert judged({0: False, 1: False}, 2, *FIRST, end(1)) == []


def test_what_was_given_up_may_be_copied_again() -> None:
    assert judged({0: True, 1: True, 2: False, 3: False}, 2, *FIRST, end(1, is_commit=False), *AGAIN, end(2)) == []


@pytest.mark.parametrize("told", [Told.FAILED, Told.UNANSWERED])
def test_a_commit_without_an_answer_may_be_done_and_may_not(told: Told) -> None:
    unknown = end(1, told=told)
    assert judged({0: False, 1: False}, 2, *FIRST, unknown) == []
    assert judged({0: True, 1: True}, 0, *FIRST, unknown) == []
    assert judged({0: True, 1: True, 2: False, 3: False}, 2, *FIRST, unknown, *AGAIN, end(2)) == []


def test_a_commit_without_an_answer_whose_records_are_in_twice_is_wrong() -> None:
    unknown = end(1, told=Told.FAILED)
    assert judged({0: False, 1: False, 2: False, 3: False}, 2, *FIRST, unknown, *AGAIN, end(2)) == [Kind.COPIED_TWICE]


@pytest.mark.parametrize(("other", "version", "is_wrong"), [(0, 2, True), (1, 2, False), (1, 3, True)])
def test_who_tells_no_generation_is_not_kept_from_copying_what_another_member_has(
    other: int, version: int, is_wrong: bool
) -> None:
    """The Java client 2.1.0, whose frozen member committed what the other one had copied meanwhile. What one member
    copies twice is wrong with each client."""
    moves = tuple(Move(do=Do.SUBSCRIBE, member=member) for member in range(2))
    again = [replace(one, member=other) for one in AGAIN]
    found = judged(
        {0: False, 1: False, 2: False, 3: False}, 2, *FIRST, end(1), *again, end(2),
        program=replace(PROGRAM, moves=(*moves, Move(do=Do.BEGIN))),
        exchanges=[
            KafkaExchange(
                mono_ns=1, ended_ns=1, proxy="client-1", connection=1, api="TxnOffsetCommit", api_version=version,
                correlation_id=1, request_bytes=1, outcome=ExchangeOutcome.DELIVERED,
            )
        ],
    )  # fmt: skip
    assert found == [Kind.COPIED_TWICE] * is_wrong


def test_an_offset_beyond_what_was_committed_with_its_copies_is_wrong() -> None:
    assert judged({0: False, 1: False}, 3, *FIRST, end(1)) == [Kind.NOT_COPIED]
    assert judged({0: True, 1: True}, 2, *FIRST, end(1, is_commit=False)) == [Kind.NOT_COPIED]
    assert judged({0: True, 1: True}, 2, *FIRST, end(1, told=Told.FAILED)) == [Kind.NOT_COPIED]


def test_a_copy_that_the_application_was_told_of_is_its_own_to_send_again() -> None:
    """aiokafka commits a transaction although the send of a record in it has failed. After one that was given up a
    failed send is no excuse for an offset."""
    failed = Outcome(at_us=2, seq=1, fate=Fate.FAILED, code=7)
    assert judged({0: False}, 2, *FIRST, failed, end(1)) == [Kind.GAVE_UP], (
        "nothing was disturbed, so the failure is told"
    )
    assert Kind.NOT_COPIED in judged({0: False}, 2, *FIRST, end(1))
    assert Kind.NOT_COPIED in judged({0: True, 1: True}, 2, *FIRST, failed, end(1, is_commit=False))


def test_copies_without_their_offset_are_only_wrong_when_they_are_made_again() -> None:
    assert judged({0: False, 1: False}, 0, *FIRST, end(1, told=Told.FAILED)) == []


def test_a_copy_that_is_visible_although_it_was_given_up_is_wrong() -> None:
    assert judged({0: False, 1: False}, 0, *FIRST, end(1, is_commit=False)) == [Kind.ABORTED_VISIBLE]


def test_half_of_a_transaction_is_wrong() -> None:
    assert judged({0: False}, 2, *FIRST, end(1, told=Told.FAILED)) == [Kind.NOT_COPIED, Kind.TORN]


def test_what_others_gave_up_or_deleted_need_not_be_copied() -> None:
    input_of_others = (
        Logged(partition=0, offset=0, value=b"other/0", is_aborted=True),
        Logged(partition=0, offset=1, value=b"other/1", is_deleted=True),
    )
    history = History(happened=(), log=input_of_others, committed={0: 2})
    assert suspicions(Trial(program=PROGRAM), history) == []


# --- the whole way ----------------------------------------------------------------------------------------------------


def copied(count: int, last: Do = Do.COMMIT_TRANSACTION) -> tuple[Move, ...]:
    return (Move(do=Do.BEGIN), Move(do=Do.COPY, count=count), Move(do=Do.SEND_OFFSETS), Move(do=last))


RESTART = (Move(do=Do.RESTART), Move(do=Do.SUBSCRIBE))
MOVES = (Move(do=Do.SUBSCRIBE), *copied(5), *copied(4, Do.ABORT_TRANSACTION), *copied(6))
LEFT_OPEN = (*copied(6)[:-1], *RESTART)
GIVEN_UP_AT_LAST = (*copied(4, Do.ABORT_TRANSACTION), *RESTART)


def carried_out(directory: Path, mutant: str, *more: Move) -> tuple[list[Suspicion], History]:
    state = directory / "state.json"

    def brokers() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {"output": [], "offset": 0}
        return found

    program = Program(name="copies", role=Role.COPIER, moves=(*MOVES, *more), properties=COPIER, partitions=1)
    site = replace(
        SITE, log_ends=lambda: {0: RECORDS}, copies="copies", committed=lambda: {0: brokers()["offset"]}, patience_s=1.0
    )
    subject = Subject([sys.executable, str(CLIENT), str(state), mutant], {}, program, site)
    subject.run()
    assert subject.problem == ""
    left = brokers()
    values = {one.value: one.value for one in subject.happened if isinstance(one, Sent)}
    history = History(
        happened=tuple(subject.happened),
        log=tuple(Logged(partition=0, offset=offset, value=b"x") for offset in range(RECORDS)),
        copies=tuple(
            Logged(partition=0, offset=place, value=values[decoded(value)], is_aborted=not is_committed)
            for place, (value, is_committed) in enumerate(left["output"])
        ),
        committed={0: left["offset"]},
    )
    return suspicions(Trial(program=program), history), history


def decoded(text: str) -> bytes:
    return base64.b64decode(text)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), LEFT_OPEN, GIVEN_UP_AT_LAST])
@pytest.mark.parametrize("client", ["right", LOST_ANSWER, NOT_DONE, TOLD_LATE])
def test_a_right_client_copies_each_record_once_whatever_becomes_of_an_answer(
    tmp_path: Path, client: str, more: tuple[Move, ...]
) -> None:
    found, history = carried_out(tmp_path, client, *more)
    assert [str(one) for one in found] == []
    assert history.committed == {0: RECORDS}
    assert any(isinstance(one, Sought) for one in history.happened)
    ends = [one for one in history.happened if isinstance(one, TransactionEnd)]
    assert any(one.told is Told.FAILED for one in ends) == (client in (LOST_ANSWER, NOT_DONE))
    assert any(one.told is Told.UNANSWERED for one in ends) == (more == LEFT_OPEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "more", "expected"),
    [
        ("commits offsets outside of the transaction", LEFT_OPEN, {Kind.NOT_COPIED, Kind.SKIPPED}),
        ("commits offsets outside of the transaction", GIVEN_UP_AT_LAST, {Kind.NOT_COPIED, Kind.SKIPPED}),
        # Its records go with the next transaction: what was given up is committed, and the last ones are nowhere.
        (
            "sends offsets before the records are in",
            (),
            {Kind.NOT_COPIED, Kind.LOST, Kind.ABORTED_VISIBLE, Kind.COPIED_TWICE},
        ),
        ("copies again what was given up", (), {Kind.COPIED_TWICE, Kind.ABORTED_VISIBLE, Kind.DUPLICATED}),
        ("does not seek back", (), {Kind.NOT_COPIED, Kind.SKIPPED}),
    ],
)
def test_each_mutant_is_accused_of_what_it_does(
    tmp_path: Path, mutant: str, more: tuple[Move, ...], expected: set[Kind]
) -> None:
    found, _ = carried_out(tmp_path, mutant, *more)
    assert {one.kind for one in found} == expected

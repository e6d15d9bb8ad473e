"""What a program that is somebody's own shows, with histories in which each kind is planted; no process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import pytest

from harness.explore.generators.shrink import smaller
from harness.explore.oracles.oracles import Kind
from harness.explore.oracles.own_program import ProgramOracle, changed_program, dying_programs, own_program, why_unfit
from harness.explore.search.search import Purpose, Search
from harness.explore.trial.history import OTHERS, Connected, Ended, History, Logged, Stuck
from harness.explore.trial.model import Disturbance, Do, How, Move, Role, Trial, from_document, to_document
from harness.explore.trial.requests_sent import Use
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

APIS = ("Produce", "InitProducerId", "Metadata")
PROGRAM = own_program(APIS)
ONCE = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6)  # NOT_LEADER_OR_FOLLOWER, which passes
FATAL = replace(ONCE, code=29)  # TOPIC_AUTHORIZATION_FAILED
SILENT = Disturbance(api="Produce", how=How.SILENCE_AFTER)
REQUEST = KafkaExchange(
    mono_ns=1, ended_ns=2, proxy="client-1", connection=1, api="Produce", api_version=9, correlation_id=1,
    request_bytes=9, outcome=ExchangeOutcome.DELIVERED,
)  # fmt: skip


def history(*values: bytes, code: int = 0, signal: int = 0, is_stuck: bool = False, aborted: int = 0) -> History:
    log = tuple(
        Logged(partition=0, offset=offset, value=value, is_aborted=offset >= len(values) - aborted)
        for offset, value in enumerate(values)
    )
    end = (
        Stuck(at_us=9, what="programs that have not ended", missing=1, expected=1, waited_ms=150_000)
        if is_stuck
        else Ended(at_us=9, code=code, signal=signal, last_words="it said so")
    )
    return History(happened=(Connected(at_us=1), end), log=log, exchanges=(REQUEST,))


QUIET = history(b"a", b"b", b"b", OTHERS + b"1")
ORACLE = ProgramOracle.of([QUIET, QUIET])


@pytest.mark.parametrize(
    ("disturbance", "seen", "kinds"),
    [
        (ONCE, QUIET, []),
        (ONCE, history(b"b", b"a", b"b", OTHERS + b"1", OTHERS + b"2"), []),  # its order is not known
        (ONCE, history(b"a", b"b"), [Kind.LOST]),
        (ONCE, history(b"a", b"b", b"b", aborted=1), [Kind.LOST]),  # what is aborted is not there
        (ONCE, history(b"a", b"b", b"b", b"b"), [Kind.DUPLICATED]),
        (ONCE, history(b"a", b"b", b"b", b"new"), []),  # a dead letter
        (ONCE, history(b"a", b"a"), [Kind.LOST, Kind.DUPLICATED]),
        (ONCE, history(code=1), [Kind.GAVE_UP]),  # and then nothing is asked of its records
        (ONCE, history(signal=11), [Kind.CRASHED]),
        (ONCE, history(is_stuck=True), [Kind.STUCK]),
        (FATAL, history(code=1), []),  # a program may end for that
        (FATAL, history(b"a"), []),  # or go on without the record
        (FATAL, history(signal=6), [Kind.CRASHED]),
        (FATAL, history(is_stuck=True), [Kind.STUCK]),
        (SILENT, history(code=1), []),  # its patience may be shorter than that of its client
        (SILENT, history(b"a", b"b", b"b", b"b"), []),
        (None, history(code=1), [Kind.GAVE_UP]),
    ],
)
def test_what_a_program_shows_under_what_passes_and_under_what_does_not(
    disturbance: Disturbance | None, seen: History, kinds: Sequence[Kind]
) -> None:
    assert [one.kind for one in ORACLE(Trial(program=PROGRAM, disturbance=disturbance), seen)] == list(kinds)


def test_without_an_idempotent_producer_records_accuse_nobody() -> None:
    trial = Trial(program=own_program({"Produce"}), disturbance=ONCE)
    assert ORACLE(trial, history(b"a", b"b", b"b", b"b")) == ORACLE(trial, history(b"a")) == []
    assert [one.kind for one in ORACLE(Trial(program=own_program({"Produce"})), history(b"a"))] == [Kind.LOST]


def test_records_that_differ_from_run_to_run_say_nothing() -> None:
    oracle = ProgramOracle.of([QUIET, history(b"a", b"c", b"b")])
    assert not oracle.is_repeatable
    assert oracle(Trial(program=PROGRAM, disturbance=ONCE), history(b"a")) == []
    assert ORACLE.is_repeatable


def test_a_run_that_proves_nothing_shows_nothing() -> None:
    assert ORACLE(Trial(program=PROGRAM, disturbance=ONCE), replace(history(code=1), problem="ours")) == []


def test_a_program_that_fails_by_itself_is_no_measure() -> None:
    assert why_unfit(QUIET) == ""
    assert "exit code 3: it said so without any fault" in why_unfit(history(code=3))
    assert "signal 9" in why_unfit(history(signal=9))
    assert "has not ended after 150 s" in why_unfit(history(is_stuck=True))
    assert "KAFKA_CLIENT_ID" in why_unfit(replace(QUIET, exchanges=()))


def test_what_the_quiet_runs_sent_says_what_the_program_is() -> None:
    assert own_program({"Fetch"}).properties == {}
    shown = own_program({"JoinGroup", "EndTxn", "InitProducerId"}).properties
    assert set(shown) == {"group.id", "transactional.id", "enable.idempotence"}
    assert own_program({"EndTxn"}).is_transactional
    assert not PROGRAM.is_transactional


def test_a_changed_program_still_runs_once_and_its_control_does_without_the_cluster() -> None:
    grouped = own_program({"JoinGroup"})
    seen: set[Do] = set()
    for seed in range(200):
        program = changed_program(grouped, 3_000, seed)
        assert program == changed_program(grouped, 3_000, seed)
        assert [move.do for move in program.moves].count(Do.RUN) == 1
        assert sum(move.count for move in program.moves if move.do is Do.WAIT) <= 3_000
        assert program.changes
        assert Trial(program=program).control.is_quiet
        assert from_document(to_document(Trial(program=program))) == Trial(program=program)
        seen |= {move.do for move in program.changes}
    away = {Do.CUT, Do.FREEZE, Do.LOSE, Do.CUT_ALL, Do.FREEZE_ALL}
    assert seen == {Do.MOVE_LEADER, Do.ADD_PARTITIONS, Do.MOVE_COORDINATOR, *away}
    alone = [move.do for seed in range(200) for move in changed_program(PROGRAM, 9, seed).moves]
    assert Do.MOVE_COORDINATOR not in alone


def test_a_program_whose_brokers_die_runs_once_and_meets_each_such_event() -> None:
    seen: set[tuple[Do, bool]] = set()
    names: set[str] = set()
    for program in islice(dying_programs(own_program({"JoinGroup"}), 3_000, 5), 40):
        assert [move.do for move in program.moves].count(Do.RUN) == 1
        assert sum(move.count for move in program.moves if move.do is Do.WAIT) <= 3_000
        assert {move.do for move in program.moves if not move.do.is_of_cluster} <= {Do.RUN, Do.WAIT}
        assert from_document(to_document(Trial(program=program))) == Trial(program=program)
        assert Trial(program=program).control.program.has_own_brokers
        seen |= {(move.do, move.partition < 0) for move in program.changes}
        names.add(program.name)
    at_one = {Do.DIE, Do.HANG, Do.ISOLATE, Do.LAG}
    assert seen == {
        (Do.DIE_ALL, True),
        *((do, is_of_coordinator) for do in at_one for is_of_coordinator in (False, True)),
    }
    assert len(names) == 40
    alone = [
        move.partition
        for program in islice(dying_programs(PROGRAM, 9, 5), 40)
        for move in program.changes
        if move.do is not Do.DIE_ALL
    ]
    assert -1 not in alone


def test_smaller_trials_keep_the_program_and_its_topic() -> None:
    program = replace(changed_program(PROGRAM, 3_000, 4), prefilled=500)
    candidates = list(smaller(Trial(program=program, disturbance=replace(ONCE, skip=4, count=0))))
    assert len(candidates) > 5
    for one in candidates:
        assert Move(do=Do.RUN) in one.program.moves
        assert (one.program.role, one.program.partitions, one.program.prefilled) == (Role.PROGRAM, 3, 500)


def test_a_search_with_a_program_tries_each_single_disturbance_and_a_changing_cluster() -> None:
    search = Search(
        [PROGRAM],
        abilities=(),
        seed=1,
        judge=ORACLE,
        change=lambda programs, seed: changed_program(programs[0], 99, seed),
    )
    uses = {"Produce": Use(requests=8, version=9), "Metadata": Use(requests=2, version=12)}
    tried: list[Trial] = []
    for _ in range(400):
        task = search.next_task()
        assert task is not None
        seen = history(code=1) if any(one.code == ONCE.code for one in task.trial.disturbances) else QUIET
        met = (1,) * len(task.trial.disturbances)
        search.learn(task, replace(seen, disturbed=len(met[:1]), disturbed_besides=met[1:]), uses)
        if task.purpose is Purpose.NEW:
            tried.append(task.trial)
    assert {trial.disturbance.api for trial in tried if trial.disturbance} == {"Produce", "Metadata"}
    assert any(trial.program.changes for trial in tried)
    assert not any(trial.is_quiet for trial in tried)
    assert [str(one.signature) for one in search.confirmed] == ["gave up on what passes by itself (program, Produce)"]

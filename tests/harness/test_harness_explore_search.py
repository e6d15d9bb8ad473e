"""`harness.explore.search` and `generators`: a search against clients that are simulated."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.lawful_answers import ANSWERS, answers_of
from harness.explore.execution.toxics import toxic_of
from harness.explore.findings.causes import by_cause
from harness.explore.generators.broker_deaths import broker_deaths
from harness.explore.generators.cluster_moves import changed
from harness.explore.generators.extremes import extremes
from harness.explore.generators.programs import drawn, plain
from harness.explore.generators.shrink import is_lawful, measure, size, smaller
from harness.explore.generators.systematic import systematic
from harness.explore.generators.usage import usage
from harness.explore.oracles.oracles import Kind, Suspicion, suspicions
from harness.explore.search.pace import LONG_AT_ONCE, OVERTAKEN
from harness.explore.search.search import (
    FINAL_REPETITIONS,
    IN_LOG,
    WHERES_MAX,
    Finding,
    Purpose,
    Search,
    Signature,
    Stage,
    Task,
    kind_of_single,
    refused_by,
)
from harness.explore.trial.history import REFUSES, Fate, Happening, History, Logged, Outcome, Sent, Stuck
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial, from_document, to_document
from harness.explore.trial.requests_sent import Use

ABILITIES = ("produce", "partition", "assign", "subscribe", "seek", "pause", "commit", "transactions")
USES = {
    api: Use(requests=requests, version=12)
    for api, requests in {"ApiVersions": 3, "Metadata": 4, "InitProducerId": 1, "Produce": 20}.items()
}
PRODUCER = plain(["produce"])[0]


def history(
    trial: Trial, *, is_lost: bool = False, disturbed: int = 1, problem: str = "", refused: str = ""
) -> History:
    """Of a producer that sends one record, which is in the log or not."""
    happened: tuple[Happening, ...] = (
        Sent(at_us=1, seq=0, value=b"0"),
        Outcome(at_us=2, seq=0, fate=Fate.ACKNOWLEDGED, partition=0, offset=0),
    )
    log = () if is_lost else (Logged(partition=0, offset=0, value=b"0"),)
    return History(
        happened=happened,
        log=log,
        disturbed=disturbed if trial.disturbance else 0,
        disturbed_besides=(disturbed,) * len(trial.besides),
        problem=problem,
        refused=refused,
    )


def run(search: Search, is_lost: Callable[[Trial], bool], *, tasks: int = 2_000) -> Counter[Purpose]:
    """Until the search has nothing left that it must do, or `tasks` are done."""
    done: Counter[Purpose] = Counter()
    for _ in range(tasks):
        task = search.next_task()
        if task is None:
            break
        done[task.purpose] += 1
        search.learn(task, history(task.trial, is_lost=is_lost(task.trial)), USES)
    return done


def spent_by(
    search: Search, uses: Mapping[str, Use], is_lost: Callable[[Trial], bool] = lambda trial: False, *, tasks: int
) -> Counter[Purpose]:
    """What so many tasks were for, of a client that sends `uses` in each of them."""
    spent: Counter[Purpose] = Counter()
    while spent.total() < tasks:
        task = search.next_task()
        assert task is not None
        spent[task.purpose] += 1
        search.learn(task, history(task.trial, is_lost=is_lost(task.trial)), uses)
    return spent


def planned(search: Search, uses: Mapping[str, Use]) -> None:
    """Its quiet runs are over, and what is disturbed is planned."""
    while search._controls_left.total():
        task = search.next_task()
        assert task is not None
        search.learn(task, history(task.trial), uses)
    search._plan()


def new_search(**others: object) -> Search:
    return Search([PRODUCER], abilities=["produce"], seed=7, **others)  # type: ignore[arg-type]


def only(search: Search) -> Finding:
    (finding,) = search.findings.values()
    return finding


# --- the systematic pass ----------------------------------------------------------------------------------------------


def test_the_systematic_pass_tries_each_code_of_each_api_once_at_the_least() -> None:
    tried = {
        (trial.disturbance.api, trial.disturbance.code, trial.disturbance.how is How.ERROR_AFTER)
        for trial in systematic(PRODUCER, USES, 1)
        if trial.disturbance and trial.disturbance.how.is_error
    }
    expected = {
        (one.api, one.code, one.is_after_work)
        for one in ANSWERS
        if one.api in USES and one.since <= 12 and not one.needs_transaction
    }
    assert tried == expected


def test_a_client_is_not_answered_what_its_version_of_an_api_does_not_have() -> None:
    def codes(version: int) -> set[str]:
        return {answer.name for answer in answers_of("Fetch", version)}

    assert "INCONSISTENT_TOPIC_ID" not in codes(11)
    assert codes(13) - codes(12) == {"UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID"}
    old = {"Fetch": Use(requests=9, version=4)}
    tried = [trial.disturbance for trial in systematic(PRODUCER, old, 1)]
    assert {70, 71, 74, 100, 103, 106}.isdisjoint({one.code for one in tried if one})


def test_the_systematic_pass_repeats_itself_for_a_seed_and_tries_nothing_twice() -> None:
    first, again = systematic(PRODUCER, USES, 3), systematic(PRODUCER, USES, 3)
    assert first == again
    assert len({str(trial) for trial in first}) == len(first)
    assert first != systematic(PRODUCER, USES, 4)


def test_every_api_has_its_turn_in_the_first_round() -> None:
    first = [trial.disturbance.api for trial in systematic(PRODUCER, USES, 1)[: len(USES)] if trial.disturbance]
    assert sorted(first) == sorted(USES)


def test_a_leader_that_answers_alone_misses_no_replica() -> None:
    alone = replace(PRODUCER, properties={**PRODUCER.properties, "acks": "1"})
    uses = {"Produce": Use(requests=9, version=9)}
    errors = [trial.disturbance for trial in systematic(alone, uses, 1) if trial.disturbance]
    assert {7, 19, 20}.isdisjoint({one.code for one in errors})
    assert 19 in {trial.disturbance.code for trial in systematic(PRODUCER, uses, 1) if trial.disturbance}


def test_what_one_producer_has_had_comes_soon_for_one_whose_idempotence_differs_and_late_for_a_like_one() -> None:
    """Once a topic that was missing for a moment was only tried without idempotence, where nothing can go wrong."""
    programs = plain(["produce"])
    search = Search(programs, abilities=["produce"], seed=1)
    run(search, lambda _: False, tasks=2 * len(programs) + 1)
    missing = [
        (place, trial.program.properties["enable.idempotence"])
        for place, trial in enumerate(search._planned)
        if trial.disturbance and (trial.disturbance.api, trial.disturbance.code) == ("Metadata", 3)
        if trial.disturbance.count == 1 and trial.disturbance.skip
    ]
    in_order = [idempotence for _, idempotence in sorted(missing)]
    assert sorted(in_order[:2]) == ["false", "true"]
    assert in_order[2:] == ["true"]  # the third program, which is idempotent like the first one
    assert missing[2][0] > 2 * missing[1][0]


def test_what_is_disturbed_once_meets_a_producer_before_a_program_of_mass_has_it() -> None:
    """The first of both to have an error had it for all of their kind. In large batches, a topic that is missing for a
    moment seldom shows (librdkafka 1.8.2)."""
    search = Search(plain(["produce"]), abilities=["produce"], seed=1)
    planned(search, USES)
    order = [(trial.program.name, trial.disturbance) for trial in search._planned]
    hidden = Disturbance(api="Metadata", how=How.ERROR_BEFORE, code=3, skip=2)
    first_of_mass = next(place for place, (name, _) in enumerate(order) if name == "producer, large batches")
    assert order.index(("producer, idempotent", hidden)) < first_of_mass


@pytest.mark.parametrize("seed", range(4))
def test_what_disturbs_a_member_meets_a_group_of_several_first(seed: int) -> None:
    """kafkajs 2.2.3 does not come back after one ILLEGAL_GENERATION to a Heartbeat, and only in a group of two."""
    search = Search(plain(ABILITIES), abilities=ABILITIES, seed=seed)
    uses = {api: Use(requests=6, version=4) for api in ("JoinGroup", "SyncGroup", "Heartbeat", "Fetch")}
    planned(search, uses)
    met: dict[Disturbance, int] = {}
    for trial in search._planned:
        assert trial.disturbance is not None
        if trial.program.role is Role.CONSUMER and trial.disturbance.api != "Fetch":
            met.setdefault(trial.disturbance, trial.program.members)
    assert set(met.values()) == {2}


def test_a_copier_is_disturbed_late_by_what_members_of_groups_and_transactions_had() -> None:
    can = ["produce", "subscribe", "seek", "commit", "transactions", "send-offsets"]
    search = Search(plain(can, ["isolation.level"]), abilities=can, seed=1)
    asked = ("Fetch", "JoinGroup", "OffsetFetch", "AddPartitionsToTxn", "EndTxn", *USES)
    for _ in range(2 * len(search._programs)):
        task = search.next_task()
        assert task is not None
        also = ("TxnOffsetCommit",) if task.trial.program.role is Role.COPIER else ()
        uses = {api: Use(requests=9, version=4) for api in (*asked, *also)}
        search.learn(task, history(task.trial), uses)
    search._plan()
    kinds = [kind_of_single(trial) for trial in search._planned]
    distinct = len(set(kinds))
    assert len(set(kinds[:distinct])) == distinct, "nothing comes twice before all has come once"
    own = [trial for trial in itertools.islice(search._planned, distinct) if trial.program.role is Role.COPIER]
    assert {trial.disturbance.api for trial in own if trial.disturbance} >= {"TxnOffsetCommit"}
    assert len(own) < len(search._planned) / 10


def test_a_producer_asks_for_metadata_while_it_has_something_to_lose() -> None:
    for program in plain(["produce", "transactions"]):
        lasts_ms = sum(move.count for move in program.moves if move.do is Do.WAIT)
        assert int(program.properties["metadata.max.age.ms"]) <= lasts_ms


def test_a_disturbance_that_came_too_late_comes_again_after_fewer_requests() -> None:
    """The quiet runs were on a busy host and asked often for Metadata, the later ones were quick and did not. Half of
    the disturbances of Metadata met nothing once, and the error was then left out for all producers."""
    search = new_search()
    run(search, lambda _: False, tasks=3)

    def unmet(disturbance: Disturbance) -> None:
        trial = Trial(program=PRODUCER, disturbance=disturbance)
        search.learn(search._task(trial, Purpose.NEW, None), history(trial, disturbed=0), USES)

    late = Disturbance(api="Metadata", how=How.LATE, late_ms=71, skip=6)
    for skip in (6, 3):
        unmet(replace(late, skip=skip))
        assert search._planned.popleft().disturbance == replace(late, skip=skip // 2)
    unmet(replace(late, skip=1))
    assert all(trial.disturbance != replace(late, skip=0) for trial in search._planned)

    missing = Disturbance(api="Metadata", how=How.ERROR_BEFORE, code=3, skip=6)  # only where a request names a topic
    left = len(search._planned)
    unmet(missing)
    assert search._planned.popleft().disturbance == replace(missing, skip=1)
    assert len(search._planned) == left
    unmet(replace(missing, skip=1))
    assert len(search._planned) < left


def test_an_error_that_no_request_of_the_client_can_get_is_not_tried_again() -> None:
    search = new_search()
    for _ in range(2):
        task = search.next_task()
        assert task is not None
        search.learn(task, history(task.trial), {"Fetch": Use(requests=9, version=12)})
    assert search.next_task() is not None
    fenced = Disturbance(api="Fetch", how=How.ERROR_BEFORE, code=74)

    def left(code: int) -> int:
        return sum(trial.disturbance is not None and trial.disturbance.code == code for trial in search._planned)

    assert left(74) > 1
    trial = Trial(program=PRODUCER, disturbance=fenced)
    search.learn(search._task(trial, Purpose.NEW, None), History(happened=(), log=()), {})
    assert left(74) == 0
    assert left(75) > 1
    search.learn(
        search._task(replace(trial, disturbance=replace(fenced, code=6)), Purpose.NEW, None),
        History(happened=(), log=()),
        {},
    )
    assert left(6) > 1  # any request can get it: this one came too late


def test_no_code_is_answered_after_the_work_that_says_that_nothing_was_done() -> None:
    names = {one.name for one in ANSWERS if one.is_after_work and one.api == "Produce"}
    assert names == {
        "REQUEST_TIMED_OUT",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_OR_FOLLOWER",
        "KAFKA_STORAGE_ERROR",
    }
    assert answers_of("ApiVersions", 4) == ()


# --- programs and shrinking -------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_drawn_programs_are_lawful_and_smaller_ones_too(seed: int) -> None:
    program = drawn((*ABILITIES, "send-offsets"), seed)
    assert program is not None
    assert is_lawful(program, program.moves)
    trial = Trial(program=program, disturbance=Disturbance(api="Fetch", how=How.LATE, count=0, skip=4))
    for candidate in smaller(trial):
        assert candidate != trial
        assert size(candidate) <= size(trial)
        assert is_lawful(candidate.program, candidate.program.moves)


@given(st.integers(0, 10_000))
def test_a_copier_never_commits_copies_without_their_offsets_and_copies_in_transactions_only(seed: int) -> None:
    program = drawn(["send-offsets"], seed)
    assert program is not None
    assert program.role is Role.COPIER
    assert is_lawful(program, program.moves)
    assert not any(move.do in (Do.READ, Do.POLL, Do.COMMIT, Do.SEND) for move in program.moves)
    open_by: dict[int, list[Do]] = {}
    for move in program.moves:
        if move.do is Do.BEGIN:
            open_by[move.member] = []
        elif move.do in (Do.COPY, Do.SEND_OFFSETS):
            open_by[move.member].append(move.do)
        elif move.do is Do.COMMIT_TRANSACTION:
            assert open_by.pop(move.member)[-1:] in ([], [Do.SEND_OFFSETS])


COPIES = (Move(do=Do.BEGIN), Move(do=Do.COPY, count=2), Move(do=Do.SEND_OFFSETS), Move(do=Do.COMMIT_TRANSACTION))


@pytest.mark.parametrize(
    "moves",
    [
        COPIES,  # Nobody has subscribed.
        (Move(do=Do.SUBSCRIBE), *COPIES[:2], COPIES[3]),  # The offsets are missing.
        (Move(do=Do.SUBSCRIBE), *COPIES[:3], COPIES[1], COPIES[3]),  # Those of the last copies are missing.
        (Move(do=Do.SUBSCRIBE), *COPIES[1:]),
        (Move(do=Do.SUBSCRIBE), *COPIES[:3], Move(do=Do.CLOSE)),
        (Move(do=Do.SUBSCRIBE), COPIES[0], Move(do=Do.COPY, member=1), *COPIES[1:]),
        (Move(do=Do.SUBSCRIBE), Move(do=Do.RESTART), *COPIES),
    ],
)
def test_what_no_application_may_do_is_no_smaller_copier(moves: tuple[Move, ...]) -> None:
    program = Program(name="copies", role=Role.COPIER, moves=(Move(do=Do.SUBSCRIBE), *COPIES))
    assert is_lawful(program, program.moves)
    assert is_lawful(program, (Move(do=Do.SUBSCRIBE), *COPIES[:3], Move(do=Do.RESTART)))
    assert not is_lawful(program, moves)


def test_only_a_client_that_can_do_all_of_it_and_can_be_told_what_to_read_copies() -> None:
    def copiers(can: Sequence[str], takes: Sequence[str]) -> list[Program]:
        return [program for program in plain(can, takes) if program.role is Role.COPIER]

    can = (*ABILITIES, "send-offsets")
    made = copiers(can, ["isolation.level"])
    assert len(made) == 3
    assert all(is_lawful(program, program.moves) for program in made)
    assert copiers(can, ["*"]) == made
    assert copiers(can, []) == copiers(ABILITIES, ["*"]) == []
    assert copiers([word for word in can if word != "seek"], ["*"]) == []


def test_each_request_of_a_transaction_is_disturbed_before_and_after_its_work() -> None:
    (copier, *_) = (one for one in plain((*ABILITIES, "send-offsets"), ["*"]) if one.role is Role.COPIER)
    apis = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
    made = systematic(copier, {api: Use(requests=6, version=3) for api in apis}, 1)
    for api in apis:
        hows = {one.disturbance.how for one in made[:100] if one.disturbance and one.disturbance.api == api}
        errors, silences = {How.ERROR_BEFORE, How.ERROR_AFTER}, {How.SILENCE_BEFORE, How.SILENCE_AFTER}
        assert hows >= errors | silences | {How.CLOSED_BEFORE, How.CLOSED_AFTER, How.LATE}, api


@pytest.mark.parametrize(("transaction_version", "end_txn", "is_late"), [(1, 3, True), (2, 3, False), (2, 5, True)])
def test_a_commit_comes_late_where_its_transaction_must_be_told_from_the_next(
    transaction_version: int, end_txn: int, is_late: bool
) -> None:
    """On a cluster that has version 2, a client of version 1 is not accused of what is known of version 1."""
    (program,) = (one for one in plain(ABILITIES) if one.name == "transactions")
    uses = {api: Use(requests=6, version=end_txn) for api in ("EndTxn", "Produce")}
    made = systematic(program, uses, 1, transaction_version=transaction_version)
    late = [one for one in made if one.disturbance and one.disturbance.how is How.HELD]
    assert made[: len(late)] == late
    assert {one.disturbance.api for one in late if one.disturbance} == ({"EndTxn"} if is_late else set())
    for one in late:
        assert one.disturbance is not None
        held_ms = one.disturbance.late_ms
        assert str(one.disturbance).endswith(f"late request by {held_ms} ms")
        which = {"api": "EndTxn", "skip": one.disturbance.skip, "count": 1}
        assert toxic_of(one.disturbance) == ("kafka_hold_request", {**which, "delay_ms": held_ms})
        assert is_lawful(one.program, one.program.moves)
        assert len(one.program.moves) == len(program.moves) + 8


def test_a_copier_has_the_late_commit_although_a_producer_has_had_it() -> None:
    """A copier's next transaction begins later than a producer's, so another moment tears it."""
    programs = plain((*ABILITIES, "send-offsets"), ["*"])
    held = Disturbance(api="EndTxn", how=How.HELD, late_ms=700)
    kinds = {kind_of_single(Trial(program=one, disturbance=held)) for one in programs if one.is_transactional}
    assert len(kinds) == 2


@given(st.integers(0, 10_000))
def test_a_trial_is_read_back_from_its_file(seed: int) -> None:
    program = drawn(ABILITIES, seed)
    assert program is not None
    one_by_one = replace(program, is_one_by_one=seed % 2 == 0)
    disturbed = Trial(program=program, disturbance=Disturbance(api="Fetch", how=How.LATE))
    for trial in (Trial(program=program), Trial(program=one_by_one), disturbed):
        assert from_document(json.loads(json.dumps(to_document(trial)))) == trial


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 9}, "format: 9, this version reads 1"),
        ({"program": {}}, "moves is missing"),
        ({"disturbance": {"api": "Fetch", "how": "magic"}}, "'magic' is not a valid How"),
        ({"disturbance": {"api": "Fetch", "how": "late answer", "colour": 1}}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_file_that_is_no_trial_is_refused_with_the_reason(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_document({**to_document(Trial(program=PRODUCER)), **change})


@pytest.mark.parametrize("is_needed", [True, False])
def test_a_smaller_trial_polls_as_usual_unless_the_finding_needs_one_record_each(is_needed: bool) -> None:
    moves = (Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=40), Move(do=Do.COMMIT))
    trial = Trial(program=Program(name="p", role=Role.CONSUMER, moves=moves, prefilled=100, is_one_by_one=True))
    while True:
        found = (one for one in smaller(trial) if one.program.is_one_by_one >= is_needed)
        if (candidate := next(found, None)) is None:
            break
        assert measure(candidate) < measure(trial)
        trial = candidate
    assert trial.program.is_one_by_one == is_needed
    assert len(trial.program.moves) == 1


@given(st.integers(0, 300))
def test_shrinking_ends_at_the_moves_that_are_needed(seed: int) -> None:
    """A failure that needs two certain moves, among others: greedy steps end at these two."""
    rng = random.Random(seed)
    program = Program(name="p", role=Role.PRODUCER, moves=tuple(Move(do=Do.WAIT, count=1) for _ in range(12)))
    places = sorted(rng.sample(range(12), 2))
    moves = tuple(Move(do=Do.FLUSH) if at in places else move for at, move in enumerate(program.moves))

    def is_failing(candidate: Trial) -> bool:
        return sum(move.do is Do.FLUSH for move in candidate.program.moves) == 2

    trial = Trial(program=replace(program, moves=moves))
    while (found := next(filter(is_failing, smaller(trial)), None)) is not None:
        trial = found
    assert trial.program.moves == (Move(do=Do.FLUSH), Move(do=Do.FLUSH))


# --- the search -------------------------------------------------------------------------------------------------------


def test_a_right_client_gives_no_finding_and_the_whole_pass_is_tried() -> None:
    search = new_search()
    done = run(search, lambda trial: False, tasks=600)
    assert search.findings == {}
    assert done[Purpose.CONTROL] == 2
    assert search.reach.left == 0
    assert set(search.reach.by_api) == set(USES)


def test_no_request_is_disturbed_before_each_program_is_known_and_no_slow_quiet_run_is_waited_for() -> None:
    programs = plain(["produce"])
    search = Search(programs, abilities=["produce"], seed=7)
    controls = [search.next_task() for _ in range(2 * len(programs))]
    assert all(task is not None and task.purpose is Purpose.CONTROL for task in controls)
    assert search.next_task() is None
    slowest = controls[len(programs) - 1]
    for task in controls[: len(programs) - 1]:
        assert task is not None
        search.learn(task, history(task.trial), USES)
        beside = [search.next_task() for _ in range(8)]
        assert all(new is not None and new.purpose is Purpose.NEW for new in beside)
    assert search.reach.left == 0
    assert slowest is not None
    search.learn(slowest, history(slowest.trial), USES)
    later = [search.next_task() for _ in range(8)]
    assert any(new is not None and new.trial.disturbance is not None for new in later)
    assert search.reach.left > 0


def test_a_quiet_run_that_many_trials_have_overtaken_is_planned_when_it_ends() -> None:
    """Once a transaction of a client that hangs took 220 of 600 seconds, and no request was disturbed before."""
    programs = plain(["produce", "transactions"])
    search = Search(programs, abilities=["produce", "transactions"], seed=7)
    slowest, tried = [], []
    for _ in range(200):
        task = search.next_task()
        assert task is not None
        tried.append(task)
        if task.purpose is Purpose.CONTROL and task.trial.program.is_transactional:
            slowest.append(task)
        else:
            search.learn(task, history(task.trial), USES)
    assert slowest
    disturbed = [place for place, task in enumerate(tried) if task.trial.disturbance is not None]
    assert disturbed[0] < OVERTAKEN + 10
    single = [task for task in tried if task.trial.disturbance is not None and task.trial.program in programs]
    assert not any(task.trial.program.is_transactional for task in single)
    search.learn(slowest[0], history(slowest[0].trial), USES)
    later = [search.next_task() for _ in range(60)]
    there = {task.trial.program.is_transactional for task in later if task is not None and task.trial.disturbance}
    assert there == {True, False}


def test_trials_that_take_long_leave_the_other_places_to_what_is_quick() -> None:
    """Six repetitions of a client that hung for 200 s once had all places, so that nothing new began."""
    programs = plain(["produce", "transactions"])
    search = Search(programs, abilities=["produce", "transactions"], seed=7)
    under_way: deque[Task] = deque()
    quick_ones = 0
    for _ in range(400):
        while len(under_way) < 6 and (task := search.next_task()) is not None:
            under_way.append(task)
        quick = [task for task in under_way if not task.trial.program.is_transactional]
        quick_ones += len(quick) >= 6 - LONG_AT_ONCE
        ended = quick[0] if quick and search.reach.trials % 20 else under_way[0]
        under_way.remove(ended)
        is_long = ended.trial.program.is_transactional
        found = history(ended.trial, is_lost=is_long)
        search.learn(ended, found, USES, duration_s=200.0 if is_long else 3.0)
    assert quick_ones > 300
    assert search.confirmed


@pytest.mark.thorough
def test_a_bug_of_one_code_is_found_confirmed_and_made_small() -> None:
    def is_lost(trial: Trial) -> bool:
        there = trial.disturbance
        return there is not None and there.api == "Produce" and there.code == 6 and there.how is How.ERROR_BEFORE

    search = new_search()
    run(search, is_lost, tasks=800)
    finding = only(search)
    assert finding.stage is Stage.CONFIRMED
    assert (finding.signature.kind, finding.signature.api) == (Kind.LOST, "Produce")
    assert finding.trial.disturbance == Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6, heal_after_ms=4_000)
    assert len(finding.trial.program.moves) == 1
    assert (finding.shown, finding.tried) == (3, 3)
    assert finding.seen_with  # the same code on the first request, until healed, some times


@pytest.mark.thorough
def test_a_trial_that_was_made_too_small_is_given_up_for_the_one_that_was_confirmed() -> None:
    """It shows once when it is made smaller, and then no more."""
    seen: Counter[str] = Counter()

    def is_lost(trial: Trial) -> bool:
        there = trial.disturbance
        is_met = there is not None and there.api == "Produce" and there.code == 6 and there.how is How.ERROR_BEFORE
        is_met = is_met and trial.program.name == PRODUCER.name  # a drawn program may be small from the beginning
        is_small = len(trial.program.moves) < len(PRODUCER.moves)
        seen[str(to_document(trial))] += 1
        return is_met and (not is_small or seen[str(to_document(trial))] == 1)

    search = new_search(at_once=1)
    run(search, is_lost, tasks=800)
    finding = only(search)
    assert finding.stage is Stage.CONFIRMED
    assert finding.trial is finding.first
    assert (finding.shown, finding.tried) == (3, 3)


def test_a_smaller_trial_that_the_budget_did_not_let_repeat_is_not_told_as_confirmed() -> None:
    search = new_search()
    run(search, lambda trial: trial.disturbance is not None and trial.disturbance.api == "Produce", tasks=40)
    finding = search.confirmed[0]
    assert finding.trial is not finding.first
    assert finding.shown < 2  # of the smaller one
    search.conclude()
    assert finding.trial is finding.first
    assert (finding.shown, finding.tried) == (3, 3)


def test_a_bug_without_a_disturbance_is_found_by_the_controls_and_told_once() -> None:
    search = new_search()
    run(search, lambda trial: True, tasks=300)
    assert [finding.signature.api for finding in search.confirmed] == [""]


def test_a_bug_of_another_program_does_not_hide_behind_one_without_a_disturbance() -> None:
    def is_lost(trial: Trial) -> bool:
        there = trial.disturbance
        return trial.program.name == two[0].name or (there is not None and there.api == "Produce" and there.code == 6)

    two = plain(["produce"])[:2]
    search = Search(two, abilities=["produce"], seed=7)
    run(search, is_lost, tasks=700)
    assert {finding.signature.api for finding in search.confirmed} >= {"", "Produce"}


def test_what_does_not_show_again_stays_a_suspicion() -> None:
    shows = iter([False, False, True])  # the two controls, and the first new trial
    search = new_search(at_once=1)
    run(search, lambda trial: next(shows, False), tasks=300)
    assert only(search).stage is Stage.NOT_REPEATED
    assert search.confirmed == []


def test_what_did_not_show_again_is_tried_with_another_trial_that_shows_it() -> None:
    """A bug that shows only after an answer of one kind. The trial before that had the bad luck of a busy host."""
    shows = iter([False, False, True])

    def is_lost(trial: Trial) -> bool:
        is_bad_luck = next(shows, False)
        return is_bad_luck or (trial.disturbance is not None and trial.disturbance.how is How.CLOSED_AFTER)

    search = new_search(at_once=1)
    run(search, is_lost, tasks=500)
    assert [(one.chances, one.rounds) for one in search.confirmed if one.chances > 1] == [(2, 2)]
    assert {one.signature.api for one in search.confirmed} >= {"ApiVersions", "Produce", "Metadata"}


@pytest.mark.thorough
def test_what_shows_in_a_control_accuses_nobody_of_the_disturbance() -> None:
    """A busy host: some damage shows in a third of all trials, disturbed or not. Chance confirms few."""
    accused = 0
    for seed in range(10):
        rng = random.Random(seed)
        search = new_search()
        run(search, lambda trial, rng=rng: rng.random() < 0.3, tasks=400)  # type: ignore[misc]
        accused += sum(finding.signature.api != "" for finding in search.confirmed)
    assert accused <= 1


def test_what_a_control_has_refuted_keeps_the_bug_that_needs_no_disturbance_from_nothing() -> None:
    """There is no time for what can wait. The bug begins when all programs have run quietly."""
    search = new_search(at_once=1)
    planned(search, USES)
    search._waiting_s = 1e9
    run(search, lambda trial: trial.program.name == PRODUCER.name, tasks=60)
    stages = {signature.api: finding.stage for signature, finding in search.findings.items()}
    assert stages.pop("") is Stage.CONFIRMED
    assert set(stages.values()) == {Stage.IN_CONTROL}


def test_a_smallest_trial_is_repeated_although_its_suspicion_could_wait() -> None:
    """Else it would be given up in the end for the large one that was confirmed."""

    def is_lost(trial: Trial) -> bool:
        return trial.disturbance is not None and trial.disturbance.code == 6

    search = new_search(at_once=1)
    while not search.confirmed:
        run(search, is_lost, tasks=1)
    (finding,) = search.confirmed
    finding.chances = 2
    search._waiting_s = 1e9
    run(search, is_lost, tasks=600)
    search.conclude()
    assert finding.is_done
    assert finding.tried >= FINAL_REPETITIONS
    assert len(finding.trial.program.moves) < len(finding.first.program.moves)


def test_one_control_that_shows_it_refutes_a_suspicion_before_the_other_repetitions() -> None:
    search = new_search()
    seen: list[Trial] = []

    def is_lost(trial: Trial) -> bool:
        """In the first disturbed trial, and from then on in quiet ones."""
        if trial.disturbance is not None and not seen:
            seen.append(trial)
            return True
        return bool(seen) and trial.disturbance is None

    tried: Counter[Purpose] = Counter()
    while not any(one.stage is Stage.IN_CONTROL for one in search.findings.values()):
        task = search.next_task()
        assert task is not None
        tried[task.purpose] += 1
        search.learn(task, history(task.trial, is_lost=is_lost(task.trial)), USES)
    assert (tried[Purpose.REPETITION], tried[Purpose.REPETITION_CONTROL]) == (1, 1)


@pytest.mark.thorough
def test_a_client_that_does_one_thing_wrong_under_every_disturbance_leaves_time_for_new_trials() -> None:
    """kafkajs 2.2.3 had 39 suspicions of one kind, and three of ten minutes for new trials."""
    programs = plain(["produce", "transactions"])
    search = Search(programs, abilities=["produce", "transactions"], seed=7)
    asked = ("FindCoordinator", "AddPartitionsToTxn", "EndTxn", *USES)
    uses = {api: Use(requests=9, version=12) for api in asked}
    rng = random.Random(3)
    spent = spent_by(search, uses, lambda trial: trial.disturbance is not None and rng.random() < 0.7, tasks=400)
    assert search.confirmed
    assert spent[Purpose.NEW] > 200


def test_a_client_whose_log_is_wrong_in_many_ways_leaves_time_for_new_trials() -> None:
    """What one defect leaves in a log has many names: kafkajs 2.2.3 copied twice, tore and duplicated without any
    disturbance, and nearly two thirds of ten minutes went to repetitions."""
    can = (*ABILITIES, "send-offsets")
    rng = random.Random(3)
    ways = {
        Kind.NOT_COPIED: 0.3, Kind.TORN: 0.9, Kind.COPIED_TWICE: 0.5, Kind.DUPLICATED: 0.5, Kind.REORDERED: 0.3,
        Kind.WRONG_CONTENT: 0.4,
    }  # fmt: skip

    def judge(trial: Trial, _: History) -> list[Suspicion]:
        shown = [kind for kind, chance in ways.items() if trial.program.is_transactional and rng.random() < chance]
        return [Suspicion(kind=kind, what="", count=1) for kind in shown]

    search = Search(plain(can, ["isolation.level"]), abilities=can, seed=7, judge=judge)
    uses = {api: Use(requests=9, version=12) for api in ("AddPartitionsToTxn", "EndTxn", *USES)}
    spent = spent_by(search, uses, tasks=400)
    assert search.confirmed
    assert spent[Purpose.NEW] > 180


def test_suspicions_that_do_not_show_again_leave_time_for_new_trials() -> None:
    """One trial in three shows something in the log, at another API each time, and hardly ever again."""
    rng = random.Random(5)

    def judge(trial: Trial, _: History) -> list[Suspicion]:
        is_wrong = trial.disturbance is not None and rng.random() < 0.3
        return [Suspicion(kind=rng.choice(sorted(IN_LOG)), what="", count=1)] if is_wrong else []

    search = Search(plain(ABILITIES), abilities=ABILITIES, seed=7, judge=judge)
    apis = ("Fetch", "JoinGroup", "Heartbeat", "OffsetFetch", "SyncGroup", "ListOffsets", "OffsetCommit", "EndTxn")
    uses = {api: Use(requests=9, version=12) for api in (*apis, *USES)}
    spent = spent_by(search, uses, tasks=600)
    assert spent[Purpose.NEW] > 430, spent


def test_what_shows_now_and_then_leaves_time_for_new_trials() -> None:
    """Each of several kinds in every second trial: five rounds of repetitions each would take most of a search."""
    rng = random.Random(5)
    kinds = (Kind.LOST, Kind.SKIPPED, Kind.DELIVERED_AGAIN, Kind.CRASHED, Kind.HUNG, Kind.STUCK, Kind.GAVE_UP)

    def judge(trial: Trial, _: History) -> list[Suspicion]:
        if trial.is_quiet or rng.random() < 0.5:
            return []
        kind = kinds[(len(trial.program.name) + int(trial.disturbance is None)) % len(kinds)]
        return [Suspicion(kind=kind, what="", count=1)]

    search = Search(plain(ABILITIES), abilities=ABILITIES, seed=7, judge=judge)
    uses = {api: Use(requests=9, version=12) for api in ("Fetch", "JoinGroup", "Heartbeat", "OffsetFetch", *USES)}
    spent = spent_by(search, uses, tasks=600)
    assert search.confirmed
    assert spent[Purpose.NEW] > 250, spent


def test_what_does_not_show_in_all_repetitions_is_repeated_as_long_as_it_may_be_one() -> None:
    """Two of three, and then none of six: no finding. The controls are in between."""
    shows = iter([False, False, True, True, False, True, False])
    search = new_search(at_once=1)
    done = run(search, lambda trial: next(shows, False), tasks=200)
    assert only(search).stage is Stage.NOT_REPEATED
    assert (only(search).shown, only(search).tried) == (2, 9)
    assert done[Purpose.REPETITION] == 9


def test_a_bug_that_shows_in_every_second_trial_is_confirmed_while_its_controls_stay_clean() -> None:
    turns = itertools.cycle([True, False])
    search = new_search()
    run(search, lambda trial: trial.disturbance is not None and trial.disturbance.code == 6 and next(turns), tasks=400)
    finding = search.findings[Signature(kind=Kind.LOST, role=Role.PRODUCER, api="Produce")]
    assert finding.stage is Stage.CONFIRMED
    assert finding.rounds > 2
    assert finding.controls_shown == 0


def test_what_one_trial_shows_at_once_is_repeated_and_made_small_once() -> None:
    """A record that is lost, and another one in its place: each run shows both."""
    search = new_search(judge=two_kinds)
    done = run(search, lambda trial: trial.disturbance is not None and trial.disturbance.code == 6, tasks=600)
    lost, other = (
        search.findings[Signature(kind=kind, role=Role.PRODUCER, api="Produce")]
        for kind in (Kind.LOST, Kind.WRONG_CONTENT)
    )
    assert (lost.stage, other.stage) == (Stage.CONFIRMED, Stage.CONFIRMED)
    assert (other.shown, other.tried, other.controls_tried) == (3, 3, 3)
    assert (other.beside, other.shrink_tries) == (lost.signature, 0)
    assert lost.shrink_tries > 0
    assert done[Purpose.REPETITION_CONTROL] == 3
    assert len(by_cause([lost, other])) == 1


def test_what_shows_again_while_the_worse_one_does_not_is_a_finding_of_its_own() -> None:
    times = itertools.count()

    def judge(trial: Trial, found: History) -> list[Suspicion]:
        both = two_kinds(trial, found)
        return both if both and next(times) == 0 else both[1:]

    search = new_search(judge=judge)
    run(search, lambda trial: trial.disturbance is not None and trial.disturbance.code == 6, tasks=600)
    stages = {signature.kind: finding.stage for signature, finding in search.findings.items()}
    assert stages == {Kind.LOST: Stage.NOT_REPEATED, Kind.WRONG_CONTENT: Stage.CONFIRMED}
    other = next(one for one in search.findings.values() if one.stage is Stage.CONFIRMED)
    assert other.shrink_tries > 0


def two_kinds(trial: Trial, found: History) -> list[Suspicion]:
    return [replace(one, kind=kind) for one in suspicions(trial, found) for kind in (Kind.LOST, Kind.WRONG_CONTENT)]


def test_programs_that_show_something_without_a_disturbance_leave_the_turns_to_others() -> None:
    """Whatever disturbs them, they show the same. So others come first, and they come when nothing else is left."""
    programs = plain(["produce"])
    search = Search(programs, abilities=["produce"], seed=7)
    disturbed: list[str] = []
    for _ in range(2_000):
        task = search.next_task()
        assert task is not None
        program = task.trial.program
        if task.purpose is Purpose.NEW and task.trial.disturbance is not None and program in programs:
            disturbed.append(program.name)
        search.learn(task, history(task.trial, is_lost=program.name == programs[0].name), USES)
    first = disturbed.index(programs[0].name)
    assert first >= 100
    assert programs[0].name not in disturbed[:first]


def test_trials_that_prove_nothing_by_our_own_fault_end_and_are_told() -> None:
    search = new_search()
    for _ in range(200):
        task = search.next_task()
        if task is None:
            break
        is_first = not search.findings
        is_control = task.purpose is Purpose.CONTROL
        problem = "" if is_control or is_first else "the log could not be read"
        search.learn(task, history(task.trial, is_lost=not is_control, problem=problem), USES)
    assert only(search).stage is Stage.NOT_REPEATED
    assert search.problems


def test_when_nothing_new_may_begin_only_findings_are_worked_on() -> None:
    search = new_search(at_once=1)
    tasks = [search.next_task(), search.next_task()]
    for task in tasks:
        assert task is not None
        search.learn(task, history(task.trial), USES)
    assert search.next_task(may_be_new=False) is None
    task = search.next_task()
    assert task is not None
    search.learn(task, history(task.trial, is_lost=True), USES)
    assert search.next_task(may_be_new=False) is not None


def test_a_disturbance_that_met_nothing_is_counted_and_accuses_no_api() -> None:
    search = new_search(at_once=1)
    for _ in range(3):
        task = search.next_task()
        assert task is not None
        is_new = task.purpose is Purpose.NEW
        search.learn(task, history(task.trial, is_lost=is_new, disturbed=0), USES)
    assert search.reach.unmet == 1
    assert only(search).signature.api == ""


# --- the cluster and the lanes ----------------------------------------------------------------------------------------


@given(st.integers(0, 10_000))
def test_programs_on_a_cluster_that_does_something_are_lawful_and_their_control_is_quiet(seed: int) -> None:
    programs = plain(ABILITIES, ["group.protocol"])
    program = changed(programs, seed)
    assert program.changes
    assert is_lawful(program, program.moves)
    control = Trial(program=program).control
    assert control.is_quiet
    assert control.program.moves in {one.moves for one in programs}
    assert from_document(json.loads(json.dumps(to_document(Trial(program=program))))).program == program


def test_every_lane_has_its_turn_before_the_systematic_pass_is_over() -> None:
    search = new_search()
    tasks = [task.trial for _ in range(48) if (task := next_learnt(search)).purpose is Purpose.NEW]
    assert search.reach.left > 0
    changes = [trial for trial in tasks if trial.program.changes]
    drawn_ones = [trial for trial in tasks if trial.program.name.startswith("drawn")]
    single = [trial for trial in tasks if trial.disturbance and trial.program.name == PRODUCER.name]
    assert min(len(changes), len(drawn_ones), len(single)) >= 7


def test_each_program_of_rare_usage_is_tried_once_among_the_others() -> None:
    rare = usage(ABILITIES, lambda side, name: True, 5)
    search = new_search(rare=rare)
    tried = [task.trial for _ in range(5 * len(rare)) if (task := next_learnt(search)).purpose is Purpose.NEW]
    seen = [trial.program.name for trial in tried if trial.program in rare]
    assert seen == [program.name for program in rare]
    assert len(tried) > 3 * len(rare)


def test_a_large_batch_that_is_refused_for_long_comes_among_the_first_trials() -> None:
    """Without the lane of sizes a search of five minutes did not come to it."""
    search = new_search(extreme=extremes(["produce"], lambda side, name: True))
    new: list[Trial] = []
    while len(new) < 12:
        task = next_learnt(search)
        new += [task.trial] * (task.purpose is Purpose.NEW)
    lasting = [
        one for one in new if one.disturbance and one.disturbance.count == 0 and one.disturbance.api == "Produce"
    ]
    assert "producer, many records a batch" in {one.program.name for one in lasting}


def test_the_lanes_go_on_when_all_sizes_were_tried() -> None:
    programs = extremes(["produce"], lambda side, name: True)
    search = new_search(extreme=programs)
    new = [task.trial for _ in range(600) if (task := next_learnt(search)).purpose is Purpose.NEW]
    tried = Counter(trial.program.name for trial in new if trial.program in programs)
    assert set(tried) == {program.name for program in programs}
    assert len(set(tried.values())) == 1  # each with each
    assert new[-1].program not in programs


def test_a_bug_of_a_rare_setting_is_found_and_made_small() -> None:
    search = new_search(rare=usage(["produce"], lambda side, name: True, 5))
    run(search, lambda trial: trial.program.properties.get("batch.size") == "1000", tasks=400)
    (finding,) = search.confirmed
    assert (finding.signature.kind, finding.signature.api) == (Kind.LOST, "")
    assert len(finding.trial.program.moves) == 1


def test_a_setting_that_the_client_refuses_is_left_out_from_then_on_and_is_no_trouble() -> None:
    search = new_search()
    drawn_ones: list[bool] = []
    for _ in range(400):
        task = search.next_task()
        assert task is not None
        is_lz4 = task.trial.program.properties.get("compression.type") == "lz4"
        drawn_ones.append(is_lz4)
        refusal = {"problem": "the client cannot set it", "refused": "compression.type"} if is_lz4 else {}
        search.learn(task, history(task.trial, **refusal), USES)  # type: ignore[arg-type]
    assert sum(drawn_ones) == 1
    assert search.problems == []


def test_a_setting_that_is_refused_without_its_name_is_known_where_it_is_the_only_one() -> None:
    search = new_search(rare=usage(["produce"], lambda side, name: name == "batch.size", 5))
    tried = 0
    is_refused = False
    for _ in range(400):
        task = search.next_task()
        assert task is not None
        properties = task.trial.program.properties
        if "batch.size=0" in task.trial.program.name:
            search.learn(task, history(task.trial, problem=f"{REFUSES}: at least 512"), USES)
            is_refused = True
        else:
            tried += is_refused and properties.get("batch.size") == "0"
            search.learn(task, history(task.trial), USES)
    assert is_refused
    assert tried == 0
    assert search.problems == []


def test_a_program_that_the_client_cannot_do_is_not_tried_after_its_quiet_runs() -> None:
    """An older library does not know the brokers' protocol of groups. What it says of that names the setting, so drawn
    programs leave it out."""
    programs = plain(["subscribe", "commit"], ["group.protocol"])
    search = Search(programs, abilities=["subscribe", "commit"], seed=7)
    refused: list[tuple[str, str]] = []
    for _ in range(300):
        task = search.next_task()
        assert task is not None
        if task.trial.program.properties.get("group.protocol") == "consumer":
            refused.append((task.purpose, task.trial.program.name))
            problem = f'{REFUSES}: No such configuration property: "group.protocol"'
            search.learn(task, history(task.trial, problem=problem), USES)
        else:
            search.learn(task, history(task.trial), USES)
    assert {purpose for purpose, _ in refused} == {Purpose.CONTROL}
    assert len(refused) <= 2
    assert search.problems == []
    assert search.reach.trials > 100


def test_a_refusal_that_names_several_settings_or_none_is_taken_for_none_of_them() -> None:
    program = plain(["subscribe", "commit"])[0]
    assert refused_by(
        program, history(Trial(program=program), problem=f"{REFUSES}: session.timeout.ms is too short")
    ) == ("session.timeout.ms")
    for problem in ("session.timeout.ms is below heartbeat.interval.ms", "my.session.timeout.ms", "no broker"):
        assert refused_by(program, history(Trial(program=program), problem=f"{REFUSES}: {problem}")) == ""


def test_a_rare_order_of_calls_is_tried_without_a_setting_that_the_client_refuses() -> None:
    programs, rare = plain(["subscribe"]), usage(["subscribe"], lambda side, name: False, 5)
    search = Search(programs, abilities=["subscribe"], seed=7, rare=rare)
    asked = []
    for _ in range(60):
        task = search.next_task()
        assert task is not None
        program = task.trial.program
        is_refused = program.properties.get("auto.commit.interval.ms") == "50"
        if program.name.startswith("calls of"):
            asked.append(is_refused)
        refusal = {"problem": "at least 100", "refused": "auto.commit.interval.ms"} if is_refused else {}
        search.learn(task, history(task.trial, **refusal), USES)  # type: ignore[arg-type]
    assert sum(asked) <= 1 < len(asked)
    assert search.problems == []


def next_learnt(search: Search) -> Task:
    task = search.next_task()
    assert task is not None
    search.learn(task, history(task.trial), USES)
    return task


def test_a_bug_that_needs_a_moving_leader_is_told_as_one_of_the_cluster_and_made_small() -> None:
    def is_lost(trial: Trial) -> bool:
        return any(move.do is Do.MOVE_LEADER for move in trial.program.changes) and trial.disturbance is None

    search = new_search()
    run(search, is_lost, tasks=400)
    finding = search.confirmed[0]
    assert finding.signature.api == "cluster"
    assert [move.do for move in finding.trial.program.moves] == [Do.MOVE_LEADER]
    assert (finding.controls_shown, finding.controls_tried) == (0, 3)


def test_programs_of_one_kind_do_not_begin_with_the_same_disturbances() -> None:
    two = [program for program in plain(["produce"]) if program.properties["enable.idempotence"] == "true"]
    assert len(two) == 2
    search = Search(two, abilities=[], seed=3)
    trials = [task.trial for _ in range(60) if (task := next_learnt(search)).purpose is Purpose.NEW]
    tried = [replace(one.disturbance, skip=0) for one in trials if one.disturbance and not one.program.changes]
    assert len(tried) > 20
    assert len(set(tried)) > len(tried) * 0.8


# --- brokers that die -------------------------------------------------------------------------------------------------


def test_at_most_one_trial_in_which_a_broker_dies_is_under_way_whatever_it_is_for() -> None:
    """Also while its finding is repeated and made small: what waits for that cluster keeps no other trial from
    beginning, and is not forgotten."""

    def is_lost(trial: Trial) -> bool:
        return any(move.do is Do.DIE for move in trial.program.changes)

    search = new_search(deaths=broker_deaths)
    under_way: deque[Task] = deque()
    deaths: Counter[Purpose] = Counter()
    lasting: set[int] = set()
    for _ in range(2_000):
        while len(under_way) < 4 and (task := search.next_task()) is not None:
            under_way.append(task)
        of_deaths = [task for task in under_way if task.trial.program.has_own_brokers]
        assert len(of_deaths) <= 1
        ended = under_way.popleft()
        if ended.trial.program.has_own_brokers and ended.number not in lasting:  # It lasts longer than the others.
            lasting.add(ended.number)
            under_way.append(ended)
            continue
        deaths[ended.purpose] += ended.trial.program.has_own_brokers
        search.learn(ended, history(ended.trial, is_lost=is_lost(ended.trial)), USES)
    (finding,) = (one for one in search.confirmed if one.signature.api == "cluster")
    assert finding.stage is Stage.CONFIRMED
    assert [move.do for move in finding.trial.program.moves] == [Do.DIE]
    assert (finding.controls_shown, finding.controls_tried) == (0, 3)
    assert deaths[Purpose.NEW] > 100


def test_brokers_die_only_in_a_search_that_may_have_them_do_so() -> None:
    for deaths in (None, broker_deaths, lambda programs, seed: iter(())):
        search = new_search(deaths=deaths)
        tried = [next_learnt(search).trial for _ in range(100)]
        assert any(trial.program.has_own_brokers for trial in tried) is (deaths is broker_deaths)


def test_a_broker_dies_in_each_program_also_in_those_that_had_to_wait() -> None:
    """Those of a slow kind come later, and none is forgotten."""
    planned: list[str] = []

    def deaths(programs: Sequence[Program], seed: int) -> Iterator[Program]:
        for each in itertools.islice(broker_deaths(programs, seed), 20):
            planned.append(each.name)
            yield each

    search = Search(plain(["produce", "subscribe", "commit"]), abilities=ABILITIES, seed=7, deaths=deaths)
    tried: list[str] = []
    for _ in range(500):
        task = search.next_task()
        assert task is not None
        program = task.trial.program
        if program.has_own_brokers:
            tried.append(program.name)
        duration_s = 5.0 if program.role is Role.CONSUMER else 1.0
        search.learn(task, history(task.trial), USES, duration_s=duration_s)
    assert len(planned) == 20
    waiting = [program.name for program in search._dying]
    assert waiting
    assert len(tried) > len(set(planned)) // 4
    assert sorted([*tried, *waiting]) == sorted(planned)


def test_what_hangs_for_long_is_not_made_small_instead_of_new_trials() -> None:
    """By time, not by trials: each of its tries takes as long as a hundred others."""
    search = new_search()
    spent: Counter[Purpose] = Counter()
    for _ in range(100):
        task = search.next_task()
        assert task is not None
        there = task.trial.disturbance
        is_hanging = there is not None and there.api == "Produce" and there.how is How.SILENCE_BEFORE
        duration_s = 100.0 if is_hanging else 1.0
        found = history(task.trial, is_lost=is_hanging)
        spent[task.purpose] += round(duration_s)
        search.learn(task, found, USES, duration_s=duration_s)
    assert search.confirmed
    assert spent[Purpose.SHRINKING] > 0
    assert spent[Purpose.SHRINKING] <= spent[Purpose.NEW] / 2 + 100


def test_two_bugs_of_one_kind_that_need_no_disturbance_are_two_findings() -> None:
    """The one in a restart shows first, and in many programs. It does not hide the other one."""

    def is_lost(trial: Trial) -> bool:
        did = {move.do for move in trial.program.moves}
        return Do.RESTART in did or Do.CANCEL_FLUSH in did

    can = ["produce", "callers", "cancel"]
    search = new_search(rare=usage(can, lambda side, name: True, 5))
    run(search, is_lost, tasks=600)
    smallest = {tuple(move.do for move in one.trial.program.moves) for one in search.confirmed}
    assert {(Do.RESTART,), (Do.CANCEL_FLUSH,)} <= smallest
    causes = [cause.state for cause, _ in by_cause(search.confirmed)]
    assert {"with restart", "with cancelled flush"} <= set(causes)
    assert len(causes) == len(set(causes)), "what is one is told as one"


def test_a_bug_of_polls_of_one_record_hides_no_other_one() -> None:
    """It is confirmed first. Its smallest trial has no rare move, so each other program has all that is rare in it."""

    def is_lost(trial: Trial) -> bool:
        did = {move.do for move in trial.program.moves}
        return trial.program.is_one_by_one or (bool(search.confirmed) and Do.CANCEL_FLUSH in did)

    can = ["produce", "callers", "cancel", "subscribe", "commit", "one-by-one"]
    rare = [replace(one, role=Role.PRODUCER) for one in usage(can, lambda side, name: True, 5)]
    search = new_search(rare=rare)
    run(search, is_lost, tasks=800)
    small = [one.trial.program for one in search.confirmed]
    assert any(program.is_one_by_one and len(program.moves) == 1 for program in small)
    assert any([move.do for move in program.moves] == [Do.CANCEL_FLUSH] for program in small)


def test_what_shows_in_every_program_is_not_repeated_for_each_of_them() -> None:
    search = new_search(rare=usage(["produce"], lambda side, name: True, 5))
    run(search, lambda trial: trial.is_quiet, tasks=600)
    assert len(search.findings) <= WHERES_MAX
    assert len(by_cause(search.confirmed)) == 1


def test_who_hangs_without_a_disturbance_is_not_run_quietly_once_more_and_leaves_room() -> None:
    programs = plain(["produce", "transactions"])
    hanging = Stuck(at_us=3, what="transactions not ended", missing=1, expected=1, waited_ms=20_000)
    search = Search(programs, abilities=["produce", "transactions"], seed=7)
    done: Counter[tuple[Purpose, bool]] = Counter()
    for _ in range(300):
        task = search.next_task()
        assert task is not None
        is_hanging = task.trial.program.is_transactional
        found = history(task.trial)
        if is_hanging:
            found = replace(found, happened=(*found.happened, hanging))
        search.learn(task, found, USES, duration_s=100.0 if is_hanging else 2.0)
        done[task.purpose, is_hanging] += 1
    (finding,) = search.confirmed
    assert finding.signature.kind is Kind.STUCK
    assert done[Purpose.CONTROL, True] == 1
    assert done[Purpose.NEW, True] <= 10
    assert done[Purpose.NEW, False] > 200

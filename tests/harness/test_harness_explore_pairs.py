"""Two disturbances, one after the other: which are drawn, what they excuse, how a search finds what needs both, and
what comes out. No process; tests/harness/test_harness_explore_bench.py has one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from chaos.lawful_answers import ANSWERS, Reaction
from harness.cli.explore.explore import try_again
from harness.explore.execution.bench import Evidence
from harness.explore.execution.benches import Benches
from harness.explore.execution.toxics import STREAM, is_second, second_name
from harness.explore.findings.exports import COMMANDS, SCENARIO, TEST, Exported, exports
from harness.explore.findings.story import story, timeline, traffic
from harness.explore.generators.pairs import PAIRS_MAX, paired, pairs
from harness.explore.generators.programs import plain
from harness.explore.generators.shrink import measure, smaller
from harness.explore.oracles.oracles import Kind, Suspicion, suspicions
from harness.explore.oracles.own_program import ProgramOracle, own_program
from harness.explore.search.diary import how_of, lane_of
from harness.explore.search.search import TURNS, Finding, Lane, Purpose, Search, Signature, Stage
from harness.explore.trial.history import (
    Connected,
    Ended,
    Fate,
    Happening,
    History,
    Logged,
    Outcome,
    Problem,
    Sent,
    Stuck,
    Told,
    TransactionEnd,
    as_met,
)
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial, from_document, to_document
from harness.explore.trial.requests_sent import Use
from harness.tape.record import NotTaped, check
from harness.terminal.signals import StopFlag
from runlog.records.exchange import ExchangeOutcome, KafkaExchange

ABILITIES = ("produce", "subscribe", "seek", "pause", "commit", "transactions", "send-offsets")
PROGRAMS = plain(ABILITIES, ["isolation.level"])
PRODUCER = next(program for program in PROGRAMS if program.role is Role.PRODUCER)
GROUP = next(program for program in PROGRAMS if program.role is Role.CONSUMER)
LOST = Disturbance(api="Produce", how=How.CLOSED_BEFORE, skip=12)
UNHEARD = replace(LOST, how=How.CLOSED_AFTER)
REFUSED = Disturbance(api="Produce", how=How.ERROR_BEFORE, code=6)
FORBIDDEN = replace(REFUSED, code=29)
NO_TOPIC = Disturbance(api="Metadata", how=How.ERROR_BEFORE, code=3)
PAIR = Trial(program=PRODUCER, disturbance=LOST, then=REFUSED)
OF_PRODUCERS = {
    "ApiVersions": Use(requests=9, version=3),
    "Metadata": Use(requests=4, version=12),
    "InitProducerId": Use(requests=1, version=4),
    "Produce": Use(requests=24, version=9),
}
OF_GROUPS = {
    "FindCoordinator": Use(requests=2, version=4),
    "JoinGroup": Use(requests=4, version=9),
    "SyncGroup": Use(requests=2, version=5),
    "Heartbeat": Use(requests=6, version=4),
    "OffsetFetch": Use(requests=3, version=8),
    "OffsetCommit": Use(requests=8, version=8),
    "Fetch": Use(requests=30, version=13),
}


def uses_of(program: Program) -> dict[str, Use]:
    return OF_PRODUCERS if program.role is Role.PRODUCER else OF_GROUPS


# --- the trial --------------------------------------------------------------------------------------------------------


def test_a_trial_names_both_and_is_read_back_from_its_file() -> None:
    assert str(PAIR) == (
        "producer, idempotent: one Produce after the first 12: connection closed before the work, then one Produce: "
        "error before the work, NOT_LEADER_OR_FOLLOWER"
    )
    document = json.loads(json.dumps(to_document(PAIR)))
    assert from_document(document) == PAIR
    assert PAIR.disturbances == (LOST, REFUSED)
    assert PAIR.control.disturbances == ()


def test_a_file_of_before_has_no_second_one_and_a_second_one_alone_is_refused() -> None:
    alone = to_document(replace(PAIR, then=None))
    assert "then" not in alone
    assert from_document(alone) == replace(PAIR, then=None)
    both = to_document(PAIR)
    with pytest.raises(ValueError, match="then: it comes after a disturbance, and there is none"):
        from_document({name: value for name, value in both.items() if name != "disturbance"})


def test_the_toxics_of_the_second_one_are_known_by_their_name() -> None:
    assert is_second(f"{second_name('explore-1')}-{STREAM}")
    assert not is_second(f"explore-1-{STREAM}")


# --- which are drawn --------------------------------------------------------------------------------------------------


ONCE = Use(requests=1, version=3)


def passes(one: Disturbance) -> bool:
    reactions = {
        answer.reaction
        for answer in ANSWERS
        if (answer.api, answer.code, answer.is_after_work) == (one.api, one.code, one.how.is_after_work)
    }
    return not one.how.is_error or bool(reactions & {Reaction.RETRY, Reaction.REJOIN})


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_each_of_two_passes_by_itself_and_the_second_one_meets_one_request_soon(program: Program) -> None:
    made = pairs(program, uses_of(program), 7)
    assert made == pairs(program, uses_of(program), 7)
    assert made != pairs(program, uses_of(program), 8)
    assert 20 <= len(made) <= PAIRS_MAX
    assert len({str(trial) for trial in made}) == len(made)
    for trial in made:
        first, then = trial.disturbances
        assert first.skip == uses_of(program)[first.api].requests // 2, str(trial)
        assert (first.count, then.count) == (1, 1), str(trial)
        assert then.skip in ((0, 1) if uses_of(program).get(then.api, ONCE).requests > 3 else (0,)), str(trial)
        assert passes(first), str(trial)
        assert passes(then), str(trial)
        assert How.HELD not in (first.how, then.how), str(trial)
    mostly = [trial.then for trial in made if trial.then and trial.then.how is How.ERROR_BEFORE]
    assert len(mostly) > len(made) / 2


def test_what_was_sent_and_has_no_answer_and_is_then_refused_comes_first() -> None:
    """librdkafka 4438: fatal until 2.3.0."""
    first = pairs(PRODUCER, OF_PRODUCERS, 7)[0]
    assert first.disturbance is not None
    assert first.then is not None
    assert (first.disturbance.api, first.then.api, first.then.how) == ("Produce", "Produce", How.ERROR_BEFORE)
    assert first.disturbance.how in (How.CLOSED_BEFORE, How.CLOSED_AFTER)


def test_only_what_a_client_uses_or_what_recovery_alone_needs_is_disturbed_second() -> None:
    of_producer = [trial.disturbances for trial in pairs(PRODUCER, OF_PRODUCERS, 7)]
    assert {then.api for _, then in of_producer} == {"ApiVersions", "InitProducerId", "Metadata", "Produce"}
    assert {first.api for first, _ in of_producer} == {"InitProducerId", "Metadata", "Produce"}
    assert {then.how.is_error for _, then in of_producer if then.api == "ApiVersions"} == {False}
    without = {api: use for api, use in OF_PRODUCERS.items() if api != "InitProducerId"}
    assert "InitProducerId" not in {trial.then.api for trial in pairs(PRODUCER, without, 7) if trial.then}
    of_group = [
        (trial.disturbance.api, trial.then.api)
        for seed in range(20)
        for trial in pairs(GROUP, OF_GROUPS, seed)
        if trial.disturbance and trial.then
    ]
    assert ("Fetch", "OffsetForLeaderEpoch") in of_group
    assert ("Heartbeat", "OffsetFetch") in of_group
    assert {then for _, then in of_group} == {*OF_GROUPS, "OffsetForLeaderEpoch"}
    assert {first for first, _ in of_group} == set(OF_GROUPS)


def test_programs_with_much_under_way_come_first_and_all_of_them_have_their_turn() -> None:
    made = paired(PROGRAMS, uses_of, 3)
    names = [trial.program.name for trial in made[: len(PROGRAMS)]]
    assert set(names) == {program.name for program in PROGRAMS}
    assert names.index("producer, one in flight") > names.index("group of two")
    assert names.index("group, commits itself") > names.index("producer, idempotent")
    assert len(made) <= PAIRS_MAX * len(PROGRAMS)


# --- smaller ----------------------------------------------------------------------------------------------------------


def test_the_first_tries_to_make_two_smaller_leave_one_of_them_out() -> None:
    tries = list(smaller(PAIR))
    assert tries[:3] == [
        replace(PAIR, then=None),
        Trial(program=PRODUCER, disturbance=REFUSED),
        Trial(program=PRODUCER),
    ]
    assert replace(PAIR, disturbance=replace(LOST, skip=0)) in tries
    later = replace(PAIR, then=replace(REFUSED, skip=1, count=0))
    assert replace(later, then=replace(REFUSED, skip=1)) in list(smaller(later))
    assert replace(later, then=replace(REFUSED, count=0)) in list(smaller(later))
    for trial in (PAIR, later):
        assert all(measure(one) < measure(trial) for one in list(smaller(trial))[:5])


def test_what_the_cluster_does_besides_is_left_out_with_both_or_without() -> None:
    moved = replace(PRODUCER, moves=(*PRODUCER.moves, Move(do=Do.MOVE_LEADER, partition=0)))
    tries = list(smaller(replace(PAIR, program=moved)))
    assert tries[3:5] == [Trial(program=moved), PAIR]


# --- what they excuse -------------------------------------------------------------------------------------------------

IDEMPOTENT = Program(
    name="p", role=Role.PRODUCER, moves=(Move(do=Do.SEND, count=2),), properties={"enable.idempotence": "true"}
)
NOT_IDEMPOTENT = replace(IDEMPOTENT, properties={"enable.idempotence": "false"})
SENT: tuple[Happening, ...] = tuple(Sent(at_us=1, seq=seq, value=b"%d" % seq) for seq in (0, 1))
DONE: tuple[Happening, ...] = tuple(
    Outcome(at_us=2, seq=seq, fate=Fate.ACKNOWLEDGED, partition=0, offset=seq) for seq in (0, 1)
)
FAILED = Outcome(at_us=2, seq=0, fate=Fate.FAILED, code=-1, reason="no more tries")
FATAL = Problem(at_us=3, reason="sequence desynchronization", is_fatal=True)


def log(*seqs: int) -> tuple[Logged, ...]:
    return tuple(Logged(partition=0, offset=offset, value=b"%d" % seq) for offset, seq in enumerate(seqs))


def kinds(
    program: Program,
    disturbances: Sequence[Disturbance],
    happened: Sequence[Happening],
    there: Sequence[int] = (0, 1),
    met: tuple[int, int] = (1, 1),
) -> list[Kind]:
    trial = Trial(program=program, disturbance=disturbances[0], then=disturbances[1])
    history = History(happened=tuple(happened), log=log(*there), disturbed=met[0], disturbed_then=met[1])
    return [one.kind for one in suspicions(trial, history)]


def test_a_right_client_leaves_no_trace_of_two_that_pass_and_each_trace_accuses() -> None:
    for pair in ((LOST, REFUSED), (REFUSED, UNHEARD), (NO_TOPIC, REFUSED)):
        assert kinds(IDEMPOTENT, pair, [*SENT, *DONE]) == []
        assert kinds(IDEMPOTENT, pair, [*SENT, *DONE], (0, 1, 0)) == [Kind.DUPLICATED]
        assert kinds(IDEMPOTENT, pair, [*SENT, *DONE], (0,)) == [Kind.LOST]
        assert kinds(IDEMPOTENT, pair, [*SENT, *DONE, FATAL]) == [Kind.GAVE_UP]
    assert kinds(IDEMPOTENT, (LOST, REFUSED), [*SENT, FAILED, DONE[1]], (1,)) == [Kind.GAVE_UP]


@pytest.mark.parametrize("pair", [(UNHEARD, REFUSED), (REFUSED, UNHEARD)])
def test_what_may_be_there_already_is_lawfully_sent_again_whichever_of_two_says_so(
    pair: tuple[Disturbance, Disturbance],
) -> None:
    assert kinds(NOT_IDEMPOTENT, pair, [*SENT, *DONE], (0, 1, 0)) == []
    assert kinds(NOT_IDEMPOTENT, (REFUSED, REFUSED), [*SENT, *DONE], (0, 1, 0)) == [Kind.DUPLICATED]
    # A record that one of two has failed may have begun another epoch for one whose answer the other one took.
    assert kinds(IDEMPOTENT, pair, [*SENT, FAILED, DONE[1]], (1, 1), (2, 2)) == []


@pytest.mark.parametrize("pair", [(FORBIDDEN, REFUSED), (REFUSED, FORBIDDEN), (REFUSED, replace(REFUSED, count=3))])
def test_a_client_may_stop_for_either_of_two(pair: tuple[Disturbance, Disturbance]) -> None:
    assert kinds(IDEMPOTENT, pair, [*SENT, FAILED, DONE[1]], (1,)) == []
    stuck = Stuck(at_us=9, what="records without an outcome", missing=1, expected=2, waited_ms=15_000)
    told = Problem(at_us=4, reason="it said so", code=29)
    assert kinds(IDEMPOTENT, pair, [*SENT, told, stuck], (1,)) == []
    assert kinds(IDEMPOTENT, pair, [*SENT, stuck], (1,)) == [Kind.STUCK]
    is_passing = FORBIDDEN not in pair
    assert kinds(IDEMPOTENT, pair, [*SENT, *DONE, FATAL]) == [Kind.GAVE_UP] * is_passing


def test_a_client_that_counts_its_tries_may_fail_a_record_when_they_add_up_and_must_not_end_for_it() -> None:
    """Each of two meets a request at each of three brokers, and some libraries try five times."""
    happened = [*SENT, FAILED, DONE[1]]
    assert kinds(IDEMPOTENT, (LOST, REFUSED), happened, (1,), (1, 2)) == []
    assert kinds(IDEMPOTENT, (LOST, REFUSED), happened, (1,), (3, 3)) == []
    assert kinds(IDEMPOTENT, (LOST, REFUSED), [*SENT, *DONE, FATAL], met=(3, 3)) == [Kind.GAVE_UP]
    # Both together last longer than a record may.
    short = replace(IDEMPOTENT, properties={**IDEMPOTENT.properties, "delivery.timeout.ms": "6000"})
    assert kinds(short, (LOST, REFUSED), [*SENT, *DONE, FATAL], met=(3, 3)) == []


def test_a_second_answer_may_end_one_more_transaction() -> None:
    transactional = replace(IDEMPOTENT, moves=(Move(do=Do.BEGIN), *IDEMPOTENT.moves, Move(do=Do.COMMIT_TRANSACTION)))
    denied = Disturbance(api="AddPartitionsToTxn", how=How.ERROR_BEFORE, code=29)

    def refused(count: int) -> list[Happening]:
        return [
            one
            for number in range(1, count + 1)
            for one in (
                Sent(at_us=1, seq=number, value=b"%d" % number, transaction=number),
                Outcome(at_us=2, seq=number, fate=Fate.UNKNOWN, code=45),
                TransactionEnd(at_us=3, transaction=number, is_commit=True, told=Told.DONE),
            )
        ]

    again = replace(denied, api="Produce")
    assert kinds(transactional, (denied, again), refused(3), ()) == []
    assert kinds(transactional, (denied, again), refused(4), ()) == [Kind.STUCK]
    assert kinds(transactional, (denied, again), refused(3), (), (1, 0)) == [Kind.STUCK]
    assert kinds(transactional, (denied, replace(again, count=0)), refused(4), ()) == []


@pytest.mark.parametrize("pair", [(NO_TOPIC, LOST), (LOST, NO_TOPIC)])
def test_who_is_told_of_no_topic_by_either_may_fail_records(pair: tuple[Disturbance, Disturbance]) -> None:
    assert kinds(IDEMPOTENT, pair, [*SENT, FAILED, DONE[1]], (1,)) == []


def test_a_second_one_that_met_nothing_excuses_nothing() -> None:
    happened = [*SENT, FAILED, DONE[1]]
    assert kinds(IDEMPOTENT, (LOST, FORBIDDEN), happened, (1,)) == []
    assert kinds(IDEMPOTENT, (LOST, FORBIDDEN), happened, (1,), (1, 0)) == [Kind.GAVE_UP]
    assert as_met(PAIR, History(happened=(), log=(), disturbed=1)) == replace(PAIR, then=None)
    assert as_met(PAIR, History(happened=(), log=(), disturbed=1, disturbed_then=1)) == PAIR


def test_a_program_of_somebodys_may_end_for_either_of_two_and_for_two_late_answers() -> None:
    program = own_program(("Produce", "InitProducerId"))
    late = Disturbance(api="Produce", how=How.LATE, late_ms=3_000)
    oracle = ProgramOracle.of([])

    def accused(first: Disturbance, then: Disturbance, met: tuple[int, int] = (1, 1)) -> list[Kind]:
        ended = (Connected(at_us=1), Ended(at_us=9, code=1))
        history = History(happened=ended, log=(), disturbed=met[0], disturbed_then=met[1])
        return [one.kind for one in oracle(Trial(program=program, disturbance=first, then=then), history)]

    assert accused(LOST, REFUSED) == [Kind.GAVE_UP]
    assert accused(late, REFUSED) == [Kind.GAVE_UP]
    assert accused(late, late) == []
    assert accused(late, late, (1, 0)) == [Kind.GAVE_UP]
    assert accused(LOST, REFUSED, (3, 1)) == []
    for other in (FORBIDDEN, replace(LOST, how=How.SILENCE_BEFORE)):
        assert accused(other, REFUSED) == accused(REFUSED, other) == []


# --- the search -------------------------------------------------------------------------------------------------------


def learnt(search: Search, trial: Trial, *, is_lost: bool, met: tuple[int, int] = (1, 1)) -> History:
    happened = (SENT[0], DONE[0])
    return History(
        happened=happened,
        log=() if is_lost else log(0),
        disturbed=met[0] if trial.disturbance else 0,
        disturbed_then=met[1] if trial.then else 0,
        disturbed_besides=(1,) * len(trial.besides),
    )


def searched(is_lost: object, tasks: int = 900, met: tuple[int, int] = (1, 1)) -> tuple[Search, list[Trial]]:
    search = Search([PRODUCER], abilities=["produce"], seed=7)
    new: list[Trial] = []
    for _ in range(tasks):
        task = search.next_task()
        if task is None:
            break
        new += [task.trial] * (task.purpose is Purpose.NEW)
        found = callable(is_lost) and is_lost(task.trial)
        search.learn(task, learnt(search, task.trial, is_lost=bool(found), met=met), OF_PRODUCERS)
    return search, new


def needs_both(trial: Trial) -> bool:
    first, then = trial.disturbance, trial.then
    return (
        first is not None
        and then is not None
        and (first.api, first.how) == ("Produce", How.CLOSED_BEFORE)
        and (then.api, then.how) == ("Produce", How.ERROR_BEFORE)
    )


def test_two_disturbances_have_a_turn_of_thirteen_once_something_is_planned() -> None:
    assert (TURNS.count(Lane.PAIR), len(TURNS)) == (1, 13)
    search, new = searched(None, tasks=300)
    places = [place for place, trial in enumerate(new) if trial.then is not None]
    assert places[0] < 12
    assert len(new) / 14 < len(places) <= PAIRS_MAX
    assert search.findings == {}
    assert all(trial.then is None for trial in new[: places[0]])


def test_what_needs_both_is_confirmed_made_small_and_told_with_the_first_ones_api() -> None:
    search, _ = searched(needs_both)
    (finding,) = search.findings.values()
    assert finding.stage is Stage.CONFIRMED
    assert finding.signature == Signature(kind=Kind.LOST, role=Role.PRODUCER, api="Produce")
    assert needs_both(finding.trial)
    assert [one.skip for one in finding.trial.disturbances] == [0, 0]
    assert len(finding.trial.program.moves) == 1


def test_what_needs_one_of_two_is_told_with_that_one() -> None:
    search, _ = searched(
        lambda trial: (
            (trial.then is not None and any(one.api == "InitProducerId" for one in trial.disturbances))
            or (trial.then is None and trial.disturbance is not None and trial.disturbance.code == 14)
        )
    )
    assert {len(one.trial.disturbances) for one in search.confirmed} == {1}


def test_what_the_second_one_did_not_meet_is_told_with_the_first_alone() -> None:
    search, _ = searched(needs_both, met=(1, 0))
    (finding,) = search.findings.values()
    assert finding.first.then is None
    assert finding.first.disturbance is not None
    assert finding.first.disturbance.how is How.CLOSED_BEFORE


def test_one_of_two_that_came_too_late_comes_again_sooner_with_the_other_one() -> None:
    search, new = searched(None, met=(0, 0), tasks=120)
    assert search.findings == {}
    place, late = next(
        (place, one) for place, one in enumerate(new) if one.then and one.disturbance and one.disturbance.skip >= 2
    )
    assert late.disturbance is not None
    again, which = next((other, one) for other, one in enumerate(new) if other > place and one.then is not None)
    assert which == replace(late, disturbance=replace(late.disturbance, skip=late.disturbance.skip // 2))
    assert again - place > 5, "in the turn of two disturbances, not in that of single ones"


# --- what comes out ---------------------------------------------------------------------------------------------------


def exchange(at_ms: int, outcome: ExchangeOutcome, *toxics: str) -> KafkaExchange:
    return KafkaExchange(
        mono_ns=at_ms * 1_000_000, ended_ns=at_ms * 1_000_000, proxy="client-1", connection=1, api="Produce",
        api_version=9, correlation_id=1, request_bytes=1, outcome=outcome, toxics=toxics,
    )  # fmt: skip


def test_the_story_tells_both_and_when_each_met() -> None:
    name = "explore-1"
    history = History(
        happened=(Connected(at_us=0), *SENT, *DONE),
        log=log(0, 1),
        disturbed=1,
        disturbed_then=1,
        first_disturbed_us=3_000,
        then_disturbed_us=5_000,
        healed_us=7_000,
        exchanges=(
            exchange(3, ExchangeOutcome.UNANSWERED, f"{name}-{STREAM}"),
            *(exchange(4, ExchangeOutcome.DELIVERED) for _ in range(20)),
            exchange(5, ExchangeOutcome.REFUSED, f"{second_name(name)}-{STREAM}"),
        ),
    )
    suspicion = Suspicion(kind=Kind.GAVE_UP, what="fatal", count=1)
    signature = Signature(kind=Kind.GAVE_UP, role=Role.PRODUCER, api="Produce")
    text = story(Finding(signature=signature, first=PAIR, trial=PAIR, suspicion=suspicion, history=history))
    assert f"Disturbance: {LOST}, then {REFUSED}\n" in text
    assert timeline(history)[-3:] == [
        "    0.003  the disturbance has met a request",
        "    0.005  the second disturbance has met a request",
        "    0.007  healed",
    ]
    marks = [line.partition("<- ")[2] for line in traffic(history)]
    assert (marks[0], marks[-1]) == ("disturbed", "disturbed by the second one")
    assert set(marks[1:-1]) == {""}


def test_the_diary_and_the_commands_name_both_and_what_cannot_is_left_out_with_the_reason() -> None:
    assert (lane_of(PAIR), how_of(PAIR)) == (
        "Produce",
        "connection closed before the work, then Produce: error before the work",
    )
    finding = Exported(
        number=1,
        trial=PAIR,
        suspicion=Suspicion(kind=Kind.LOST, what="gone", count=1),
        client="confluent-kafka",
        version="1.0",
        again="harness explore --again trial.json",
        takes=lambda side, name: True,
    )
    assert {TEST, SCENARIO, COMMANDS} == set(exports(replace(finding, trial=replace(PAIR, then=None))))
    made = exports(finding)
    assert set(made) == {COMMANDS}
    assert made[COMMANDS].splitlines()[1:3] == [
        f"# Disturbed: {LOST}, then {REFUSED}",
        "# There is no test and no scenario of it: neither can place a fault right after another one.",
    ]


def test_a_tape_has_one_disturbance() -> None:
    check(replace(PAIR, then=None))
    with pytest.raises(NotTaped, match="a tape has one disturbance"):
        check(PAIR)


class OneBench:
    """Each run leaves what it is told to."""

    version = "none"
    dropped_log_bytes = 0

    def __init__(self, met: tuple[int, int]) -> None:
        self.met = met

    def end_warm(self) -> Sequence[str]:
        return ()

    def give_up(self) -> None:
        pass

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        history = History(happened=(*SENT, *DONE), log=log(0, 1), disturbed=self.met[0], disturbed_then=self.met[1])
        return Evidence(history=history, uses={}, duration_s=0.0)


@pytest.mark.parametrize(("met", "told"), [((1, 1), 0), ((1, 0), 3)])
def test_who_tries_it_again_is_told_both_and_that_the_second_one_met_nothing(
    met: tuple[int, int], told: int, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Benches(OneBench(met), lambda: pytest.fail("no broker dies"))
    try_again(one, PAIR, StopFlag())
    text = " ".join(capsys.readouterr().out.split())
    assert text.count(f"{PAIR}: as it should") == 3
    assert text.count("the second disturbance met no request") == told

"""Several single disturbances in one run: what may share it, what becomes of a suspicion, and what is spared."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest

from broker.door.protocol import ErrorCode
from harness.explore.generators.programs import plain
from harness.explore.generators.systematic import systematic
from harness.explore.oracles.oracles import Kind, Suspicion, may_stop, suspicions
from harness.explore.search.screening import AT_ONCE, alone, may_share, with_others
from harness.explore.search.search import Purpose, Search, Stage, Task
from harness.explore.trial.history import Fate, History, Logged, Outcome, Sent
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Role, Trial, to_document
from harness.explore.trial.requests_sent import Use

USES = {
    "Metadata": Use(requests=3, version=8),
    "Fetch": Use(requests=20, version=11),
    "Heartbeat": Use(requests=6, version=3),
    "JoinGroup": Use(requests=1, version=5),
    "OffsetCommit": Use(requests=4, version=7),
}
GROUP = Program(
    name="group",
    role=Role.CONSUMER,
    moves=(Move(do=Do.SUBSCRIBE), Move(do=Do.READ, count=4), Move(do=Do.COMMIT)),
    prefilled=12,
)


def one(api: str = "Fetch", how: How = How.CLOSED_BEFORE, *, program: Program = GROUP, **others: int) -> Trial:
    return Trial(program=program, disturbance=Disturbance(api=api, how=how, **others))


def everyone(trial: Trial) -> bool:
    return False


def together(first: Trial, *planned: Trial) -> tuple[list[Disturbance], list[Trial]]:
    left = deque(planned)
    found = with_others(first, left, everyone)
    return list(found.disturbances), list(left)


def test_three_of_one_program_and_of_different_apis_share_a_run_and_leave_the_others_in_their_order() -> None:
    heartbeat, join, commit = one("Heartbeat"), one("JoinGroup"), one("OffsetCommit")
    same, other = one("Fetch", How.CLOSED_AFTER), one("Metadata", program=replace(GROUP, name="another"))
    found, left = together(one("Fetch"), same, heartbeat, other, join, commit)
    assert [each.api for each in found] == ["Fetch", "Heartbeat", "JoinGroup"]
    assert left == [same, other, commit]
    assert len(found) == AT_ONCE


@pytest.mark.parametrize(
    "disturbance",
    [
        Disturbance(api="EndTxn", how=How.HELD, late_ms=400),
        Disturbance(api="Heartbeat", how=How.CLOSED_BEFORE, count=0),
        Disturbance(api="Heartbeat", how=How.CLOSED_BEFORE, count=3),
        Disturbance(api="Heartbeat", how=How.ERROR_BEFORE, code=ErrorCode.fenced_instance_id),
        Disturbance(api="Metadata", how=How.ERROR_BEFORE, code=ErrorCode.unknown_topic_or_partition),
    ],
)
def test_what_lasts_or_excuses_a_client_has_a_run_of_its_own(disturbance: Disturbance) -> None:
    assert not may_share(disturbance)
    lasting = Trial(program=GROUP, disturbance=disturbance)
    assert together(lasting, one("JoinGroup")) == ([disturbance], [one("JoinGroup")])
    assert together(one("JoinGroup"), lasting)[1] == [lasting]


def test_what_may_have_been_done_does_not_share_a_run_with_what_was_surely_not_where_records_are_written() -> None:
    producer = replace(GROUP, name="producer", role=Role.PRODUCER)
    refused = one("Metadata", How.ERROR_BEFORE, code=ErrorCode.leader_not_available, program=producer)
    for how in (How.CLOSED_AFTER, How.CLOSED_BEFORE, How.LATE, How.ALTERED):
        other = one("Produce", how, program=producer)
        assert together(refused, other)[1] == [other], how
    again = one("Produce", How.ERROR_BEFORE, code=ErrorCode.not_leader_or_follower, program=producer)
    assert together(refused, again)[1] == []
    assert together(one("Heartbeat"), one("Fetch", How.LATE))[1] == []  # A reader writes nothing.


def test_whoever_is_suspected_already_has_a_run_of_its_own() -> None:
    fetch, heartbeat = one("Fetch"), one("Heartbeat")
    planned = deque([fetch])
    assert with_others(heartbeat, planned, lambda trial: trial is fetch) == heartbeat
    assert with_others(fetch, planned, lambda trial: trial is fetch) == fetch
    assert list(planned) == [fetch]


def test_alone_gives_each_back_as_it_was_planned() -> None:
    planned = [one("Fetch"), one("Heartbeat"), one("JoinGroup")]
    shared = with_others(planned[0], deque(planned[1:]), everyone)
    assert alone(shared) == planned
    assert str(shared) == "group: " + "; ".join(str(each.disturbance) for each in planned)
    with pytest.raises(AssertionError):
        to_document(shared)


def test_no_disturbance_that_shares_a_run_excuses_what_it_would_not_excuse_alone() -> None:
    """For each program and all that is planned of it: what is asked of the run is what is asked of each alone."""
    for program in plain(("produce", "subscribe", "assign", "commit", "seek", "pause", "transactions"), ()):
        planned = deque(systematic(program, {**USES, "Produce": Use(requests=16, version=7)}, 1))
        runs = 0
        while planned:
            shared = with_others(planned.popleft(), planned, everyone)
            if not shared.besides:
                continue
            runs += 1
            sent = Sent(at_us=0, seq=0, partition=-1, value=b"0", command=0)
            twice = tuple(Logged(partition=0, offset=offset, value=b"0") for offset in (0, 1))
            done = Outcome(at_us=1, seq=0, fate=Fate.ACKNOWLEDGED, partition=0, offset=0)
            met = (1,) * len(shared.besides)
            doubled = History(happened=(sent, done), log=twice, disturbed=1, disturbed_besides=met)
            failed = replace(doubled, happened=(sent, Outcome(at_us=1, seq=0, fate=Fate.UNKNOWN)), log=())
            for history in () if program.role is Role.CONSUMER else (doubled, failed):
                asked = [[found.kind for found in suspicions(each, history)] for each in alone(shared)]
                assert [found.kind for found in suspicions(shared, history)] == asked[0], str(shared)
                assert asked == [asked[0]] * len(asked), str(shared)
            assert not may_stop(shared, doubled)
        assert runs > 10


# --- the search -------------------------------------------------------------------------------------------------------


def searched(judge_of: dict[str, Kind], *, tasks: int = 400, unmet: str = "") -> tuple[Search, list[Task]]:
    """A search of one program whose client does something wrong whenever one of these APIs is disturbed. Requests of
    `unmet` are never met beside others."""

    def judge(trial: Trial, history: History) -> list[Suspicion]:
        shown = {judge_of[each.api] for each in trial.disturbances if each.api in judge_of}
        return [Suspicion(kind=kind, what="wrong", count=1) for kind in shown]

    search = Search([GROUP], abilities=("subscribe", "commit"), seed=1, judge=judge)
    done: list[Task] = []
    for _ in range(tasks):
        task = search.next_task()
        if task is None:
            break
        done.append(task)
        met = [int(not (each.api == unmet and task.trial.besides)) for each in task.trial.disturbances] or [0]
        history = History(happened=(), log=(), disturbed=met[0], disturbed_besides=tuple(met[1:]))
        search.learn(task, history, USES)
    return search, done


def test_what_a_shared_run_shows_is_tried_alone_and_accuses_only_whom_it_shows_with() -> None:
    search, done = searched({"Heartbeat": Kind.STUCK})
    assert [(each.api, one.stage) for each, one in search.findings.items()] == [("Heartbeat", Stage.CONFIRMED)]
    suspicious = next(task for task in done if "Heartbeat" in {each.api for each in task.trial.disturbances})
    assert suspicious.trial.besides
    new = [task.trial for task in done[done.index(suspicious) + 1 :] if task.purpose is Purpose.NEW]
    assert new[: len(suspicious.trial.disturbances)] == alone(suspicious.trial)


def test_a_suspected_api_shares_no_run_any_more() -> None:
    _, done = searched({"Heartbeat": Kind.STUCK})
    confirmed = next(place for place, task in enumerate(done) if task.purpose is Purpose.SHRINKING)
    later = [task.trial for task in done[confirmed:] if task.purpose is Purpose.NEW and task.trial.besides]
    assert later
    assert all(each.api != "Heartbeat" for trial in later for each in trial.disturbances)


def test_a_right_client_has_all_single_disturbances_in_fewer_runs() -> None:
    search, done = searched({}, tasks=2_000)
    assert not search.findings
    single = [task.trial for task in done if task.trial.disturbance is not None and task.trial.then is None]
    tried = {each for trial in single for each in trial.disturbances if trial.program is GROUP}
    planned = {trial.disturbance for trial in systematic(GROUP, USES, 1_009 * 0 + 1_009)}
    assert planned - tried == set()
    shared = [trial for trial in single if trial.besides]
    assert sum(len(trial.disturbances) for trial in shared) > 2 * len(shared)


def test_what_met_nothing_beside_others_is_tried_alone() -> None:
    _, done = searched({}, unmet="JoinGroup")
    missed = next(
        task for task in done if task.trial.besides and "JoinGroup" in {e.api for e in task.trial.disturbances}
    )
    again = done[done.index(missed) + 1].trial
    assert [each.api for each in again.disturbances] == ["JoinGroup"]

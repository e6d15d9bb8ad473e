"""`harness.explore.generators.usage`: each setting alone, and each call directly after each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.explore.explore import programs_of, search_of
from harness.cli.explore.search_cluster import Place
from harness.explore.generators.programs import CONSUMER, PRODUCER, copier, drawn, group, plain
from harness.explore.generators.shrink import is_lawful
from harness.explore.generators.usage import each_after_each, usage
from harness.explore.search.corpus import Corpus
from harness.explore.search.search import family_of
from harness.explore.trial.history import History
from harness.explore.trial.model import OWN, Do, Program, Role, Trial
from harness.explore.trial.requests_sent import Use
from workloads.clients.process.messages import Ability, Ready

ALL = [str(word) for word in Ability]


def takes_all(side: str, name: str) -> bool:
    return True


def by_name(programs: list[Program]) -> dict[str, Program]:
    return {program.name: program for program in programs}


@given(st.integers(1, 20))
def test_each_thing_comes_once_directly_after_each(count: int) -> None:
    found = Counter(pairwise(each_after_each(range(count))))
    assert found == {(one, other): 1 for one in range(count) for other in range(count)}


@given(st.integers(0, 1_000), st.sets(st.sampled_from(ALL)))
def test_every_program_is_lawful_and_of_what_the_client_can_do(seed: int, can: set[str]) -> None:
    made = usage(can, takes_all, seed)
    assert len(by_name(made)) == len(made)
    needs = {
        Do.SEND: "produce", Do.SUBSCRIBE: "subscribe", Do.SEEK: "seek", Do.PAUSE: "pause", Do.COMMIT: "commit",
        Do.BEGIN: "transactions", Do.COPY: "send-offsets",
    }  # fmt: skip
    for program in made:
        assert is_lawful(program, program.moves), program.name
        needs |= {Do.CANCEL_POLL: "cancel", Do.CANCEL_FLUSH: "cancel", Do.RESTART_IN_POLL: "overlap"}
        needs |= {Do.COMMIT_IN_POLL: "commit", Do.COMMIT_HALVES: "commit"}
        used = {needs[move.do] for move in program.moves if move.do in needs}
        used |= {"callers" for move in program.moves if move.callers > 1}
        assert used <= can | ({"produce"} if program.is_transactional else set()), program.name
    assert bool(made) == bool(can & {"produce", "subscribe", "transactions"})


def test_a_setting_is_alone_in_its_program_and_none_that_the_client_does_not_take() -> None:
    taken = {("producer", "batch.size"), ("consumer", "max.poll.records")}
    settings = [p for p in usage(ALL, lambda side, name: (side, name) in taken, 1) if "=" in p.name]
    assert {program.name.rpartition(", ")[2] for program in settings} == {
        "batch.size=0", "batch.size=1000", "max.poll.records=1",
    }  # fmt: skip
    usual = [
        copier().properties,
        {**PRODUCER, "enable.idempotence": "true"},
        *(group("g", is_automatic=it).properties for it in (True, False)),
    ]
    for program in settings:
        assert min(len(program.properties.items() - one.items()) for one in usual) == 1, program.name


def test_a_short_search_has_them_all_and_equal_seeds_give_equal_programs() -> None:
    made = usage(ALL, takes_all, 3)
    assert len(made) <= 185
    assert made == usage(ALL, takes_all, 3)
    assert made != usage(ALL, takes_all, 4)
    roles = [(program.role, program.is_transactional) for program in made[:9]]
    assert set(roles) == {
        (Role.PRODUCER, False), (Role.CONSUMER, False), (Role.PRODUCER, True), (Role.COPIER, True)
    }  # fmt: skip


def test_every_call_of_a_group_comes_after_every_other_one() -> None:
    """Seek after seek, pause after a short poll: what a drawn program meets by chance."""
    moves = [p.moves for p in usage(ALL, takes_all, 1) if p.name.startswith("calls of a group")]
    moves = [one for one in moves if not any(move.do is Do.RESTART_IN_POLL for move in one)]
    pairs = {(one.do, other.do) for program in moves for one, other in pairwise(program)}
    calls = {Do.SEEK, Do.PAUSE, Do.RESUME, Do.COMMIT, Do.GLANCE, Do.POLL, Do.ARRIVE, Do.READ, Do.RESTART}
    begins = {call if call is not Do.RESTART else Do.SUBSCRIBE: call for call in calls}
    assert {(first, second) for first in begins for second in calls} <= pairs
    assert all(program[0].do is Do.SUBSCRIBE and program[-1].do is Do.READ for program in moves)
    assert any(
        one.do is other.do is Do.SEEK and one.partition != other.partition for m in moves for one, other in pairwise(m)
    )
    assert CONSUMER["auto.offset.reset"] == "earliest"  # else a skip may be lawful


def test_a_client_that_can_do_several_things_at_once_is_asked_to() -> None:
    """Each call of a reader that is made beside a poll directly after each other one, and each setting of a producer
    with several callers."""
    made = usage(ALL, takes_all, 1)
    moves = [program.moves for program in made if program.name.startswith("calls of a group at once")]
    pairs = {(one.do, other.do) for program in moves for one, other in pairwise(program)}
    at_once = {Do.CANCEL_POLL, Do.COMMIT_IN_POLL, Do.COMMIT_HALVES}
    assert {(first, second) for first in at_once for second in at_once} <= pairs
    assert {(Do.SUBSCRIBE, second) for second in at_once} <= pairs  # of a restart while a poll waits
    bursts = [program for program in made if "burst of 4 callers" in program.name]
    assert {move.callers for program in bursts for move in program.moves if move.do is Do.SEND} == {4}
    assert len(bursts) == 1 + sum("producer, burst, " in program.name for program in made)
    assert any(move.do is Do.CANCEL_FLUSH for program in made for move in program.moves)


def test_a_client_that_does_one_thing_at_a_time_is_asked_for_nothing_else() -> None:
    can = set(ALL) - {"overlap", "cancel", "callers"}
    moves = [move for program in usage(can, takes_all, 1) for move in program.moves]
    at_once = {Do.CANCEL_POLL, Do.CANCEL_FLUSH, Do.COMMIT_IN_POLL, Do.COMMIT_HALVES, Do.RESTART_IN_POLL}
    assert not at_once & {move.do for move in moves}
    assert {move.callers for move in moves} == {1}


def test_polls_of_one_record_are_in_every_second_program_that_reads_and_where_most_applications_have_them() -> None:
    """Not where a setting is alone, nor where polls are short; and nobody is asked for them that does not have them."""
    made = usage(ALL, takes_all, 1)
    one_by_one = [program for program in made if program.is_one_by_one]
    without = usage(set(ALL) - {"one-by-one"}, takes_all, 1)
    assert [p.moves for p in made] == [p.moves for p in without]
    assert not any(program.is_one_by_one for program in without)
    assert 40 <= len(one_by_one) <= 60
    roles = Counter(program.role for program in one_by_one)
    assert roles[Role.CONSUMER] >= 30
    assert roles[Role.COPIER] >= 5
    assert roles[Role.PRODUCER] == 0
    assert not any("=" in program.name or "short polls" in program.name for program in one_by_one)
    families = {family_of(program) for program in one_by_one}
    assert {"calls of a group, one by one", "calls of a copier, one by one"} <= families
    assert [program.name for program in plain(ALL, ["*"]) if program.is_one_by_one] == ["group, automatic commits"]
    drawn_ones = [(drawn(ALL, seed), drawn(set(ALL) - {"one-by-one"}, seed)) for seed in range(100)]
    assert all(one == replace(other, is_one_by_one=one.is_one_by_one) for one, other in drawn_ones if one and other)
    assert 20 <= sum(one is not None and one.is_one_by_one for one, _ in drawn_ones) <= 60


def test_every_thing_that_others_do_in_transactions_comes_after_every_call_of_a_reader() -> None:
    """A reader has to get past what is given up and past the markers, wherever it stands; the last one is given."""
    programs = [p for p in usage(ALL, takes_all, 1) if "transactions of others" in p.name]
    pairs = {(one.do, other.do) for program in programs for one, other in pairwise(program.moves)}
    writes = {Do.ARRIVE_ABORTED, Do.ARRIVE_COMMITTED, Do.ARRIVE}
    assert {(first, second) for first in writes | {Do.POLL, Do.READ, Do.COMMIT} for second in writes} <= pairs
    for program in programs:
        assert program.properties["isolation.level"] == "read_committed"
        assert [move.do for move in program.moves[-2:]] == [Do.ARRIVE, Do.READ]
    of_old = usage(ALL, lambda side, name: name != "isolation.level", 1)
    assert not any(program.has_transactions_of_others for program in of_old)  # what it would be given is not known


def test_an_application_that_works_longer_than_it_may_is_there_alone_and_beside_another_one() -> None:
    slow = [p for p in usage(ALL, takes_all, 1) if "max.poll.interval.ms" in p.properties and p.role is Role.CONSUMER]
    assert [program.members for program in slow] == [1, 2]
    for program in slow:
        longest_ms = max(move.count for move in program.moves if move.do is Do.WORK)
        allowed_ms = int(program.properties["max.poll.interval.ms"])
        assert int(program.properties["session.timeout.ms"]) < allowed_ms < longest_ms
        assert program.moves[-1].do is Do.READ  # it has to come back
    assert not any("works long" in p.name for p in usage(ALL, lambda side, name: False, 1))


def copiers(programs: list[Program]) -> list[Program]:
    return [program for program in programs if program.role is Role.COPIER]


def test_the_brokers_protocol_of_groups_meets_restarts_commits_of_both_kinds_and_short_polls() -> None:
    """Many clients have it as a second implementation beside the first one, with bugs of its own."""
    made = [each for each in usage(ALL, takes_all, 5) if each.properties.get("group.protocol") == "consumer"]
    readers = [each for each in made if each.role is Role.CONSUMER and each.members == 1]
    assert {each.name.rpartition(", ")[0] for each in readers} == {
        "group, short polls", "group, polls that do not wait", "group, commits itself", "group, automatic commits",
    }  # fmt: skip
    for program in readers:
        assert "session.timeout.ms" not in program.properties  # the brokers decide on it
    assert not any(
        each.properties.get("group.protocol") == "consumer"
        for each in usage(ALL, lambda side, name: name != "group.protocol", 5)
    )


def test_every_transaction_of_a_copier_comes_after_every_other_one() -> None:
    """A commit after one that was given up, an empty one after one that a killed client left open, and so on."""
    made = [program for program in copiers(usage(ALL, takes_all, 1)) if program.name.startswith("calls of")]
    ends = (Do.COMMIT_TRANSACTION, Do.ABORT_TRANSACTION, Do.RESTART, Do.KILL)

    def transactions(program: Program) -> list[tuple[int, Do]]:
        """How many copies are asked for, and how it ends."""
        found, copies = [], 0
        for move in program.moves:
            copies += move.do is Do.COPY
            if move.do in ends:
                found.append((copies, move.do))
                copies = 0
        return found

    kinds = {kind for program in made for kind in transactions(program)}
    assert kinds == {
        (1, Do.COMMIT_TRANSACTION), (2, Do.COMMIT_TRANSACTION), (0, Do.COMMIT_TRANSACTION), (1, Do.ABORT_TRANSACTION),
        (0, Do.ABORT_TRANSACTION), (1, Do.RESTART), (1, Do.KILL),
    }  # fmt: skip
    pairs = {pair for program in made for pair in pairwise(transactions(program))}
    assert {(one, other) for one in kinds for other in kinds} <= pairs
    for program in made:
        assert [move.count for move in program.moves if move.do is Do.COPY][-1] == 0  # All is copied at last.


def test_a_setting_of_a_copier_keeps_what_its_transactions_need() -> None:
    made = copiers(usage(ALL, takes_all, 1))
    assert {program.properties["isolation.level"] for program in made} == {"read_committed"}
    assert {program.properties["enable.auto.commit"] for program in made} == {"false"}
    assert {program.properties["enable.idempotence"] for program in made} == {"true"}
    (slow,) = [program for program in made if "works long" in program.name]
    assert slow.members == 2
    (static,) = [program for program in made if program.properties.get("group.instance.id") == OWN]
    (by_brokers,) = [program for program in made if program.properties.get("group.protocol") == "consumer"]
    assert static.members == by_brokers.members == 2
    assert "session.timeout.ms" not in by_brokers.properties  # clients refuse it there
    assert not copiers(usage(ALL, lambda side, name: name != "isolation.level", 1))


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_no_program_asks_for_an_idempotence_that_the_client_does_not_know(is_idempotent: bool) -> None:
    names = ["linger.ms", "batch.size", "delivery.timeout.ms", *["enable.idempotence"] * is_idempotent]
    ready = Ready.model_validate(
        {
            "event": "ready", "at_us": 0, "protocol": 1, "client": "plain", "version": "1",
            "can": ["produce", "partition", "callers"], "properties": {"producer": names, "consumer": []},
        }
    )  # fmt: skip
    search = search_of(ready, programs_of(ready), Place(engine="reference", releases=()), Corpus(), seed=1)
    asked = set()
    for number in range(300):
        task = search.next_task()
        assert task is not None
        asked.add(task.trial.program.properties.get("enable.idempotence"))
        uses = {"Produce": Use(requests=8, version=9)}
        search.learn(task, History(happened=(), log=(), disturbed=1), uses, duration_s=float(number % 3))
    assert ("true" in asked) is is_idempotent
    assert "false" in asked


@pytest.mark.parametrize(
    ("place", "is_there"),
    [
        (Place(engine="reference", releases=()), True),
        (Place(engine="kafka", releases=("4.0.0",)), True),
        (Place(engine="kafka", releases=("4.0.0", "3.9.1")), False),
    ],
)
@pytest.mark.parametrize("role", [Role.CONSUMER, Role.COPIER])
def test_nobody_asks_for_the_brokers_protocol_where_they_do_not_have_it(
    place: Place, is_there: bool, role: Role
) -> None:
    """Apache Kafka 3.9 answers it by UNSUPPORTED_VERSION, and the Java client was said to make no progress."""
    can = [
        "subscribe",
        "commit",
        "assign",
        *["produce", "seek", "transactions", "send-offsets"] * (role is Role.COPIER),
    ]
    ready = Ready.model_validate(
        {
            "event": "ready", "at_us": 0, "protocol": 1, "client": "plain", "version": "1",
            "can": can, "properties": {"producer": ["*"], "consumer": ["*"]},
        }
    )  # fmt: skip
    made = usage(can, ready.takes, 1)
    asks = next(one for one in made if one.role is role and one.properties.get("group.protocol") == "consumer")
    corpus = Corpus(findings=[Trial(program=asks)])
    search = search_of(ready, programs_of(ready), place, corpus, seed=1)
    asked = set()
    for _ in range(600):
        task = search.next_task()
        assert task is not None
        asked.add((task.trial.program.role, task.trial.program.properties.get("group.protocol")))
        search.learn(task, History(happened=(), log=(), disturbed=1), {"Fetch": Use(requests=8, version=9)})
    assert ((role, "consumer") in asked) is is_there

"""Brokers that die, hang and are cut off from the others: the programs, the cluster of their own, and what is done."""

from __future__ import annotations

import itertools
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workloads.clients.process
from broker.door.clients import KafkaError, TopicPartition
from broker.door.protocol import ErrorCode
from chaos.lease import Lease
from harness.errors import EnvironmentFault
from harness.explore.execution import bench as module_of_the_bench
from harness.explore.execution.bench import Bench, Evidence, committed_by
from harness.explore.execution.benches import NOT_STARTED, Benches
from harness.explore.generators.broker_deaths import RACKS, REPLICAS, broker_deaths
from harness.explore.generators.cluster_moves import SENDS_MAX, sends
from harness.explore.generators.programs import plain
from harness.explore.generators.shrink import is_lawful, smaller
from harness.explore.oracles.oracles import Kind, suspicions
from harness.explore.trial.history import Changed, History
from harness.explore.trial.model import Do, Move, Program, Role, Trial, from_document, to_document
from harness.explore.trial.topics import Topics

ABILITIES = ("produce", "partition", "assign", "subscribe", "seek", "pause", "commit", "transactions", "send-offsets")
PROGRAMS = plain(ABILITIES, ["group.protocol", "isolation.level"])
BY_NAME = {program.name: program for program in PROGRAMS}
CLIENT = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@given(st.integers(0, 1_000))
def test_programs_in_which_a_broker_dies_are_lawful_and_their_control_has_the_same_topic(seed: int) -> None:
    made = list(itertools.islice(broker_deaths(PROGRAMS, seed), 10 * len(PROGRAMS)))
    for one in made:
        assert is_lawful(one, one.moves)
        assert one.changes
        assert one.replicas == Trial(program=one).control.program.replicas == REPLICAS
        assert from_document(json.loads(json.dumps(to_document(Trial(program=one))))).program == one
    assert {move.do for one in made for move in one.changes} == {Do.DIE, Do.DIE_ALL, Do.HANG, Do.ISOLATE, Do.LAG}


def test_each_program_has_its_coordinator_die_if_it_has_one() -> None:
    made = list(itertools.islice(broker_deaths(PROGRAMS, 3), 12 * len(PROGRAMS)))
    for program in (one for one in PROGRAMS if sends(one) <= SENDS_MAX):
        mine = [one for one in made if one.name.startswith(f"{program.name}, ")]
        is_coordinated = program.role is not Role.PRODUCER or program.is_transactional
        assert any(move.do is Do.DIE and move.partition < 0 for one in mine for move in one.changes) is is_coordinated
        assert any(move.do is Do.DIE and move.partition >= 0 for one in mine for move in one.changes)


def test_some_of_each_that_reads_are_given_their_records_by_followers() -> None:
    made = list(itertools.islice(broker_deaths(PROGRAMS, 3), 12 * len(PROGRAMS)))
    for program in (one for one in PROGRAMS if sends(one) <= SENDS_MAX):
        racks = [one.properties.get("client.rack") for one in made if one.name.startswith(f"{program.name}, ")]
        if program.role is Role.PRODUCER:
            assert set(racks) == {None}
        else:
            assert None in racks
            assert set(racks) & set(RACKS)


def test_there_is_no_end_to_them_and_none_without_a_program() -> None:
    two = [BY_NAME["producer, idempotent"]]
    made = list(itertools.islice(broker_deaths(two, 1), 40))
    assert len(made) == 40
    assert len({one.moves for one in made}) > 20
    assert list(broker_deaths([], 1)) == []


def test_where_a_leader_moves_to_no_other_replica_may_be() -> None:
    """A trial with three replicas has none of the moves that move the only one, and one with one replica no death."""
    one = BY_NAME["producer, idempotent"]
    assert not is_lawful(one, [Move(do=Do.DIE, partition=0)])
    assert not is_lawful(replace(one, replicas=3), [Move(do=Do.MOVE_LEADER, partition=0)])
    assert is_lawful(replace(one, replicas=3), [Move(do=Do.DIE, partition=0)])


def test_made_smaller_it_keeps_its_replicas() -> None:
    trial = Trial(program=next(broker_deaths([BY_NAME["transactions"]], 1)))
    candidates = list(smaller(trial))
    assert candidates
    assert {candidate.program.replicas for candidate in candidates} == {REPLICAS}


# --- two clusters -----------------------------------------------------------------------------------------------------


class Recorded:
    """It notes its trials, and waits in each for `go`."""

    version = "1"
    dropped_log_bytes = 5

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.at_once = self.at_once_max = 0
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Semaphore(0)
        self.are_given_up = False

    def end_warm(self) -> Sequence[str]:
        return ()

    def give_up(self) -> None:
        self.are_given_up = True

    def run(self, trial: Trial, number: int, *, may_be_warm: bool = False) -> Evidence:
        self.numbers.append(number)
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        self.begun.release()
        assert self.go.wait(20)
        self.at_once -= 1
        return Evidence(history=History(happened=(), log=()), uses={}, duration_s=1.0)


DEADLY = Trial(program=next(broker_deaths([BY_NAME["producer, idempotent"]], 1)))
USUAL = Trial(program=BY_NAME["producer, idempotent"])


def test_the_cluster_whose_brokers_die_is_started_with_the_first_such_trial_and_stopped() -> None:
    shared, own, steps = Recorded(), Recorded(), []

    @contextmanager
    def start() -> Iterator[Recorded]:
        steps.append("started")
        yield own
        steps.append("stopped")

    with Benches(shared, start) as benches:
        benches.run(USUAL, 1)
        assert (steps, benches.dropped_log_bytes) == ([], 5)
        benches.run(DEADLY, 2)
        benches.run(DEADLY.control, 3)
        benches.run(USUAL, 4)
        assert (steps, benches.dropped_log_bytes) == (["started"], 10)
    assert steps == ["started", "stopped"]
    assert (shared.numbers, own.numbers) == ([1, 4], [2, 3])


def test_two_trials_in_which_brokers_die_wait_for_one_another_and_others_do_not() -> None:
    shared, own = Recorded(), Recorded()
    own.go.clear()

    @contextmanager
    def start() -> Iterator[Recorded]:
        yield own

    with Benches(shared, start) as benches:
        threads = [threading.Thread(target=benches.run, args=(DEADLY, number)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        assert own.begun.acquire(timeout=20)
        benches.run(USUAL, 3)
        assert len(own.numbers) == 1
        own.go.set()
        for thread in threads:
            thread.join(20)
    assert (sorted(own.numbers), own.at_once_max, shared.numbers) == ([1, 2], 1, [3])


def test_trials_of_both_clusters_are_given_up_also_while_the_second_one_is_being_started() -> None:
    shared, own = Recorded(), Recorded()
    starts, go = threading.Event(), threading.Event()

    @contextmanager
    def start() -> Iterator[Recorded]:
        starts.set()
        assert go.wait(20)
        yield own

    with Benches(shared, start) as benches:
        thread = threading.Thread(target=benches.run, args=(DEADLY, 1))
        thread.start()
        assert starts.wait(20)
        benches.give_up()
        assert shared.are_given_up
        go.set()
        thread.join(20)
        assert own.are_given_up
        own.are_given_up = False
        benches.give_up()
        assert own.are_given_up


def test_without_that_cluster_such_trials_prove_nothing_and_it_is_asked_for_once() -> None:
    asked: list[int] = []

    @contextmanager
    def start() -> Iterator[Recorded]:
        asked.append(1)
        raise EnvironmentFault("no room")
        yield Recorded()

    with Benches(Recorded(), start) as benches:
        problems = [benches.run(DEADLY, number).history.problem for number in (1, 2)]
        assert not benches.run(USUAL, 3).history.problem
    assert problems == [f"{NOT_STARTED}: no room"] * 2
    assert len(asked) == 1


class Coordinated:
    """An admin whose group has no coordinator at first."""

    def __init__(self, failures: int) -> None:
        self.groups, self._left = self, failures

    def offsets(self, group: str) -> dict[TopicPartition, SimpleNamespace]:
        self._left -= 1
        if self._left >= 0:
            raise KafkaError(ErrorCode.coordinator_not_available, "nobody")
        return {
            TopicPartition("t", 1): SimpleNamespace(offset=7),
            TopicPartition("other", 1): SimpleNamespace(offset=9),
        }


def test_what_a_group_has_committed_is_asked_until_somebody_coordinates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert committed_by(Coordinated(3), "g", Topics(("t",), 3)) == {1: 7}  # type: ignore[arg-type]
    monkeypatch.setattr(module_of_the_bench, "COMMITTED_WITHIN_S", 0.0)
    with pytest.raises(KafkaError):
        committed_by(Coordinated(1_000), "g", Topics(("t",), 3))  # type: ignore[arg-type]


# --- real brokers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("deaths")
    lease = Lease(directory / "leases")
    command = [sys.executable, str(CLIENT)]
    with Bench(command, environment={}, engine="reference", directory=directory / "cluster", lease=lease) as made:
        yield made
    lease.close()


NUMBERS = itertools.count(1)


def program_with(name: str, *moves: Move) -> Program:
    program = replace(BY_NAME[name], replicas=REPLICAS)
    place = len(program.moves) // 2
    return replace(program, moves=(*program.moves[:place], *moves, *program.moves[place:]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moves", "told"),
    [
        (
            "producer, idempotent",
            (Move(do=Do.DIE, partition=0, count=500),),
            ["broker N died", "broker N was started again", "all replicas are in sync"],
        ),
        ("transactions", (Move(do=Do.DIE),), ["broker N died", "others lead what broker N led"]),
        (
            "group, commits itself",
            (Move(do=Do.HANG, count=500),),
            ["broker N hangs", "broker N goes on", "all replicas are in sync"],
        ),
        (
            "producer, idempotent",
            (Move(do=Do.LAG, partition=1, count=50), Move(do=Do.ISOLATE, partition=1, count=500)),
            [
                "replication from broker N lags by 50 ms",
                "broker N is cut off from the other brokers",
                "broker N reaches the others again",
                "all replicas are in sync",
            ],
        ),
        (
            "group, automatic commits",
            (Move(do=Do.DIE_ALL, count=500),),
            ["every broker died", "every broker was started again", "all replicas are in sync"],
        ),
    ],
    ids=["dies", "dies for good", "hangs", "lags and is isolated", "all die"],
)
def test_a_right_client_is_not_accused(bench: Bench, name: str, moves: tuple[Move, ...], told: list[str]) -> None:
    """Afterwards all brokers run, so the next trial has a whole cluster."""
    trial = Trial(program=program_with(name, *moves, Move(do=Do.SETTLE)))
    history = bench.run(trial, next(NUMBERS)).history
    assert history.problem == ""
    changes = [one.what for one in history.happened if isinstance(one, Changed)]
    assert ["".join("N" if part.isdigit() else part for part in _parts(what)) for what in changes] == told
    assert suspicions(trial, history) == []
    assert all(bench._cluster.is_running(broker) for broker in (1, 2, 3))


def _parts(text: str) -> list[str]:
    """The broker's number by itself."""
    words = text.split("broker ")
    if len(words) == 1:
        return [text]
    return [words[0] + "broker ", words[1][0], words[1][1:]]


@pytest.mark.slow
def test_brokers_that_acknowledge_alone_lose_what_the_dead_one_had(tmp_path: Path) -> None:
    """With replication that lags, what was acknowledged in the moments before is nowhere else."""
    lease = Lease(tmp_path / "leases")
    sending = (Move(do=Do.SEND, count=10, partition=0), Move(do=Do.WAIT, count=25)) * 12
    lag, die = Move(do=Do.LAG, partition=0, count=2_000), Move(do=Do.DIE, partition=0)
    program = program_with("producer, one in flight", lag, *sending, die, Move(do=Do.SETTLE))
    with Bench(
        [sys.executable, str(CLIENT)],
        environment={},
        engine="reference",
        directory=tmp_path / "cluster",
        lease=lease,
        settings={"harness.mutant": "acknowledge_before_replication"},
    ) as wrong:
        trial = Trial(program=program)
        history = wrong.run(trial, 1).history
    lease.close()
    assert history.problem == ""
    assert Kind.LOST in [one.kind for one in suspicions(trial, history)]

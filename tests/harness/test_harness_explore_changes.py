"""`harness.explore.execution.cluster_changes`: what a cluster does in a trial is done, and accuses no right client."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import workloads.clients.process
from broker.door.questions import partition_for
from chaos.lease import Lease
from harness.explore.execution.bench import Bench
from harness.explore.execution.cluster_changes import (
    COORDINATOR_PARTITIONS,
    GROUPS,
    TRANSACTIONS,
    Changes,
    Coordinators,
    left_s,
)
from harness.explore.generators.programs import OWN, plain
from harness.explore.oracles.oracles import suspicions
from harness.explore.trial.history import Changed, Connected, Delivered, History
from harness.explore.trial.model import Do, Move, Program, Trial
from harness.explore.trial.topics import Topics
from workloads.clients.process.messages import Ability

CLIENT = Path(workloads.clients.process.__file__).parent / "shipped" / "python" / "client.py"
PROGRAMS = {program.name: program for program in plain([str(word) for word in Ability], ["group.protocol"])}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("changes")
    lease = Lease(directory / "leases")
    command = [sys.executable, str(CLIENT)]
    with Bench(command, environment={}, engine="reference", directory=directory / "cluster", lease=lease) as made:
        yield made
    lease.close()


def with_moves(program: Program, *moves: Move) -> Trial:
    """The moves of the cluster early in the program."""
    return Trial(program=replace(program, moves=(*program.moves[:3], *moves, *program.moves[3:])))


def changes_in(history: History) -> str:
    return "; ".join(one.what for one in history.happened if isinstance(one, Changed))


def test_no_two_trials_have_their_coordinator_in_one_partition() -> None:
    given = Coordinators()
    names = [given.take(f"explore-{number}-group", GROUPS) for number in range(40)]
    partitions = {partition_for(name, COORDINATOR_PARTITIONS) for name in names}
    assert len(partitions) == 40
    given.give_back(names[0])
    assert given.take(names[0], GROUPS) == names[0]


def test_as_many_trials_as_may_run_side_by_side_have_coordinators_of_their_own() -> None:
    """32 is the most that `--jobs` takes; the writer of transactions has one for the whole search."""
    given = Coordinators()
    ids = [given.take("explore-others", TRANSACTIONS)]
    for number in range(32):
        given.take(f"explore-{number}-group", GROUPS)
        ids.append(given.take(f"explore-{number}-id", TRANSACTIONS))
    assert len({partition_for(name, COORDINATOR_PARTITIONS) for name in ids}) == 33


def test_a_busy_host_does_not_make_a_broker_unreachable_for_longer() -> None:
    assert [left_s(5_000, placed_s) for placed_s in (0.0, 1.5, 20.0)] == [5.0, 3.5, 0.0]


def test_a_coordinator_is_where_it_is_wished_for_if_there_is_a_place() -> None:
    given = Coordinators()
    wished = {3, 7}
    names = [given.take(f"explore-{number}-group", GROUPS, fits=wished.__contains__) for number in range(3)]
    partitions = [partition_for(name, COORDINATOR_PARTITIONS) for name in names]
    assert set(partitions[:2]) == wished
    assert partitions[2] not in wished


def test_all_brokers_are_those_that_the_client_has_not_lost_already() -> None:
    """The proxies of a lost one are closed for good: they take no second toxic of the same name."""
    cluster = SimpleNamespace(broker_addresses=[], probe_of_leader=None, broker_ids=(3, 1, 2))
    closed: list[list[int]] = []
    changes = Changes(
        Topics(("t",), 2),
        cluster=cluster,  # type: ignore[arg-type]
        own=None,  # type: ignore[arg-type]
        coordinators=(),
        unreachable=lambda do, brokers: closed.append(sorted(brokers)) or (lambda: None),
        between=lambda kind, links, attributes: lambda: None,
        refuse=lambda broker: lambda: None,
        copy=lambda *_: (),
        note=lambda _: None,
        ends={0: 0},
    )
    for lost in (None, 2):
        changes._lost = lost
        changes._carry_out(Move(do=Do.CUT_ALL))
        changes._carry_out(Move(do=Do.FREEZE_ALL))
    assert closed == [[1, 2, 3], [1, 2, 3], [1, 3], [1, 3]]


@pytest.mark.parametrize("move", [Move(do=Do.LOSE, partition=0), Move(do=Do.MOVE_LEADER, partition=0)])
def test_the_leaders_of_a_copiers_output_move_with_those_of_its_input(move: Move) -> None:
    """Otherwise a producer would wait for a broker that it cannot reach, and be told to make no progress."""
    leaders = {("t", 0): 1, ("t", 1): 2, ("copies", 0): 3, ("copies", 1): 1}
    topics = SimpleNamespace(
        replicas_of=lambda topic: {partition: (at,) for (of, partition), at in leaders.items() if of == topic},
        set_replicas=lambda topic, wanted: leaders.update({(topic, each): at for each, (at,) in wanted.items()}),
        partition_count=lambda topic: 2,
    )
    cluster = SimpleNamespace(
        broker_addresses=[],
        probe_of_leader=None,
        broker_ids=(1, 2, 3),
        leader=lambda topic, partition: leaders[topic, partition],
    )
    before = dict(leaders)
    changes = Changes(
        Topics(("t",), 2),
        cluster=cluster,  # type: ignore[arg-type]
        own=None,  # type: ignore[arg-type]
        coordinators=(),
        output="copies",
        unreachable=lambda do, brokers: lambda: None,
        between=lambda kind, links, attributes: lambda: None,
        refuse=lambda broker: lambda: None,
        copy=lambda *_: (),
        note=lambda _: None,
        ends={0: 0, 1: 0},
    )
    changes._topics = topics  # type: ignore[assignment]
    changes._carry_out(move)
    moved = {place for place in leaders if leaders[place] != before[place]}
    if move.do is Do.LOSE:
        assert moved == {place for place in before if before[place] == 1}
        assert 1 not in leaders.values()
    else:
        assert moved == {("t", 0), ("copies", 0)}


@pytest.mark.slow
def test_each_move_of_the_cluster_is_made_and_a_right_client_stands_it(bench: Bench) -> None:
    group, producer = PROGRAMS["group, commits itself"], PROGRAMS["producer, idempotent"]
    expected = {
        "the leader of partition 0 moved": with_moves(group, Move(do=Do.MOVE_LEADER, partition=0)),
        "the coordinator moved": with_moves(group, Move(do=Do.MOVE_COORDINATOR)),
        "the coordinator moved from": with_moves(PROGRAMS["transactions"], Move(do=Do.MOVE_COORDINATOR)),
        "the topic has 5 partitions": with_moves(group, Move(do=Do.ADD_PARTITIONS, count=2)),
        "partition 1 begins at offset": with_moves(group, Move(do=Do.DELETE_RECORDS, partition=1, count=5)),
        "closes connections": with_moves(group, Move(do=Do.CUT, count=1_000)),
        "closes connections for good": with_moves(group, Move(do=Do.LOSE)),
        "for good; the leader of partition 0 moved": with_moves(producer, Move(do=Do.LOSE, partition=0)),
        "; the coordinator moved from broker": with_moves(PROGRAMS["transactions"], Move(do=Do.LOSE)),
        "every broker closes connections": with_moves(producer, Move(do=Do.CUT_ALL, count=1_000)),
        "every broker is silent": with_moves(group, Move(do=Do.FREEZE_ALL, count=1_000)),
        "is silent": with_moves(producer, Move(do=Do.FREEZE, partition=1, count=1_000)),
        "deleted and created anew": with_moves(producer, Move(do=Do.RECREATE)),
    }
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], pair[0]), enumerate(expected.values())))
    for (what, trial), evidence in zip(expected.items(), found, strict=True):
        assert evidence.history.problem == "", what
        assert what in changes_in(evidence.history)
        assert [str(one) for one in suspicions(trial, evidence.history)] == [], what


@pytest.mark.slow
def test_what_a_topic_gets_later_does_not_stay_on_a_lost_broker(bench: Bench) -> None:
    producer, lost = PROGRAMS["producer, idempotent"], Move(do=Do.LOSE, partition=0)
    trials = [
        with_moves(producer, lost, Move(do=Do.ADD_PARTITIONS, count=3), Move(do=Do.MOVE_LEADER, partition=0)),
        with_moves(producer, lost, Move(do=Do.RECREATE)),
    ]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], pair[0] + 200), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        assert evidence.history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, evidence.history)] == [], str(trial)


@pytest.mark.slow
@pytest.mark.long
def test_members_share_the_partitions_and_a_right_client_is_not_accused(bench: Bench) -> None:
    """They come, freeze beyond their session, are killed and leave; in both protocols, and with static membership."""
    two = PROGRAMS["group of two"]
    frozen = (Move(do=Do.SLEEP, count=4_000, member=1), Move(do=Do.ARRIVE, count=9), Move(do=Do.READ))
    killed = (Move(do=Do.KILL, member=1), Move(do=Do.SUBSCRIBE, member=1), Move(do=Do.ARRIVE, count=9))
    short = {**two.properties, "session.timeout.ms": "3000"}
    wild = replace(two, moves=(*two.moves[:8], *frozen, *killed, *two.moves[8:]), properties=short)
    static = replace(wild, properties={**short, "group.instance.id": OWN})
    trials = [Trial(program=one) for one in (two, wild, static, PROGRAMS["group of two, the brokers' protocol"])]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: bench.run(pair[1], pair[0] + 100), enumerate(trials)))
    for trial, evidence in zip(trials, found, strict=True):
        history = evidence.history
        assert history.problem == "", str(trial)
        assert [str(one) for one in suspicions(trial, history)] == [], str(trial)
        assert {one.member for one in history.happened if isinstance(one, Connected)} == {0, 1}
        read = {(one.partition, one.offset) for one in history.happened if isinstance(one, Delivered)}
        assert read == {(record.partition, record.offset) for record in history.log}, str(trial)
        assert {one.member for one in history.happened if isinstance(one, Delivered)} == {0, 1}, str(trial)

"""Programs in the middle of which a broker dies, hangs, or is cut off from the others. Each has a cluster for itself
(benches.py).

To a client it is more than a broker that it cannot reach. Metadata does not name a dead broker any more, what it had
acknowledged alone is gone, and one that hangs or is isolated goes on for a while as if it still led. Replication lags
in some of them, because in a few milliseconds there is little that only the leader has. Some read from followers
(KIP-392), which may die, lag behind, or be what a leader's successor was. Records are given while it happens, so that
some are under way at that moment. Pure. Shown by tests/harness/test_harness_explore_deaths.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from harness.explore.generators.cluster_moves import SENDS_MAX, has_coordinator, sends, without_frequent_metadata
from harness.explore.generators.shrink import is_lawful
from harness.explore.trial.model import Do, Move, Program, Role

REPLICAS: Final = 3
RACKS: Final = ("a", "b", "c")  # of the brokers of every bench; a reader in one of them reads from the replica there
_FROM_FOLLOWERS: Final = 0.4  # of the programs that read
SOON_MS, LATER_MS = 1_000, 6_000  # before others take its place, and after that: a session of a broker is 2.5 s
HANGS_MS: Final = 6_000
LAGS_MS: Final = 1_500  # What is acknowledged in that time only the leader has. Replicas stay in sync for 4 s.
_COORDINATOR: Final = -1
_BESIDE: Final = 12  # so many times some records while it happens
_BESIDE_RECORDS: Final = 10
_BESIDE_MS: Final = 25


def broker_deaths(programs: Sequence[Program], seed: int) -> Iterator[Program]:
    """Without end: each program with each of these events, the programs in turn, then the same at other places. What
    happens needs time in a program, and not mass."""
    programs = [one for one in programs if one.role is not Role.PROGRAM and sends(one) <= SENDS_MAX]
    while True:
        lists = [_each(program, random.Random(seed * 1_009 + number)) for number, program in enumerate(programs)]
        if not lists:
            return
        yield from (one for each in zip_longest(*lists) for one in each if one is not None)
        seed += 1


def _each(program: Program, rng: random.Random) -> list[Program]:
    leader = rng.randrange(program.partitions * program.topics)
    events = events_of(leader, is_coordinated=has_coordinator(program), rng=rng)
    return [_with(program, struck, rng) for struck in events]


def events_of(leader: int, *, is_coordinated: bool, rng: random.Random) -> list[tuple[Move, ...]]:
    """In an order that is drawn. `leader`: the partition whose leader it is about."""
    events: list[tuple[Move, ...]] = [
        (Move(do=Do.DIE, partition=leader, count=LATER_MS),),
        (Move(do=Do.DIE, partition=leader),),
        (Move(do=Do.HANG, partition=leader, count=HANGS_MS),),
        (Move(do=Do.ISOLATE, partition=leader, count=HANGS_MS),),
        (Move(do=Do.LAG, partition=leader, count=LAGS_MS), Move(do=Do.DIE, partition=leader, count=LATER_MS)),
        (Move(do=Do.DIE, partition=leader, count=SOON_MS),),
        (Move(do=Do.DIE_ALL, count=LATER_MS),),
        (Move(do=Do.DIE, partition=leader, count=SOON_MS), Move(do=Do.SETTLE), Move(do=Do.DIE, partition=leader)),
    ]
    if is_coordinated:
        events += [
            (Move(do=Do.DIE, partition=_COORDINATOR, count=LATER_MS),),
            (Move(do=Do.DIE, partition=_COORDINATOR),),
            (Move(do=Do.HANG, partition=_COORDINATOR, count=HANGS_MS),),
            (Move(do=Do.ISOLATE, partition=_COORDINATOR, count=HANGS_MS),),
            (Move(do=Do.LAG, partition=_COORDINATOR, count=LAGS_MS), Move(do=Do.DIE, partition=_COORDINATOR)),
        ]
    rng.shuffle(events)
    return events


def _with(program: Program, struck: tuple[Move, ...], rng: random.Random) -> Program:
    """In the middle half of the program. Half of them go on only when the cluster is whole again."""
    program = without_frequent_metadata(replace(program, replicas=REPLICAS))
    is_from_followers = program.role is not Role.PRODUCER and rng.random() < _FROM_FOLLOWERS
    if is_from_followers:
        program = replace(program, properties={**program.properties, "client.rack": rng.choice(RACKS)})
    places = range(len(program.moves) // 4, len(program.moves) - len(program.moves) // 4 + 1)
    ending = (Move(do=Do.SETTLE),) if rng.random() < 0.5 else ()
    place = rng.choice(places)
    before, after = program.moves[:place], program.moves[place:]
    beside = _records_beside(program) if is_lawful(program, (*before, *_records_beside(program), *after)) else ()
    moves = (*before, struck[0], *beside, *struck[1:], *ending, *after)
    assert is_lawful(program, moves)
    what = " and ".join(str(move.do) for move in struck if move.do is not Do.SETTLE)
    is_of_coordinator = struck[0].partition == _COORDINATOR and struck[0].do is not Do.DIE_ALL
    of = ", the coordinator" if is_of_coordinator else ""
    where = ", from followers" if is_from_followers else ""
    return replace(program, name=f"{program.name}, {what}{of}{where}", moves=moves)


def _records_beside(program: Program) -> tuple[Move, ...]:
    if program.role is not Role.PRODUCER:
        return ()
    return (Move(do=Do.SEND, count=_BESIDE_RECORDS), Move(do=Do.WAIT, count=_BESIDE_MS)) * _BESIDE

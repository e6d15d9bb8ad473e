"""Programs on a cluster that does something meanwhile: each thing once in each program, and several drawn ones.

A drawn program meets a given thing, for example that the coordinator's broker is lost, in one of ten trials or so, and
then once in three where it can still do harm. A short search has about six such trials of each kind of program. So each
thing comes once by itself first, in the middle of the program. Half of them are followed by a wait until the cluster
has done it, because a client may notice it only in what it does afterwards. Pure. Shown by
tests/harness/test_harness_explore_cluster_moves.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from harness.explore.generators.shrink import is_lawful
from harness.explore.trial.model import Do, Move, Program, Role

_SHORT_MS, _LONG_MS = 2_500, 5_000  # beyond the request time-out of the programs; the latter near the session
_COORDINATOR: Final = -1
SENDS_MAX: Final = 1_000  # A program has at most so many if the cluster's moves are put into it.
# Done when the cluster says so, and not after a time that the program has to be under way in.
_LASTING: Final = (Do.MOVE_LEADER, Do.MOVE_COORDINATOR, Do.LOSE, Do.ADD_PARTITIONS, Do.DELETE_RECORDS, Do.RECREATE)


def each_change(programs: Sequence[Program], seed: int) -> list[Program]:
    """Each program with each single thing that the cluster can do to it, in an order that is drawn for each program;
    the programs in turn. A program that is somebody's own has no middle (own_program.py)."""
    lists = []
    for number, program in enumerate(one for one in programs if one.role is not Role.PROGRAM):
        rng = random.Random(seed * 1_009 + number)
        moves = _single(program, rng)
        rng.shuffle(moves)
        lists.append([_with(program, move, rng, is_awaited=place % 2 == 1) for place, move in enumerate(moves)])
    return [program for one_of_each in zip_longest(*lists) for program in one_of_each if program is not None]


def _single(program: Program, rng: random.Random) -> list[Move]:
    partition = rng.randrange(program.partitions * program.topics)
    moves = [
        Move(do=Do.MOVE_LEADER, partition=partition),
        Move(do=Do.LOSE, partition=partition),
        Move(do=Do.CUT, partition=partition, count=_SHORT_MS),
        Move(do=Do.FREEZE, partition=partition, count=_LONG_MS),
        Move(do=Do.CUT_ALL, count=_LONG_MS),
        Move(do=Do.FREEZE_ALL, count=_LONG_MS),
    ]
    moves += [Move(do=Do.ADD_PARTITIONS, count=1)] if _may_grow(program) else []
    if has_coordinator(program):
        moves += [
            Move(do=Do.MOVE_COORDINATOR),
            Move(do=Do.LOSE, partition=_COORDINATOR),
            Move(do=Do.CUT, partition=_COORDINATOR, count=_SHORT_MS),
            Move(do=Do.FREEZE, partition=_COORDINATOR, count=_LONG_MS),
        ]
    moves += [Move(do=Do.DELETE_RECORDS, partition=partition)] if _may_delete(program) else []
    return moves + ([Move(do=Do.RECREATE)] if _may_recreate(program) else [])


def _with(program: Program, move: Move, rng: random.Random, *, is_awaited: bool) -> Program:
    """In the middle half of the program, so that there is something to lose and something still to do."""
    count = len(program.moves)
    place = rng.randint(count // 4, count - count // 4)
    settle = Move(do=Do.SETTLE)
    added = (move, settle) if is_awaited and move.do in _LASTING else (move,)
    if move.do is Do.RECREATE:  # The new topic begins with lower leader epochs than the client has seen.
        added = (*(Move(do=Do.MOVE_LEADER, partition=each) for each in range(program.partitions)), settle, *added)
    moves = (*program.moves[:place], *added, *program.moves[place:])
    assert is_lawful(program, moves)
    program = without_frequent_metadata(program)
    of = " of the coordinator" if move.partition == _COORDINATOR and move.do in (Do.LOSE, Do.CUT, Do.FREEZE) else ""
    return replace(program, name=f"{program.name}, {move.do}{of}", moves=moves)


def without_frequent_metadata(program: Program) -> Program:
    """A producer that asks for Metadata every half second (programs.py) finds a new leader although it does not look
    for one. With the default of minutes it has to."""
    if program.role is not Role.PRODUCER:
        return program
    kept = {name: value for name, value in program.properties.items() if name != "metadata.max.age.ms"}
    return replace(program, properties=kept)


def sends(program: Program) -> int:
    return sum(move.count for move in program.moves if move.do is Do.SEND)


def has_coordinator(program: Program) -> bool:
    return program.role is not Role.PRODUCER or program.is_transactional


def _may_grow(program: Program) -> bool:
    return program.topics == 1


def _may_delete(program: Program) -> bool:
    return not program.is_transactional and not program.begins_at_end


def _may_recreate(program: Program) -> bool:
    return program.role is Role.PRODUCER and not program.is_transactional and program.topics == 1


# --- drawn ------------------------------------------------------------------------------------------------------------


def changed(programs: Sequence[Program], seed: int) -> Program:
    """One of these programs on a cluster that does one to three things meanwhile."""
    rng = random.Random(seed)
    program = rng.choice(programs)
    choices = [Do.MOVE_LEADER, Do.MOVE_LEADER, Do.CUT, Do.FREEZE, Do.LOSE, Do.CUT_ALL, Do.FREEZE_ALL]
    choices += [Do.ADD_PARTITIONS] if _may_grow(program) else []
    if has_coordinator(program):
        choices += [Do.MOVE_COORDINATOR, Do.MOVE_COORDINATOR, Do.CUT, Do.FREEZE, Do.LOSE]
    choices += [Do.DELETE_RECORDS] if _may_delete(program) else []
    choices += [Do.RECREATE] if _may_recreate(program) else []
    moves = list(program.moves)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        moves.insert(rng.randrange(len(moves) + 1), _change(rng, rng.choice(choices), program))
    assert is_lawful(program, moves)
    program = without_frequent_metadata(program)
    return replace(program, name=f"{program.name}, changed {seed}", moves=tuple(moves))


def _change(rng: random.Random, do: Do, program: Program) -> Move:
    partition = rng.randrange(program.partitions * program.topics)
    match do:
        case Do.ADD_PARTITIONS:
            return Move(do=do, count=rng.choice([1, 3]))
        case Do.DELETE_RECORDS:
            return Move(do=do, partition=partition, count=rng.choice([0, 0, 5]))
        case Do.CUT | Do.FREEZE | Do.LOSE:
            of_coordinator = rng.random() < 0.5 and has_coordinator(program)
            count = 0 if do is Do.LOSE else rng.choice([500, _SHORT_MS, _LONG_MS])
            return Move(do=do, partition=_COORDINATOR if of_coordinator else partition, count=count)
        case Do.CUT_ALL | Do.FREEZE_ALL:
            return Move(do=do, count=rng.choice([500, _SHORT_MS, _LONG_MS]))
        case Do.MOVE_LEADER:
            return Move(do=do, partition=partition)
        case _:
            return Move(do=do)

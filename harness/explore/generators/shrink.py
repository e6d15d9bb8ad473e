"""Smaller trials that may fail as a given one does. Pure. Shown by tests/harness/test_harness_explore_search.py.

Delta debugging (Zeller and Hildebrandt, 2002) over the moves, in halves, quarters and so on, after the steps that help
most: one disturbance instead of two, none at all, one request instead of many, the first instead of a later one. A
candidate that is not a lawful program is not offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from harness.explore.trial.model import Disturbance, Do, Move, Program, Role, Trial

# What they do is less with a smaller count.
COUNTED: Final = (
    Do.SEND, Do.READ, Do.READ_SHORT, Do.READ_NOW, Do.POLL, Do.ARRIVE, Do.ARRIVE_COMMITTED, Do.ARRIVE_ABORTED, Do.COPY,
)  # fmt: skip


def smaller(trial: Trial) -> Iterator[Trial]:
    """Candidates, the boldest first. Each is smaller than the trial, by `size`."""
    disturbance, then = trial.disturbance, trial.then
    if then is not None:
        yield replace(trial, then=None)
        yield replace(trial, disturbance=then, then=None)
    if not trial.is_quiet:
        yield trial.control
    if disturbance is not None and trial.program.changes:
        yield replace(trial, disturbance=None, then=None)
        yield replace(trial.control, disturbance=disturbance, then=then)
    if disturbance is not None:
        yield from (replace(trial, disturbance=one) for one in _less(disturbance))
    if then is not None:
        yield from (replace(trial, then=one) for one in _less(then))
    for program in _programs(trial.program):
        yield replace(trial, program=program)


def _less(disturbance: Disturbance) -> Iterator[Disturbance]:
    if disturbance.count != 1:
        yield replace(disturbance, count=1)
    if disturbance.skip > 0:
        yield replace(disturbance, skip=0)
        yield replace(disturbance, skip=disturbance.skip // 2)


def size(trial: Trial) -> int:
    """Steps that a reader has to follow: moves, and the disturbances."""
    return len(trial.program.moves) + len(trial.disturbances)


def measure(trial: Trial) -> tuple[int, ...]:
    """What is smaller compares as less: by steps first, then by how much each of them does."""
    program = trial.program
    skipped = sum(one.skip for one in trial.disturbances)
    many = sum(one.count != 1 for one in trial.disturbances)
    counts = sum(move.count for move in program.moves)
    callers = sum(move.callers for move in program.moves)
    most = counts + program.prefilled
    return size(trial), many, program.topics, program.partitions, program.is_one_by_one, skipped, callers, most


def _programs(program: Program) -> Iterator[Program]:
    moves = program.moves
    for member in range(program.members - 1, 0, -1):
        alone = tuple(move for move in moves if move.member != member)
        if alone and len(alone) < len(moves) and is_lawful(program, alone):
            yield replace(program, moves=alone)
    length = len(moves) // 2
    while length >= 1:
        for start in range(0, len(moves), length):
            left = (*moves[:start], *moves[start + length :])
            if left and is_lawful(program, left):
                yield replace(program, moves=left)
        length //= 2
    if program.role is Role.PROGRAM:
        return  # what its topic has is its business
    if program.topics > 1 and all(move.partition < program.partitions and move.topic <= 0 for move in moves):
        yield replace(program, topics=1, moves=tuple(replace(move, topic=-1) for move in moves))
    if program.partitions > 1 and all(move.partition <= 0 for move in moves):
        yield replace(program, partitions=1)
    if program.is_one_by_one:
        yield replace(program, is_one_by_one=False)
    if program.prefilled > 10:
        yield replace(program, prefilled=program.prefilled // 4)
    for place, move in enumerate(moves):
        if move.callers > 1:
            yield replace(program, moves=(*moves[:place], replace(move, callers=1), *moves[place + 1 :]))
        if move.do in COUNTED and move.count > 1:
            fewer = replace(move, count=max(1, move.count // 4))
            yield replace(program, moves=(*moves[:place], fewer, *moves[place + 1 :]))


def is_lawful(program: Program, moves: Sequence[Move]) -> bool:
    """Whether an application may do these moves in this order."""
    is_transactional, is_copier = program.is_transactional, program.role is Role.COPIER
    open_by: set[int] = set()  # members with an open transaction; a producer is member 0
    owing: set[int] = set()  # members whose transaction has copies and not their offsets
    reading: set[int] = set()  # members that have subscribed
    for move in moves:
        match move.do:
            case Do.BEGIN:
                if move.member in open_by or (is_copier and move.member not in reading):
                    return False
                open_by.add(move.member)
            case Do.COMMIT_TRANSACTION | Do.ABORT_TRANSACTION | Do.SEND_OFFSETS | Do.COPY:
                if move.member not in open_by:
                    return False
                if move.do is Do.COMMIT_TRANSACTION and move.member in owing:
                    return False  # its records would be copied again after a restart
                if move.do in (Do.COMMIT_TRANSACTION, Do.ABORT_TRANSACTION):
                    open_by.discard(move.member)
                if move.do is Do.COPY:
                    owing.add(move.member)
                else:
                    owing.discard(move.member)
            case Do.SEND:
                if is_transactional and not open_by:
                    return False
            case Do.SUBSCRIBE | Do.ASSIGN:
                reading.add(move.member)
            case Do.READ | Do.READ_SHORT | Do.READ_NOW:
                if not reading:
                    return False
            case (
                Do.POLL
                | Do.GLANCE
                | Do.CANCEL_POLL
                | Do.COMMIT
                | Do.COMMIT_HALVES
                | Do.COMMIT_IN_POLL
                | Do.SEEK
                | Do.PAUSE
                | Do.RESUME
                | Do.SLEEP
                | Do.WORK
            ):
                if move.member not in reading:
                    return False
            case Do.DIE | Do.DIE_ALL | Do.HANG | Do.ISOLATE | Do.LAG:
                # All trials share the other cluster, and its only replica would be away with the broker.
                if not program.has_own_brokers:
                    return False
            case Do.MOVE_LEADER | Do.LOSE | Do.ADD_PARTITIONS | Do.RECREATE if program.has_own_brokers:
                return False  # they expect one replica, or make one
            case Do.ADD_PARTITIONS | Do.RECREATE if program.topics > 1:
                return False  # the partitions of all topics are numbered through
            case Do.DELETE_RECORDS if program.begins_at_end:
                return False  # a reader whose offset is deleted goes on at the end, and has missed what was before
            case Do.RECREATE:  # a group's positions mean nothing in another topic
                if program.role is not Role.PRODUCER or is_transactional:
                    return False
            case Do.DELETE_RECORDS:  # whether a record counts may stand behind it
                if is_transactional:
                    return False
            case Do.CLOSE if program.role in (Role.CONSUMER, Role.COPIER):
                if move.member in open_by:
                    return False  # nobody ends it before its time is over, and until then others wait for its offsets
                reading.discard(move.member)
            case Do.RESTART_IN_POLL:
                if move.member not in reading:
                    return False
                reading.discard(move.member)
            case Do.RESTART | Do.KILL:  # the next client with the same id ends what is open
                open_by.discard(move.member)
                owing.discard(move.member)
                reading.discard(move.member)
            case _:
                pass
    return not open_by and (program.role is not Role.PROGRAM or any(move.do is Do.RUN for move in moves))

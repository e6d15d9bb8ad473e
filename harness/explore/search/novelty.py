"""What a trial met that none before had met, and programs that are made from those which did. Pure.

A feature is a short text: an error code of an API, an API that came after another one on the way to the same end, what
the client told after what. Trials that bring a new one are kept and varied. How many features were seen only once says
how many there still are (Chao's lower bound, 1984): when that is near nothing, more of the same is unlikely to bring
anything. Shown by tests/harness/test_harness_explore_novelty.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from harness.explore.generators.shrink import COUNTED, is_lawful
from harness.explore.trial.history import (
    Commit,
    Ended,
    History,
    Outcome,
    Overdue,
    Problem,
    Rebalance,
    Stuck,
    TransactionEnd,
)
from harness.explore.trial.model import Do, Move, Program

MOVES_MAX = 60
_TRIES = 20


def features(history: History) -> frozenset[str]:
    """What the history met, in texts that do not depend on times, offsets or names."""
    return frozenset((*_of_exchanges(history), *_of_client(history)))


def _of_exchanges(history: History) -> Iterator[str]:
    for each in history.exchanges:
        for code in each.error_codes or ():
            yield f"{each.api} answered {code}"
        if each.outcome != "delivered":
            yield f"{each.api} {each.outcome}"
    for before, after in pairwise(history.exchanges):
        yield f"{before.api} then {after.api}"


def _of_client(history: History) -> Iterator[str]:
    told = [text for one in history.happened if (text := _told(one))]
    yield from told
    for before, after in pairwise(told):
        if before != after:
            yield f"{before} then {after}"


def _told(one: object) -> str:
    match one:
        case Outcome():
            return f"{one.fate} {one.code}" if one.code else str(one.fate)
        case Rebalance():
            return str(one.change)
        case Commit():
            return f"commit {one.told} {one.code}"
        case TransactionEnd():
            return f"{'commit' if one.is_commit else 'abort'} of transaction {one.told} {one.code}"
        case Problem():
            return f"{'fatal' if one.is_fatal else 'error'} of {one.command} {one.code}"
        case Stuck() | Overdue() | Ended():
            return type(one).__name__.lower()
        case _:
            return ""


class Met:
    """How many trials met each feature."""

    def __init__(self) -> None:
        self._trials: Counter[str] = Counter()

    def add(self, found: frozenset[str]) -> frozenset[str]:
        """Those that are new."""
        new = frozenset(feature for feature in found if feature not in self._trials)
        self._trials.update(found)
        return new

    @property
    def count(self) -> int:
        return len(self._trials)

    @property
    def unseen(self) -> float:
        """Chao's estimate of how many more there are at the least."""
        once = sum(count == 1 for count in self._trials.values())
        twice = sum(count == 2 for count in self._trials.values())
        return once * (once - 1) / (2 * (twice + 1))


def vary(program: Program, rng: random.Random, name: str) -> Program:
    """Another lawful program that is like this one: a stretch of moves is repeated, left out or moved, or a count is
    another one."""
    for _ in range(_TRIES):
        moves = list(program.moves)
        first = rng.randrange(len(moves))
        last = min(len(moves), first + rng.randint(1, 4))
        stretch = moves[first:last]
        match rng.choice(["repeat", "leave out", "move", "count"]):
            case "repeat":
                moves[last:last] = stretch
            case "leave out" if len(moves) > len(stretch):
                del moves[first:last]
            case "move":
                del moves[first:last]
                place = rng.randrange(len(moves) + 1)
                moves[place:place] = stretch
            case _:
                moves[first] = _other_count(moves[first], rng)
        if 0 < len(moves) <= MOVES_MAX and tuple(moves) != program.moves and is_lawful(program, moves):
            return replace(program, name=name, moves=tuple(moves))
    return replace(program, name=name)


def _other_count(move: Move, rng: random.Random) -> Move:
    if move.do not in (*COUNTED, Do.WAIT) or move.count == 0:
        return move
    return replace(move, count=max(1, rng.choice([1, move.count // 2, move.count * 2, move.count + 1])))

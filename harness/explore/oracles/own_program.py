"""A program of somebody's as what is searched. It speaks no protocol of ours and has no moves: it runs until it ends.
Which requests it sends is learnt from quiet runs, and so is what it leaves in its topic.

The oracle knows nothing of such a program but its exit code, its end, and its records. So it only says what holds for
each program that ends with 0 by itself: under something that passes it still ends, with 0, and has written what it
writes otherwise. Pure. Shown by tests/harness/test_harness_explore_own_program.py.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.explore.generators.broker_deaths import REPLICAS, events_of
from harness.explore.oracles.oracles import Kind, Suspicion, may_lose_patience, may_stop
from harness.explore.trial.history import OTHERS, Ended, History, Stuck, as_met
from harness.explore.trial.model import Do, How, Move, Program, Role, Trial

NAME: Final = "program"
PARTITIONS: Final = 3
_EXAMPLES: Final = 3
_SHOWN: Final = 60  # characters of a record
_LINES_SHOWN, _LINE_MAX = 2, 160
_WAITS_MAX: Final = 3
_AWAY_MS: Final = (500, 2_500, 5_000)
# What a quiet run showed stands under the settings that it comes from.
_SHOWS: Final = {
    "enable.idempotence": {"InitProducerId"},
    "transactional.id": {"EndTxn"},
    "group.id": {"JoinGroup", "ConsumerGroupHeartbeat"},
}


def own_program(apis: Collection[str] = (), *, prefilled: int = 0) -> Program:
    """`apis`: what quiet runs have sent."""
    properties = {name: "true" for name, shown in _SHOWS.items() if shown & set(apis)}
    return Program(
        name=NAME,
        role=Role.PROGRAM,
        moves=(Move(do=Do.RUN),),
        properties=properties,
        partitions=PARTITIONS,
        prefilled=prefilled,
    )


def changed_program(program: Program, quiet_ms: int, seed: int) -> Program:
    """The program on a cluster that does one to three things meanwhile, each at a moment that is drawn from the time
    that a quiet run takes."""
    rng = random.Random(seed)
    choices = [Do.MOVE_LEADER, Do.MOVE_LEADER, Do.CUT, Do.FREEZE, Do.LOSE, Do.ADD_PARTITIONS, Do.CUT_ALL, Do.FREEZE_ALL]
    is_coordinated = _is_coordinated(program)
    if is_coordinated:
        choices += [Do.MOVE_COORDINATOR, Do.MOVE_COORDINATOR, Do.CUT, Do.FREEZE, Do.LOSE]
    count = rng.choice([1, 1, 1, 2, _WAITS_MAX])
    moves: list[Move] = list(program.moves)
    for _ in range(count):
        moves.append(Move(do=Do.WAIT, count=rng.randrange(1, max(2, quiet_ms // count))))
        moves.append(_change(rng, rng.choice(choices), program.partitions, is_coordinated))
    return replace(program, name=f"{program.name}, changed {seed}", moves=tuple(moves))


def dying_programs(program: Program, quiet_ms: int, seed: int) -> Iterator[Program]:
    """The program while a broker dies, hangs or is cut off from the others, at a moment that is drawn. Without end."""
    is_coordinated = _is_coordinated(program)
    number = 0
    while True:
        rng = random.Random(seed * 1_009 + number)
        partition = rng.randrange(program.partitions)
        for struck in events_of(partition, is_coordinated=is_coordinated, rng=rng):
            number += 1
            events = [move for move in struck if move.do.is_of_cluster]  # one comes after the other in any case
            moves = list(program.moves)
            for move in events:
                moves += [Move(do=Do.WAIT, count=rng.randrange(1, max(2, quiet_ms // len(events)))), move]
            what = " and ".join(str(move.do) for move in events)
            name = f"{program.name}, {what} {number}"
            yield replace(program, name=name, moves=tuple(moves), replicas=REPLICAS)


def _is_coordinated(program: Program) -> bool:
    return "group.id" in program.properties or program.is_transactional


def _change(rng: random.Random, do: Do, partitions: int, is_coordinated: bool) -> Move:
    partition = rng.randrange(partitions)
    match do:
        case Do.ADD_PARTITIONS:
            return Move(do=do, count=rng.choice([1, 3]))
        case Do.MOVE_LEADER:
            return Move(do=do, partition=partition)
        case Do.CUT_ALL | Do.FREEZE_ALL:
            return Move(do=do, count=rng.choice(_AWAY_MS))
        case Do.CUT | Do.FREEZE | Do.LOSE:
            count = 0 if do is Do.LOSE else rng.choice(_AWAY_MS)
            return Move(do=do, partition=-1 if is_coordinated and rng.random() < 0.5 else partition, count=count)
        case _:
            return Move(do=do)


def why_unfit(history: History) -> str:
    """Why a quiet run is no measure for others. Empty if it is."""
    stuck = next((one for one in history.happened if isinstance(one, Stuck)), None)
    if stuck is not None:
        return (
            f"it has not ended after {stuck.waited_ms / 1_000:.0f} s, without any fault; expected a program that ends"
        )
    if (ended := _end(history)) is not None and (ended.signal or ended.code):
        return f"it ends with {_how(ended)} without any fault; expected 0"
    if not history.exchanges:
        return (
            "none of its requests has the client id that KAFKA_CLIENT_ID gives. Disturbances select by it, so expected "
            "client.id to be set from there, and bootstrap.servers from KAFKA_BOOTSTRAP_SERVERS"
        )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOracle:
    """`quiet`: the committed records of each quiet run. Where these differ, records say nothing."""

    quiet: Sequence[tuple[bytes, ...]]

    @classmethod
    def of(cls, histories: Sequence[History]) -> ProgramOracle:
        return cls(quiet=[tuple(_records(history)) for history in histories])

    @property
    def is_repeatable(self) -> bool:
        """Whether the program writes the same records each time."""
        counts = [Counter(records) for records in self.quiet]
        return bool(counts) and all(each == counts[0] for each in counts)

    def __call__(self, trial: Trial, history: History) -> list[Suspicion]:
        """As `oracles.suspicions`."""
        if history.problem:
            return []
        trial = as_met(trial, history)
        found = [*_life(trial, history)]
        if not found and _has_succeeded(history) and self.is_repeatable:
            found += self._damage(trial, history)
        return sorted(found, key=lambda suspicion: list(Kind).index(suspicion.kind))

    def _damage(self, trial: Trial, history: History) -> Iterator[Suspicion]:
        """Only an idempotent producer promises this, whatever is disturbed: it waits for all replicas, and the broker
        knows what is sent again. A program that was told of an error may go on without the record, or send it anew."""
        is_idempotent = "enable.idempotence" in trial.program.properties or trial.program.is_transactional
        if not trial.is_quiet and (not is_idempotent or _is_excused(trial, history)):
            return
        expected = Counter(self.quiet[0])
        there = Counter(_records(history))
        if missing := sorted((expected - there).elements()):
            what = f"the program ended with 0, and records that quiet runs leave are not in its topic: {_some(missing)}"
            yield Suspicion(kind=Kind.LOST, what=what, count=len(missing))
        if more := sorted(value for value in (there - expected).elements() if value in expected):
            what = f"records are in the topic more often than after quiet runs: {_some(more)}"
            yield Suspicion(kind=Kind.DUPLICATED, what=what, count=len(more))


def _life(trial: Trial, history: History) -> Iterator[Suspicion]:
    ended = _end(history)
    stuck = next((one for one in history.happened if isinstance(one, Stuck)), None)
    if stuck is not None:
        what = f"the program had not ended {stuck.waited_ms / 1_000:.0f} s after all was healed"
        yield Suspicion(kind=Kind.STUCK, what=what, count=1, at_us=stuck.at_us)
    elif ended is not None and ended.signal:
        yield Suspicion(kind=Kind.CRASHED, what=_how(ended), count=1, at_us=ended.at_us)
    elif ended is not None and ended.code and not _is_excused(trial, history):
        yield Suspicion(kind=Kind.GAVE_UP, what=_how(ended), count=1, at_us=ended.at_us)


def _is_excused(trial: Trial, history: History) -> bool:
    """Whether the program may have been told of an error. A silent request fails in the client after its time-out,
    which may be longer than the program's own patience. Two late answers may be so, too."""
    is_silent = any(one.how in (How.SILENCE_BEFORE, How.SILENCE_AFTER) for one in trial.disturbances)
    is_twice_late = sum(one.how is How.LATE for one in trial.disturbances) > 1
    return is_silent or is_twice_late or may_stop(trial, history) or may_lose_patience(trial)


def _end(history: History) -> Ended | None:
    return next((one for one in reversed(history.happened) if isinstance(one, Ended)), None)


def _has_succeeded(history: History) -> bool:
    ended = _end(history)
    return ended is not None and not ended.signal and not ended.code


def _how(ended: Ended) -> str:
    """With the last lines; the story has more of them."""
    how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.code}"
    words = " | ".join(line[:_LINE_MAX] for line in ended.last_words.split(" | ")[-_LINES_SHOWN:])
    return f"{how}: {words}" if words else how


def _records(history: History) -> Iterator[bytes]:
    """What the program itself has written and committed."""
    for record in history.log:
        if record.value is not None and not record.is_aborted and not record.value.startswith(OTHERS):
            yield record.value


def _some(values: Sequence[bytes]) -> str:
    shown = [value[:_SHOWN].decode("utf-8", "backslashreplace") for value in values[:_EXAMPLES]]
    more = f" and {len(values) - _EXAMPLES} more" if len(values) > _EXAMPLES else ""
    return ", ".join(repr(text) for text in shown) + more

"""The systematic pass: every single disturbance of the requests that a client was seen to send.

Of 77 public bugs that we looked at, 19 need one answer that is an error, late or lost, and nothing else. So these come
before anything clever, the most telling first: a commit that comes late, within the next transaction, and then what
passes by itself. That must leave no trace, so each trace accuses. Errors after which a transaction is given up come
with these, and errors that a client may end with come last. In each round every API has its turn, so that a short
budget reaches all. Pure. Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Final, TypeVar

from chaos.lawful_answers import Answer, Reaction, answers_of
from chaos.toxiproxy.kafka.alterations import APIS as ALTERABLE
from harness.explore.trial.model import Disturbance, Do, How, Move, Program, Trial
from harness.explore.trial.requests_sent import Use

LATE_MS: Final = 3_000  # beyond the request time-out of the programs, within the session
HEAL_AFTER_MS: Final = 4_000
THROTTLE_MS: Final = 1_500
_BRIEF_MS: Final = 1
SOME: Final = 3
# When the client has most likely sent a commit again, and is within its next transaction, which is open for so long.
HELD_MS: Final = (700, 1_100)
_OPEN_MS: Final = 1_000
_FENCES_FROM: Final = 5  # the version of EndTxn by which the next transaction has an epoch of its own (KIP-890)
# The proxies answer these themselves or cannot: a client that does not know the versions cannot be answered lawfully.
ONLY_TIMING: Final = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})
_TIMING: Final = (How.CLOSED_AFTER, How.LATE, How.CLOSED_BEFORE, How.SILENCE_BEFORE, How.SILENCE_AFTER)
_OF_SIZE: Final = ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_PASSES: Final = (Reaction.RETRY, Reaction.REJOIN)

T = TypeVar("T")


def systematic(program: Program, uses: Mapping[str, Use], seed: int, *, transaction_version: int = 2) -> list[Trial]:
    """`uses`: by API, what a quiet run of the program has sent. Equal seeds give equal orders. `transaction_version`:
    the newest that the cluster has."""
    rng = random.Random(seed)
    used = [(api, use) for api, use in sorted(uses.items()) if use.requests > 0]

    def drawn(*tiers: Callable[[str, Use, Program], Iterator[Disturbance]]) -> list[list[Disturbance]]:
        """For each API what the tiers have of it, each tier in a drawn order, and the tiers in turn."""
        return [in_turn([shuffled(list(tier(api, use, program)), rng) for tier in tiers]) for api, use in used]

    rounds = (
        drawn(partial(_held, transaction_version=transaction_version)),
        drawn(_once, _timing, _aborting),
        drawn(_first, _until_healed, _contents),
        drawn(_some_times),
        drawn(_other_codes),
    )
    return [
        Trial(program=_held_open(program) if disturbance.how is How.HELD else program, disturbance=disturbance)
        for of_apis in rounds
        for disturbance in in_turn(of_apis)
    ]


def in_turn(lists: Sequence[Iterable[T]]) -> list[T]:
    """The first of each list, then the second of each, and so on."""
    return [one for one_of_each in zip_longest(*lists) for one in one_of_each if one is not None]


def shuffled(each: list[T], rng: random.Random) -> list[T]:
    rng.shuffle(each)
    return each


def later(use: Use) -> int:
    """In the middle of the run, when there is something to lose. 0 if there is only one request."""
    return use.requests // 2


def _timing(api: str, use: Use, _program: Program) -> Iterator[Disturbance]:
    for how in _TIMING:
        yield timed(api, how, skip=later(use))


def _held(api: str, use: Use, program: Program, transaction_version: int) -> Iterator[Disturbance]:
    """An EndTxn that arrives within the next transaction. Not from a client of version 1 on a cluster that has version
    2: it tears with each such client, and that is known of version 1 (Jepsen's report on Bufstream; KIP-890)."""
    if api == "EndTxn" and program.is_transactional and (transaction_version < 2 or use.version >= _FENCES_FROM):
        for late_ms in HELD_MS:
            yield replace(timed(api, How.HELD, skip=1), late_ms=late_ms)


def _held_open(program: Program) -> Program:
    """The program with transactions that are open for a while after their first records, and before the others."""
    moves: list[Move] = []
    is_first = False
    for move in program.moves:
        moves.append(move)
        if move.do is Do.BEGIN:
            is_first = True
        elif is_first and move.do in (Do.SEND, Do.COPY):
            moves.append(Move(do=Do.WAIT, count=_OPEN_MS))
            is_first = False
    return replace(program, name=f"{program.name}, held open", moves=tuple(moves))


def timed(api: str, how: How, *, skip: int = 0, count: int = 1) -> Disturbance:
    late_ms = {How.LATE: LATE_MS, How.THROTTLED: THROTTLE_MS}.get(how, 0)
    return Disturbance(api=api, how=how, skip=skip, count=count, late_ms=late_ms, heal_after_ms=HEAL_AFTER_MS)


def error(answer: Answer, *, skip: int = 0, count: int = 1) -> Disturbance:
    how = How.ERROR_AFTER if answer.is_after_work else How.ERROR_BEFORE
    return Disturbance(api=answer.api, how=how, code=answer.code, skip=skip, count=count, heal_after_ms=HEAL_AFTER_MS)


def passing(api: str, use: Use, program: Program) -> list[Answer]:
    """Errors that pass by themselves."""
    return _codes(api, use, program, _PASSES)


def _codes(api: str, use: Use, program: Program, reactions: Collection[Reaction]) -> list[Answer]:
    """With acks=1 a leader answers alone: nothing can go wrong after its work, and no replica is missed."""
    if api in ONLY_TIMING:
        return []
    is_alone = api == "Produce" and program.properties.get("acks") == "1"
    return [
        answer
        for answer in answers_of(api, use.version, is_transactional=program.is_transactional)
        if answer.reaction in reactions
        and not (is_alone and (answer.is_after_work or answer.name == "NOT_ENOUGH_REPLICAS"))
    ]


def _once(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    for answer in passing(api, use, program):
        yield error(answer, skip=later(use))


def _contents(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    """Answers with other contents, as a broker may send them. An epoch can only be older if there was one before."""
    if api not in ONLY_TIMING:
        yield timed(api, How.THROTTLED, skip=later(use))
        # A client may take so little for nothing, or be done waiting before it has begun to.
        yield replace(timed(api, How.THROTTLED, count=0), late_ms=_BRIEF_MS)
    for alteration, apis in ALTERABLE.items():
        if api not in apis or api in ONLY_TIMING:
            continue
        if alteration == "older_epoch" and not any(move.do is Do.MOVE_LEADER for move in program.changes):
            continue
        for count in (1, 0):
            yield replace(timed(api, How.ALTERED, skip=later(use), count=count), alteration=alteration)


def _first(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    """As the round before, on the first request; not again if there is only one."""
    if later(use) == 0:
        return
    for how in _TIMING:
        yield timed(api, how)
    for answer in passing(api, use, program):
        yield error(answer)


def _until_healed(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    for how in (How.CLOSED_AFTER, How.CLOSED_BEFORE, How.SILENCE_BEFORE):
        yield timed(api, how, skip=later(use), count=0)
    for answer in passing(api, use, program):
        yield error(answer, skip=later(use), count=0)


def lasting(program: Program, uses: Mapping[str, Use], rng: random.Random) -> list[Disturbance]:
    """What lasts, for programs that are at a limit (extremes.py): of each API two refusals until it is healed, from the
    first request on and from the second one, what breaks or is late, and refusals because of a size. An answer after
    the work comes second: it differs most from the first one, because what was refused may be there. The APIs in turn,
    those that are asked most first."""
    used = sorted(
        ((api, use) for api, use in uses.items() if use.requests > 0), key=lambda each: (-each[1].requests, each)
    )
    return in_turn([_lasting_of(api, use, program, rng) for api, use in used])


def _lasting_of(api: str, use: Use, program: Program, rng: random.Random) -> list[Disturbance]:
    codes = passing(api, use, program)
    before = shuffled([error(one, count=0) for one in codes if not one.is_after_work], rng)
    after = shuffled([error(one, count=0) for one in codes if one.is_after_work], rng)
    of_size = [error(one) for one in _codes(api, use, program, (Reaction.STOP,)) if one.name in _OF_SIZE]
    return [
        *before[:1],
        *after[:1],
        timed(api, How.CLOSED_AFTER, count=0),
        *(replace(one, skip=1) for one in before[1:2]),
        *after[1:2],
        *shuffled(of_size, rng),
        timed(api, How.LATE),
        timed(api, How.SILENCE_BEFORE, skip=1, count=0),
        *before[2:],
        *after[2:],
    ]


def _some_times(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    for answer in passing(api, use, program):
        yield error(answer, skip=later(use), count=SOME)


def _aborting(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    """Codes after which the application gives its transaction up: the next one must have nothing of it."""
    for answer in _codes(api, use, program, (Reaction.ABORT,)):
        yield error(answer, skip=later(use))


def _other_codes(api: str, use: Use, program: Program) -> Iterator[Disturbance]:
    """Codes that a client may end with: it must do so audibly."""
    for answer in _codes(api, use, program, (Reaction.STOP,)):
        yield error(answer, skip=later(use))

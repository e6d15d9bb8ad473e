"""The systematic pass: every single disturbance of the requests that a client was seen to send.

Of 77 public bugs that we looked at, 19 need one answer that is an error, late or lost, and nothing else. So these come
before anything clever, the most telling first: what passes by itself must leave no trace, so each
trace accuses. Errors that a client may end with come last. In each round every API has its turn, so that a short budget
reaches all. Pure. Shown by tests/harness/test_harness_explore_search.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from chaos.lawful_answers import Answer, Reaction, answers_of
from harness.explore.model import Disturbance, How, Program, Trial

LATE_MS: Final = 3_000  # beyond the request time-out of the programs, within the session
HEAL_AFTER_MS: Final = 4_000
SOME: Final = 3
# The proxies answer these themselves or cannot: a client that does not know the versions cannot be answered lawfully.
_ONLY_TIMING: Final = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})
_TIMING: Final = (How.CLOSED_AFTER, How.LATE, How.CLOSED_BEFORE, How.SILENCE_BEFORE, How.SILENCE_AFTER)
_PASSES: Final = (Reaction.RETRY, Reaction.REJOIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How often a quiet run has asked one API, and in which version."""

    requests: int
    version: int


def systematic(program: Program, uses: Mapping[str, Use], seed: int) -> list[Trial]:
    """`uses`: by API, what a quiet run of the program has sent. Equal seeds give equal orders."""
    rng = random.Random(seed)
    used = [(api, use) for api, use in sorted(uses.items()) if use.requests > 0]

    def drawn(*tiers: Callable[[str, Use], Iterator[Disturbance]]) -> list[list[Disturbance]]:
        """For each API what the tiers have of it, each tier in a drawn order, and the tiers in turn."""
        return [_in_turn([_shuffled(list(tier(api, use)), rng) for tier in tiers]) for api, use in used]

    rounds = (drawn(_once, _timing), drawn(_first), drawn(_until_healed), drawn(_some_times), drawn(_other_codes))
    return [Trial(program=program, disturbance=disturbance) for of_apis in rounds for disturbance in _in_turn(of_apis)]


def _in_turn(lists: Sequence[Sequence[Disturbance]]) -> list[Disturbance]:
    """The first of each list, then the second of each, and so on."""
    return [one for one_of_each in zip_longest(*lists) for one in one_of_each if one is not None]


def _shuffled(disturbances: list[Disturbance], rng: random.Random) -> list[Disturbance]:
    rng.shuffle(disturbances)
    return disturbances


def _later(use: Use) -> int:
    """In the middle of the run, when there is something to lose. 0 if there is only one request."""
    return use.requests // 2


def _timing(api: str, use: Use) -> Iterator[Disturbance]:
    for how in _TIMING:
        yield _timed(api, how, skip=_later(use))


def _timed(api: str, how: How, *, skip: int = 0, count: int = 1) -> Disturbance:
    late_ms = LATE_MS if how is How.LATE else 0
    return Disturbance(api=api, how=how, skip=skip, count=count, late_ms=late_ms, heal_after_ms=HEAL_AFTER_MS)


def _error(answer: Answer, *, skip: int = 0, count: int = 1) -> Disturbance:
    how = How.ERROR_AFTER if answer.is_after_work else How.ERROR_BEFORE
    return Disturbance(api=answer.api, how=how, code=answer.code, skip=skip, count=count, heal_after_ms=HEAL_AFTER_MS)


def _codes(api: str, use: Use, *, passes: bool) -> list[Answer]:
    if api in _ONLY_TIMING:
        return []
    return [answer for answer in answers_of(api, use.version) if (answer.reaction in _PASSES) is passes]


def _once(api: str, use: Use) -> Iterator[Disturbance]:
    for answer in _codes(api, use, passes=True):
        yield _error(answer, skip=_later(use))


def _first(api: str, use: Use) -> Iterator[Disturbance]:
    """As the round before, on the first request; not again if there is only one."""
    if _later(use) == 0:
        return
    for how in _TIMING:
        yield _timed(api, how)
    for answer in _codes(api, use, passes=True):
        yield _error(answer)


def _until_healed(api: str, use: Use) -> Iterator[Disturbance]:
    for how in (How.CLOSED_AFTER, How.CLOSED_BEFORE, How.SILENCE_BEFORE):
        yield _timed(api, how, skip=_later(use), count=0)
    for answer in _codes(api, use, passes=True):
        yield _error(answer, skip=_later(use), count=0)


def _some_times(api: str, use: Use) -> Iterator[Disturbance]:
    for answer in _codes(api, use, passes=True):
        yield _error(answer, skip=_later(use), count=SOME)


def _other_codes(api: str, use: Use) -> Iterator[Disturbance]:
    """Codes that a client may end with, or abort for: it must do so audibly."""
    for answer in _codes(api, use, passes=False):
        yield _error(answer, skip=_later(use))

"""Two disturbances, the second one of what a client does to recover from the first.

Recovery is the least tested code of a client: a request is sent again while another one is refused, a coordinator is
looked for and there is none, a member that was thrown out asks for its offsets and gets an error. The first disturbance
comes in the middle of the run, as in the systematic pass (systematic.py), when there is something to lose. The second
one meets one request of the same API or of one that recovery asks: the first such request or, of what is asked often,
the one after it. All of it passes by itself, so a right client leaves no trace.

There are thousands of such pairs, so few of each kind are drawn, the most telling first: what was sent and has no
answer, and then an error. Programs with several batches in flight or with two members come before the others. Pure.
Shown by tests/harness/test_harness_explore_pairs.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from harness.explore.generators.systematic import ONLY_TIMING, error, in_turn, later, passing, shuffled, timed
from harness.explore.trial.model import Disturbance, How, Program, Role, Trial
from harness.explore.trial.requests_sent import Use

PAIRS_MAX: Final = 60  # of one program
_OF_API: Final = 12  # pairs with a first disturbance of this API
_BROKEN: Final = (How.CLOSED_BEFORE, How.CLOSED_AFTER, How.LATE, How.SILENCE_BEFORE)
_CONNECTING: Final = "ApiVersions"
_OFTEN: Final = 4  # From so many requests on, the one after the first one in recovery comes too.
_BROKEN_AGAIN: Final = (How.CLOSED_BEFORE, How.CLOSED_AFTER, How.LATE)
_JOINING: Final = ("FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Metadata", "ListOffsets")
_FETCHING: Final = ("Metadata", "ListOffsets", "OffsetForLeaderEpoch")
_IN_TRANSACTION: Final = ("FindCoordinator", "InitProducerId", "AddPartitionsToTxn")
# What a client asks, besides the same API, after a request of this one went wrong.
_RECOVERY: Final[Mapping[str, tuple[str, ...]]] = {
    "Produce": ("Metadata", "InitProducerId", "AddPartitionsToTxn"),
    "InitProducerId": ("FindCoordinator", "Metadata"),
    "AddPartitionsToTxn": _IN_TRANSACTION,
    "AddOffsetsToTxn": _IN_TRANSACTION,
    "TxnOffsetCommit": (*_IN_TRANSACTION, "JoinGroup"),
    "EndTxn": _IN_TRANSACTION,
    "Fetch": _FETCHING,
    "ListOffsets": _FETCHING,
    "OffsetForLeaderEpoch": _FETCHING,
    "Heartbeat": _JOINING,
    "JoinGroup": _JOINING,
    "SyncGroup": _JOINING,
    "LeaveGroup": _JOINING,
    "OffsetCommit": _JOINING,
    "OffsetFetch": _JOINING,
    "ConsumerGroupHeartbeat": ("FindCoordinator", "OffsetFetch", "Metadata", "ListOffsets"),
    "FindCoordinator": ("Metadata", "JoinGroup", "OffsetFetch", "InitProducerId", "ConsumerGroupHeartbeat"),
    "Metadata": ("FindCoordinator", "InitProducerId", "ListOffsets"),
}
# Asked only after a leader has moved, or seemed to, so quiet runs do not show it. All clients that ask at all know this
# version.
_ONLY_IN_RECOVERY: Final = {"OffsetForLeaderEpoch": Use(requests=1, version=3)}

_NEVER: Final = Use(requests=0, version=0)

UsesOf = Callable[[Program], Mapping[str, Use]]


def paired(programs: Sequence[Program], uses_of: UsesOf, seed: int) -> list[Trial]:
    """The programs in turn, those first whose recovery has most to do. `uses_of`: what quiet runs of a program have
    sent. Equal seeds give equal orders."""
    ordered = sorted(programs, key=lambda program: not _has_much_under_way(program))
    lists = [pairs(program, uses_of(program), seed * 1_019 + number) for number, program in enumerate(ordered)]
    return [trial for one_of_each in zip_longest(*lists) for trial in one_of_each if trial is not None]


def pairs(program: Program, uses: Mapping[str, Use], seed: int) -> list[Trial]:
    """At most PAIRS_MAX, without one twice: the APIs in turn, those first that are asked most. What says how to talk is
    asked in recovery, because a connection begins with it, and it is nothing to recover from."""
    rng = random.Random(seed)
    used = {api: use for api, use in sorted(uses.items()) if use.requests > 0}
    order = sorted((api for api in used if api not in ONLY_TIMING), key=lambda api: -used[api].requests)
    lists = [_of_api(api, used, program, rng) for api in order]
    return [Trial(program=program, disturbance=first, then=then) for first, then in in_turn(lists)[:PAIRS_MAX]]


def _has_much_under_way(program: Program) -> bool:
    if program.role is Role.PRODUCER:
        return program.properties.get("max.in.flight.requests.per.connection") != "1"
    return program.members > 1


_Pair = tuple[Disturbance, Disturbance]


def _of_api(api: str, used: Mapping[str, Use], program: Program, rng: random.Random) -> list[_Pair]:
    """The kinds in turn, each in a drawn order: what has no answer and then an error, an error and then another one,
    and what breaks at last."""
    broken = [timed(api, how, skip=later(used[api])) for how in _BROKEN]
    errors = [error(answer, skip=later(used[api])) for answer in passing(api, used[api], program)]
    refused_then = list(_refused_then(api, used, program))
    broken_then = list(_broken_then(api, used, program))
    kinds = (
        _crossed(broken[:2], [one for one in refused_then if one.api == api]),
        _crossed(broken, refused_then),
        _crossed(errors, refused_then),
        _crossed([*broken, *errors], broken_then),
    )
    found: dict[_Pair, None] = {}
    for pair in in_turn([shuffled(kind, rng) for kind in kinds]):
        found.setdefault(pair)
    return list(found)[:_OF_API]


def _crossed(firsts: Sequence[Disturbance], seconds: Sequence[Disturbance]) -> list[_Pair]:
    return [(first, then) for first in firsts for then in seconds]


def _asked_then(api: str, used: Mapping[str, Use], program: Program) -> dict[str, Use]:
    """The same API, and those that recovery asks: that this client was seen to use, or that only recovery needs."""
    known = {**({} if program.role is Role.PRODUCER else _ONLY_IN_RECOVERY), **used}
    return {each: known[each] for each in (api, *_RECOVERY.get(api, ())) if each in known}


def _skips(use: Use) -> tuple[int, ...]:
    return (0, 1) if use.requests >= _OFTEN else (0,)


def _refused_then(api: str, used: Mapping[str, Use], program: Program) -> Iterator[Disturbance]:
    for each, use in _asked_then(api, used, program).items():
        for answer in passing(each, use, program):
            if not answer.is_after_work:
                yield from (error(answer, skip=skip) for skip in _skips(use))


def _broken_then(api: str, used: Mapping[str, Use], program: Program) -> Iterator[Disturbance]:
    asked = _asked_then(api, used, program)
    for each, use in {**asked, _CONNECTING: used.get(_CONNECTING, _NEVER)}.items():
        for how in _BROKEN_AGAIN:
            yield from (timed(each, how, skip=skip) for skip in _skips(use) if use.requests)

"""Several single disturbances in one run: a screening.

Nearly every trial shows nothing, and most of its time goes into a client that starts, a group that gathers and a log
that is read. So up to three disturbances of different APIs share one run. If it shows nothing, each of them counts as
tried, although one may hide what another one would have shown. If it shows anything, nobody is accused of it: each is
tried alone, before anything else, and only that counts. Three that share a run need one run instead of three, or four
if something shows. So an API with a suspicion stays alone, as do programs that show something without a disturbance.

They share a run only if each of them passes by itself and none of them permits what another one forbids: then the
oracles ask the same of the run as they ask of each alone. Pure. Shown by
tests/harness/test_harness_explore_screening.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Final

from harness.explore.oracles.oracles import may_stop_after, says_no_topic
from harness.explore.trial.model import Disturbance, How, Role, Trial

AT_ONCE: Final = 3
LOOK_AHEAD: Final = 300  # planned trials; those of one program are some twenty apart


def may_share(disturbance: Disturbance) -> bool:
    """Whether it may be one of several in a run."""
    is_lenient = may_stop_after(disturbance) or says_no_topic(disturbance)
    # A held request needs a program of its own.
    return disturbance.count == 1 and disturbance.how is not How.HELD and not is_lenient


def with_others(
    first: Trial, planned: deque[Trial], is_suspect: Callable[[Trial], bool], at_once: int = AT_ONCE
) -> Trial:
    """The trial with what may share its run, which is taken out of `planned`. `is_suspect`: whether one stays alone."""
    assert first.disturbance is not None
    together = [first.disturbance]
    if not may_share(first.disturbance) or is_suspect(first):
        return first
    taken = []
    for place, other in enumerate(islice(planned, LOOK_AHEAD)):
        if len(together) >= at_once:
            break
        if other.program is first.program and _fits(other, together, first.program.role) and not is_suspect(other):
            assert other.disturbance is not None
            together.append(other.disturbance)
            taken.append(place)
    for place in reversed(taken):
        del planned[place]
    return replace(first, besides=tuple(together[1:]))


def _fits(other: Trial, together: list[Disturbance], role: Role) -> bool:
    disturbance = other.disturbance
    assert disturbance is not None
    is_alike = role is Role.CONSUMER or _certainty(disturbance) == _certainty(together[0])
    return is_alike and may_share(disturbance) and disturbance.api not in {one.api for one in together}


def _certainty(disturbance: Disturbance) -> tuple[bool, bool]:
    """What the oracles make of it: whether the client knows what became of the request, and whether it was not done."""
    return disturbance.how.is_certain, disturbance.how.is_undone


def alone(trial: Trial) -> list[Trial]:
    """Each of those that shared its run, by itself."""
    assert trial.then is None
    return [replace(trial, disturbance=one, besides=()) for one in trial.disturbances]

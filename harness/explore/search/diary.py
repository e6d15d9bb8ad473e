"""What a search has tried, in the order of time, for its page: a bounded list of tries, and counts that lose nothing.

Shown by tests/harness/test_harness_explore_diary.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from harness.explore.trial.model import Trial

TRIES_MAX: Final = 4_000  # a page of that many points opens in a blink
QUIET: Final = "no disturbance"
CLUSTER: Final = "the cluster"  # it did something, and no request was disturbed


class Result(StrEnum):
    RIGHT = "as it should"
    SUSPICIOUS = "suspicious"
    UNMET = "met nothing"  # the disturbance had no request to disturb
    NOTHING = "proved nothing"  # It was our own fault.


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    at_s: float  # when it ended, since the search began
    duration_s: float
    purpose: str
    lane: str  # the API that was disturbed, or QUIET
    how: str
    result: Result
    what: str = ""  # the kinds that it showed
    met: int = 0  # features that the search had met by then


class Diary:
    def __init__(self, *, tries_max: int = TRIES_MAX) -> None:
        self._tries_max = tries_max
        self._tries: list[Try] = []
        self._stride = 1  # Of ordinary tries only one in so many stands here.
        self._ordinary = 0
        self.counts: Counter[tuple[str, str, Result]] = Counter()  # (lane, how, result), of all

    def note(self, one: Try, shared: Iterable[tuple[str, str]] | None = None) -> None:
        """What is out of the ordinary always stands here, as long as there is room at all. `shared`: lane and how of
        each that shared its run, if several did and all was right."""
        for lane, how in ((one.lane, one.how),) if shared is None else shared:
            self.counts[lane, how, one.result] += 1
        if one.result is Result.RIGHT:
            self._ordinary += 1
            if self._ordinary % self._stride:
                return
        self._tries.append(one)
        if len(self._tries) > self._tries_max:
            self._thin()

    def _thin(self) -> None:
        """Half of the ordinary ones go; if there are hardly any, half of all."""
        self._stride *= 2
        ordinary = [one for one in self._tries if one.result is Result.RIGHT]
        few = ordinary if len(ordinary) > self._tries_max // 4 else self._tries
        gone = {id(one) for one in few[::2]}
        self._tries = [one for one in self._tries if id(one) not in gone]

    def document(self) -> dict[str, Any]:
        return {
            "shown_of_ordinary": self._stride,
            "tries": [
                [
                    round(one.at_s, 1),
                    round(one.duration_s, 1),
                    one.purpose,
                    one.lane,
                    one.how,
                    str(one.result),
                    one.what,
                    one.met,
                ]
                for one in self._tries
            ],
            "counts": [
                {"lane": lane, "how": how, "result": str(result), "count": count}
                for (lane, how, result), count in sorted(self.counts.items())
            ],
        }


def lane_of(trial: Trial) -> str:
    if trial.disturbance is not None:
        return trial.disturbance.api
    return CLUSTER if trial.program.changes else QUIET


def how_of(trial: Trial) -> str:
    """Of several disturbances all, with the APIs of all but the first one: the lane has that one's."""
    first, then = trial.disturbance, trial.then
    if first is None:
        return ""
    others = [f", then {then.api}: {then.how}"] if then is not None else []
    others += [f"; beside it {one.api}: {one.how}" for one in trial.besides]
    return str(first.how) + "".join(others)

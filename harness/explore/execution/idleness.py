"""Whether a client uses a processor while it has nothing to do.

A loop that asks again at once, or that waits for no time, damages no record and is in no log. It is seen by what it
costs. No rule says how much a client may use while it works, and a busy host changes that. So it is looked at where
there is nothing to do at all: all records have their outcome, or all have been handed out, and nobody asks for more. A
right client then wakes up for its heartbeats and fetches, and uses some percent of one processor.

What a thread waited for a processor does not count as time. A loop that waits for nothing never sleeps, however little
it is let run. A right client sleeps between two heartbeats as long on a busy host as on an idle one, so its share does
not rise there. A wait that began before the look is counted whole when it is over, so a thread must have had many turns
before its share says anything. Most clients are done with one glance: none of their threads runs, or waits for a
processor, each time that it is looked at. The others are watched until a thread has had ENOUGH_S of a processor. By
then a runtime has compiled and tidied up what it had to. Shown by
tests/harness/test_harness_explore_idleness.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTLE_S: Final = 0.4  # What it did last may not be quite over.
GLANCES: Final = 6
BETWEEN_GLANCES_S: Final = 0.12
WATCH_S: Final = 2.0
WATCH_MAX_S: Final = 10.0  # on a host that gives it little
ENOUGH_S: Final = 0.3  # some sixty turns of a client that does a little each time
BUSY_FROM: Final = 0.8  # of one processor, of the time in which it was let run
# It must have had a processor for this share of the time on the clock: one thread, and all of them together. What
# several threads waited cannot be told apart from what they slept, so together they must have had much.
LET_RUN: Final = 0.02
ALL_LET_RUN: Final = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """By one thread, since it began."""

    cpu_s: float
    waited_s: float  # in the queue of a processor

    def since(self, before: Used) -> Used:
        return Used(cpu_s=self.cpu_s - before.cpu_s, waited_s=self.waited_s - before.waited_s)


Usage = Mapping[int, Used]  # thread -> what it has used


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`share` of one processor, of the time in which the client was let run: of its busiest thread, or of all."""

    share: float
    looked_ms: int


def is_busy(look: Look) -> bool:
    return look.share >= BUSY_FROM


def look_at(pid: int, wait: Callable[[float], None], *, seconds_max: float | None = None) -> Look | None:
    """What a client uses, if it is busy. `wait` lets so many seconds pass. `seconds_max`: WATCH_MAX_S if nothing else
    is said."""
    if not never_sleeps(pid, wait):
        return None
    most_s = WATCH_MAX_S if seconds_max is None else seconds_max
    found = watch(pid, WATCH_S, wait, seconds_max=most_s, enough_s=ENOUGH_S)
    return found if is_busy(found) else None


def never_sleeps(
    pid: int, wait: Callable[[float], None], *, awake: Callable[[int], Set[int]] | None = None
) -> frozenset[int]:
    """The threads that were awake at each glance: they ran, or waited for a processor."""
    ask = awake_threads if awake is None else awake
    found = frozenset(ask(pid))
    for _ in range(GLANCES - 1):
        if not found:
            break
        wait(BETWEEN_GLANCES_S)
        found &= ask(pid)
    return found


def watch(
    pid: int,
    seconds: float,
    wait: Callable[[float], None],
    *,
    seconds_max: float = 0.0,
    enough_s: float = 0.0,
    clock: Callable[[], float] = time.monotonic,
    usage_of: Callable[[int], Usage] | None = None,
) -> Look:
    """For `seconds`, and again as long, until it is busy and a thread has used `enough_s`, or `seconds_max` are over. A
    share of 0 if it was not let run."""
    ask = usage_of_threads if usage_of is None else usage_of
    before, begun_s = ask(pid), clock()
    nothing = Used(cpu_s=0.0, waited_s=0.0)
    while True:
        wait(seconds)
        after, passed_s = ask(pid), clock() - begun_s
        # A thread that began meanwhile has used all of it meanwhile. One that has ended is missed.
        spent = [used.since(before.get(thread, nothing)) for thread, used in after.items()]
        found = Look(share=_busiest(spent, passed_s, enough_s), looked_ms=int(passed_s * 1_000))
        if is_busy(found) or passed_s >= seconds_max:
            return found


def _busiest(spent: Sequence[Used], passed_s: float, enough_s: float) -> float:
    together = Used(cpu_s=sum(one.cpu_s for one in spent), waited_s=max((one.waited_s for one in spent), default=0.0))
    shares = [_share(used, passed_s) for used in spent if used.cpu_s > max(enough_s, LET_RUN * passed_s)]
    shares += [_share(together, passed_s)] if together.cpu_s > max(enough_s, ALL_LET_RUN * passed_s) else []
    return max(shares, default=0.0)


def _share(used: Used, passed_s: float) -> float:
    """A wait is told when it is over, so it may be longer than the time that has passed."""
    return used.cpu_s / max(passed_s - used.waited_s, used.cpu_s)


def usage_of_threads(pid: int) -> Usage:
    """Of one process. Empty if the kernel does not tell, or it is gone."""
    found: dict[int, Used] = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError, IndexError):
                cpu_ns, waited_ns, *_ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="ascii").split()
                found[int(thread)] = Used(cpu_s=int(cpu_ns) / 1e9, waited_s=int(waited_ns) / 1e9)
    return found


def awake_threads(pid: int) -> frozenset[int]:
    """Those that run or wait for a processor. None if the process is gone."""
    found: set[int] = set()
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, IndexError):
                text = Path(f"/proc/{pid}/task/{thread}/stat").read_text(encoding="utf-8", errors="replace")
                if text.rpartition(")")[2].split()[0] == "R":
                    found.add(int(thread))
    return frozenset(found)

"""Whether a client uses a processor while it has nothing to do.

A loop that asks again at once, or that waits for no time, damages no record and is in no log. It is seen by what it
costs. No rule says how much a client may use while it works, and a busy host changes that. So it is looked at where
there is nothing to do at all: all records have their outcome, or all have been handed out, and nobody asks for more. A
right client then wakes up for its heartbeats and fetches, and uses some percent of one processor.

What its threads waited for a processor does not count as time, and a client that was hardly let run has shown nothing.
What looks busy is looked at a second time, for longer, because a runtime may still be compiling or tidying up. Shown by
tests/harness/test_harness_explore_idleness.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTLE_S: Final = 0.4  # What it did last may not be quite over.
FIRST_LOOK_S: Final = 0.8
SECOND_LOOK_S: Final = 2.0
BUSY_FROM: Final = 0.8  # of one processor, of the time in which it was let run
LET_RUN: Final = 0.4  # It must have had a processor for this share of the time on the clock.


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """By one thread, since it began."""

    cpu_s: float
    waited_s: float  # in the queue of a processor


Usage = Mapping[int, Used]  # thread -> what it has used


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """`share` of one processor, of the time in which the client was let run; several threads may use more than one."""

    share: float
    looked_ms: int


def look(
    pid: int,
    seconds: float,
    wait: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    usage_of: Callable[[int], Usage] | None = None,
) -> Look:
    """`wait` lets so many seconds pass. A share of 0 if it was not let run."""
    ask = usage_of_threads if usage_of is None else usage_of
    before, begun_s = ask(pid), clock()
    wait(seconds)
    after, passed_s = ask(pid), clock() - begun_s
    nothing = Used(cpu_s=0.0, waited_s=0.0)
    # A thread that began meanwhile has used all of it meanwhile. One that has ended is missed.
    used_s = sum(used.cpu_s - before.get(thread, nothing).cpu_s for thread, used in after.items())
    waited_s = max(
        (used.waited_s - before.get(thread, nothing).waited_s for thread, used in after.items()), default=0.0
    )
    let_run_s = max(passed_s - waited_s, used_s)
    is_told = passed_s > 0 and let_run_s > 0 and used_s >= LET_RUN * passed_s
    return Look(share=used_s / let_run_s if is_told else 0.0, looked_ms=int(passed_s * 1_000))


def usage_of_threads(pid: int) -> Usage:
    """Of one process. Empty if the kernel does not tell, or it is gone."""
    found: dict[int, Used] = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError, ValueError, IndexError):
                cpu_ns, waited_ns, *_ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_text(encoding="ascii").split()
                found[int(thread)] = Used(cpu_s=int(cpu_ns) / 1e9, waited_s=int(waited_ns) / 1e9)
    return found

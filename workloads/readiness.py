"""How long a load waits: until all of its users are connected, as long as the slowest of them may take, and at the end
until its readers have read.

Knows neither Locust nor gevent: whoever waits says how. Shown by tests/workloads/test_workloads_readiness.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from workloads.clients.protocol import READY_TIMEOUT_S
from workloads.reports import LoadState

# A reader that has got all that was acknowledged, and nothing more for this long, has read all there is.
READ_IDLE_US: Final = 500_000
# One that is behind gets more, or what is missing is lost or was aborted. On a busy host half a second may pass
# before it has the processor, and what was not read here counts as infinitely late.
BEHIND_IDLE_US: Final = 4_000_000


class LoadFailed(RuntimeError):
    """The load could not be run; the message is for the user."""


def wait_ready(
    state: Callable[[], LoadState],
    users: int,
    *,
    is_stopped: Callable[[], bool],
    now_s: Callable[[], float],
    pause: Callable[[], None],
) -> bool:
    """False when the load was asked to stop first. LoadFailed with a user's own words, or when the time is up.

    `state` is a fleet's: how many users are `ready`, and their `errors`.
    """
    deadline_s = now_s() + READY_TIMEOUT_S
    while (seen := state()).ready < users:
        if seen.errors:
            raise LoadFailed("; ".join(seen.errors))
        if is_stopped():
            return False
        if now_s() > deadline_s:
            raise LoadFailed(f"{seen.ready} of {users} users are ready after {READY_TIMEOUT_S:g} s")
        pause()
    return True


def have_read(seen: LoadState, readers: int, *, idle_us: int) -> bool:
    """Whether nothing more is to be expected of `readers` reader groups, which have got nothing for `idle_us`."""
    received = seen.received_by_reader.values()
    is_behind = len(received) < readers or min(received, default=0) < seen.acked
    return idle_us > (BEHIND_IDLE_US if is_behind else READ_IDLE_US)

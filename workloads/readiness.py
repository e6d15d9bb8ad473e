"""How long a load waits until all of its users are connected: as long as the slowest of them may take.

Knows neither Locust nor gevent: whoever waits says how. Shown by tests/workloads/test_workloads_readiness.py.
"""

from __future__ import annotations

from collections.abc import Callable

from workloads.clients.protocol import READY_TIMEOUT_S
from workloads.reports import LoadState


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

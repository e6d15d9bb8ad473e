"""The load's patience is no shorter than that of the clients that it waits for. Time is made up."""

from __future__ import annotations

import pytest

from workloads.clients.protocol import CONNECT_TIMEOUT_S, READY_TIMEOUT_S, START_TIMEOUT_S
from workloads.readiness import BEHIND_IDLE_US, READ_IDLE_US, LoadFailed, have_read, wait_ready
from workloads.reports import LoadState, merge_states


class SlowUsers:
    """Two users that are ready at a time of the made-up clock."""

    def __init__(self, *, ready_after_s: float, error: str = "") -> None:
        self.now_s, self._ready_after_s, self._error = 0.0, ready_after_s, error
        self.is_stopped = False

    def state(self) -> LoadState:
        ready, errors = 2 * (self.now_s >= self._ready_after_s), (self._error,) * bool(self._error)
        return merge_states(()).model_copy(update={"ready": ready, "errors": errors})

    def wait(self) -> bool:
        return wait_ready(
            self.state, 2, is_stopped=lambda: self.is_stopped, now_s=lambda: self.now_s, pause=self._pause
        )

    def _pause(self) -> None:
        self.now_s += 0.5


def test_two_jvms_on_a_busy_host_may_take_as_long_as_each_of_their_own_bounds() -> None:
    assert SlowUsers(ready_after_s=START_TIMEOUT_S + CONNECT_TIMEOUT_S).wait()


def test_users_that_never_get_ready_are_given_up_with_the_time_that_was_waited() -> None:
    users = SlowUsers(ready_after_s=10_000)
    with pytest.raises(LoadFailed, match=f"0 of 2 users are ready after {READY_TIMEOUT_S:g} s"):
        users.wait()
    assert users.now_s == pytest.approx(READY_TIMEOUT_S, abs=1)


def test_a_users_error_and_a_stop_end_the_waiting_at_once() -> None:
    with pytest.raises(LoadFailed, match="no such topic"):
        SlowUsers(ready_after_s=10_000, error="no such topic").wait()
    users = SlowUsers(ready_after_s=10_000)
    users.is_stopped = True
    assert not users.wait()
    assert users.now_s == 0


@pytest.mark.parametrize(
    ("received", "readers", "patience_us"),
    [
        ({"0": 10}, 1, READ_IDLE_US),
        ({"0": 12, "1": 10}, 2, READ_IDLE_US),  # some were delivered again
        ({"0": 9}, 1, BEHIND_IDLE_US),
        ({"0": 30, "1": 9}, 2, BEHIND_IDLE_US),  # in all it is more than enough
        ({"0": 10}, 2, BEHIND_IDLE_US),  # the other group has got nothing yet
        ({}, 1, BEHIND_IDLE_US),
    ],
)
def test_a_reader_that_is_behind_is_waited_for_longer(received: dict[str, int], readers: int, patience_us: int) -> None:
    """It has not read all: on a busy host it may have had no processor for half a second."""
    seen = merge_states(()).model_copy(update={"acked": 10, "received_by_reader": received})
    assert not have_read(seen, readers, idle_us=patience_us)
    assert have_read(seen, readers, idle_us=patience_us + 1)

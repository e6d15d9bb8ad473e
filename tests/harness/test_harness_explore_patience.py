"""`harness.explore.execution.patience`: a client is not accused of what its host keeps it from."""

from __future__ import annotations

import os

import pytest

from harness.explore.execution.patience import WALL_FACTOR, Patience, queue_waits


class Host:
    """A clock, and a thread of a client that waits for a processor."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waited_s = 7.0
        self.patience = Patience(
            10.0, lambda: [1], clock=lambda: self.now_s, waits_of=lambda pids: {(1, 1): self.waited_s, (1, 2): 0.0}
        )

    def passes(self, seconds: float, *, waiting_s: float = 0.0) -> bool:
        self.now_s += seconds
        self.waited_s += waiting_s
        return self.patience.is_over


def test_a_client_that_is_let_run_has_its_limit_of_seconds() -> None:
    host = Host()
    assert not host.passes(10.0)
    assert host.passes(0.5)


def test_what_a_thread_waited_for_a_processor_does_not_count() -> None:
    host = Host()
    assert [host.passes(5.0, waiting_s=4.0) for _ in range(10)] == [False] * 10
    assert host.passes(0.5)


def test_a_wait_that_is_longer_than_the_time_between_two_looks_counts_whole() -> None:
    """The kernel tells of it when it is over."""
    host = Host()
    looks = [host.passes(0.05, waiting_s=waited) for _ in range(250) for waited in (0.0, 0.095)]
    assert not any(looks)


def test_it_begins_anew_with_each_progress() -> None:
    host = Host()
    assert not host.passes(9.0)
    host.patience.renew()
    assert not host.passes(9.0)
    assert host.passes(2.0)


def test_it_has_an_end_on_a_host_that_lets_nothing_run() -> None:
    host = Host()
    assert not host.passes(10.0 * WALL_FACTOR, waiting_s=10.0 * WALL_FACTOR)
    assert host.passes(1.0, waiting_s=1.0)


def test_the_kernel_tells_of_each_thread_and_nothing_of_a_process_that_is_gone() -> None:
    found = queue_waits([os.getpid(), 1 << 30])
    assert (os.getpid(), os.getpid()) in found
    assert {pid for pid, _ in found} == {os.getpid()}
    assert all(wait >= 0.0 for wait in found.values())


def test_a_process_that_ends_while_it_is_looked_at_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that dies of a fatal error was met so: the trial proved nothing."""

    def gone(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", gone)
    monkeypatch.setattr(os, "scandir", gone)
    assert queue_waits([os.getpid()]) == {}

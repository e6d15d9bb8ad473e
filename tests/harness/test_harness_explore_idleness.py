"""`harness.explore.execution.idleness`: who has nothing to do and uses a processor, and who is only not let run."""

from __future__ import annotations

import os
import threading
import time

from harness.explore.execution.idleness import (
    BUSY_FROM,
    GLANCES,
    Look,
    Usage,
    Used,
    awake_threads,
    never_sleeps,
    usage_of_threads,
    watch,
)


class Host:
    """A clock, and two threads of a client. `cpu` and `waiting` are shares of the time that passes."""

    def __init__(self, *, cpu: float, waiting: float = 0.0, threads: int = 1) -> None:
        self.now_s = 50.0
        self._cpu, self._waiting, self._threads = cpu, waiting, threads

    def passes(self, seconds: float) -> None:
        self.now_s += seconds

    def usage(self, pid: int) -> Usage:
        used = Used(cpu_s=3.0 + self._cpu * self.now_s, waited_s=self._waiting * self.now_s)
        return {thread: used for thread in range(self._threads)}

    def look(self, seconds: float = 1.0) -> Look:
        return watch(1, seconds, self.passes, clock=lambda: self.now_s, usage_of=self.usage)


def test_a_loop_that_waits_for_nothing_is_busy() -> None:
    found = Host(cpu=0.99).look(2.0)
    assert found.share >= BUSY_FROM
    assert found.looked_ms == 2_000


def test_heartbeats_and_fetches_are_not_busy() -> None:
    assert Host(cpu=0.2).look().share < BUSY_FROM


def test_a_loop_that_gets_half_of_a_processor_and_waits_for_the_other_half_is_busy() -> None:
    assert Host(cpu=0.5, waiting=0.5).look().share >= BUSY_FROM


def test_a_client_that_was_hardly_let_run_has_shown_nothing() -> None:
    assert Host(cpu=0.01, waiting=0.99).look() == Look(share=0.0, looked_ms=1_000)


def test_a_loop_is_busy_however_little_of_a_processor_it_gets() -> None:
    assert Host(cpu=0.1, waiting=0.9).look().share >= BUSY_FROM


def test_a_look_goes_on_until_a_thread_has_had_enough_turns_and_ends_anyway() -> None:
    starved = Host(cpu=0.1, waiting=0.9)
    found = watch(
        1, 1.0, starved.passes, seconds_max=10, enough_s=0.45, clock=lambda: starved.now_s, usage_of=starved.usage
    )
    assert (found.looked_ms, found.share >= BUSY_FROM) == (5_000, True)
    found = watch(
        1, 1.0, starved.passes, seconds_max=10, enough_s=2, clock=lambda: starved.now_s, usage_of=starved.usage
    )
    assert found == Look(share=0.0, looked_ms=10_000)


def test_who_sleeps_between_its_turns_is_not_busy_on_a_starved_host_either() -> None:
    """Three threads wait for a processor most of the time, and sleep for a tenth of it."""
    assert Host(cpu=0.05, waiting=0.85, threads=3).look().share < BUSY_FROM


def test_threads_that_use_more_than_one_processor_together_are_busy() -> None:
    assert Host(cpu=0.7, threads=2).look().share >= 1.0


def test_what_ended_used_nothing() -> None:
    assert watch(1, 1.0, lambda _: None, clock=iter([0.0, 1.0]).__next__, usage_of=lambda _: {}).share == 0.0


def test_the_kernel_tells_what_a_thread_has_used() -> None:
    before = usage_of_threads(os.getpid())[threading.get_native_id()]
    while usage_of_threads(os.getpid())[threading.get_native_id()].cpu_s <= before.cpu_s:
        time.thread_time()  # it uses a processor until the kernel has seen it


def test_only_a_thread_that_is_awake_at_each_glance_never_sleeps() -> None:
    looked: list[float] = []
    seen = iter([{1, 2}, {2, 3}, {2}] + [{2}] * GLANCES)
    assert never_sleeps(1, looked.append, awake=lambda pid: next(seen)) == {2}
    assert len(looked) == GLANCES - 1


def test_a_client_that_sleeps_costs_one_glance() -> None:
    looked: list[float] = []
    assert never_sleeps(1, looked.append, awake=lambda pid: frozenset()) == frozenset()
    assert looked == []


def test_the_kernel_tells_which_threads_are_awake() -> None:
    assert threading.get_native_id() in awake_threads(os.getpid())
    assert awake_threads(2**22 + 1) == frozenset()

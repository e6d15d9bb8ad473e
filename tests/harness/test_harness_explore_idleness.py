"""`harness.explore.execution.idleness`: who has nothing to do and uses a processor, and who is only not let run."""

from __future__ import annotations

import os
import threading
import time

from harness.explore.execution.idleness import BUSY_FROM, Look, Usage, Used, look, usage_of_threads


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
        return look(1, seconds, self.passes, clock=lambda: self.now_s, usage_of=self.usage)


def test_a_loop_that_waits_for_nothing_is_busy() -> None:
    found = Host(cpu=0.99).look(2.0)
    assert found.share >= BUSY_FROM
    assert found.looked_ms == 2_000


def test_heartbeats_and_fetches_are_not_busy() -> None:
    assert Host(cpu=0.2).look().share < BUSY_FROM


def test_a_loop_that_gets_half_of_a_processor_and_waits_for_the_other_half_is_busy() -> None:
    assert Host(cpu=0.5, waiting=0.5).look().share >= BUSY_FROM


def test_a_client_that_was_hardly_let_run_has_shown_nothing() -> None:
    assert Host(cpu=0.1, waiting=0.9).look() == Look(share=0.0, looked_ms=1_000)


def test_threads_that_use_more_than_one_processor_together_are_busy() -> None:
    assert Host(cpu=0.7, threads=2).look().share >= 1.0


def test_what_ended_used_nothing() -> None:
    assert look(1, 1.0, lambda _: None, clock=iter([0.0, 1.0]).__next__, usage_of=lambda _: {}).share == 0.0


def test_the_kernel_tells_what_a_thread_has_used() -> None:
    before = usage_of_threads(os.getpid())[threading.get_native_id()]
    while usage_of_threads(os.getpid())[threading.get_native_id()].cpu_s <= before.cpu_s:
        time.thread_time()  # it uses a processor until the kernel has seen it

"""Threads of a simulated client wait in virtual time, and in an order that repeats itself."""

from __future__ import annotations

import random
import select

import pytest

from broker.client import native
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.plan import settings_of
from broker.sim.scheduler import Scheduler
from broker.sim.seed_run import run_seed
from broker.sim.threads import Threads


class Process:
    def __init__(self) -> None:
        self.scheduler = Scheduler()
        network = Network(scheduler=self.scheduler, rng=random.Random(1))
        self.loop = SimLoop(scheduler=self.scheduler, network=network, host="client")  # type: ignore[abstract]
        self.threads = Threads(scheduler=self.scheduler, network=network, loop=self.loop)
        self.seen: list[tuple[int, str]] = []

    def note(self, what: str) -> None:
        self.seen.append((self.scheduler.now_us // 1000, what))

    def advance(self) -> None:
        self.scheduler.run(until_us=60_000_000, is_done=lambda: False, events_max=10_000)


def test_a_thread_waits_for_another_ones_event() -> None:
    process = Process()

    def main() -> None:
        event = native.Event()

        def other() -> None:
            process.threads.wait(lambda: False, 300)
            process.note("sets")
            event.set()

        ended = native.start_thread(other)
        assert not event.wait(0.1)
        process.note("timed out")
        assert event.wait(5.0)
        process.note("heard")
        assert ended.wait(5.0)

    process.threads.begin(main)
    process.advance()
    assert process.threads.failure is None
    assert [what for _, what in process.seen] == ["timed out", "sets", "heard"]
    assert [when for when, _ in process.seen] == [100, 300, 300]


def test_a_lock_is_one_threads_at_a_time() -> None:
    process = Process()

    def main() -> None:
        lock = native.new_lock()

        def other() -> None:
            with lock:
                process.note("other")

        with lock:
            native.start_thread(other)
            process.threads.wait(lambda: False, 50)
            process.note("main")

    process.threads.begin(main)
    process.advance()
    assert [what for _, what in process.seen] == ["main", "other"]


def test_a_thread_that_polls_what_it_never_serves_is_told_of() -> None:
    process = Process()

    def main() -> None:
        receiver, sender = native.socket_pair()
        poll = native.new_poll()
        poll.register(receiver.fileno(), select.POLLIN)
        sender.send(b"x")
        while True:
            poll.poll(1_000)

    process.threads.begin(main)
    process.advance()
    assert "never serves" in str(process.threads.failure)


def test_a_killed_process_runs_no_more_code_and_its_threads_can_be_disposed_of() -> None:
    process = Process()

    def main() -> None:
        process.note("begins")
        process.threads.wait(lambda: False, 100)
        process.note("never")

    process.threads.begin(main)
    process.scheduler.after(50_000, process.loop.kill)
    process.advance()
    process.threads.dispose()
    assert [what for _, what in process.seen] == ["begins"]
    assert process.threads.failure is None


def test_what_a_thread_raises_is_told() -> None:
    process = Process()

    def main() -> None:
        raise RuntimeError("broken")

    process.threads.begin(main)
    process.advance()
    assert repr(process.threads.failure) == "RuntimeError('broken')"


@pytest.mark.thorough
def test_a_seed_with_the_real_clients_repeats_itself() -> None:
    seed = 12
    settings = settings_of(seed)
    assert settings.real_producers
    assert settings.real_members
    one, other = run_seed(seed), run_seed(seed)
    assert (one.trace_hash, one.counts) == (other.trace_hash, other.counts)
    assert one.counts["real producer committed"] > 0
    assert one.counts["real member committed"] > 0

"""Work takes time: a process is busy with it, what comes meanwhile waits in order, and a stall is seen."""

from __future__ import annotations

import asyncio
import random

import pytest

from broker.mutants import applied
from broker.sim.costs import _elements
from broker.sim.disk import BYTES_PER_US, CALL_US, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.invariants.processes import EventLoopAnswersWithinASession
from broker.sim.loop import SimLoop, spend_us
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.seed_run import run_seed
from broker.wire.apis import ApiKey
from broker.wire.messages import request

AFTERMATH_SEED = 14


class Host:
    """One process, and what its callbacks did: (virtual time, name)."""

    def __init__(self, scheduler: Scheduler | None = None) -> None:
        self.scheduler = scheduler or Scheduler()
        network = Network(scheduler=self.scheduler, rng=random.Random(1))
        self.loop = SimLoop(scheduler=self.scheduler, network=network, host="host")  # type: ignore[abstract]
        self.seen: list[tuple[int, str]] = []

    def at(self, when_us: int, name: str, *, takes_us: int = 0) -> None:
        def run() -> None:
            self.seen.append((self.scheduler.now_us, name))
            spend_us(takes_us)

        self.scheduler.at(when_us, lambda: self.loop.run_callback(run))

    def advance(self) -> None:
        self.scheduler.run(until_us=10_000_000, is_done=lambda: False, events_max=10_000)


def test_what_comes_while_a_process_works_waits_in_order() -> None:
    host = Host()
    host.at(0, "long", takes_us=500)
    host.at(100, "first", takes_us=50)
    host.at(200, "second")
    host.at(900, "later")
    host.advance()
    assert host.seen == [(0, "long"), (500, "first"), (550, "second"), (900, "later")]
    assert (host.loop.held_us, host.loop.waited_us) == (500, 400)


def test_other_processes_go_on_meanwhile() -> None:
    busy = Host()
    other = Host(busy.scheduler)
    busy.at(0, "long", takes_us=500)
    other.at(100, "other")
    busy.advance()
    assert other.seen == [(100, "other")]


def test_a_timer_counts_from_when_it_was_set_within_the_work() -> None:
    host, rung = Host(), list[int]()

    def work() -> None:
        spend_us(1_000)
        host.loop.call_later(0.001, lambda: rung.append(host.scheduler.now_us))

    host.loop.run_callback(work)
    host.advance()
    assert 2_000 <= rung[0] <= 2_002


def test_a_timer_that_is_cancelled_while_it_waits_for_its_loop_does_not_ring() -> None:
    host, rung = Host(), list[str]()
    timer = host.loop.call_later(0.0001, lambda: rung.append("rung"))
    host.at(50, "long", takes_us=500)
    host.scheduler.at(300, timer.cancel)
    host.advance()
    assert rung == []


def test_a_process_that_was_paused_has_not_waited_for_itself() -> None:
    host = Host()
    host.loop.pause(1_000_000)
    host.at(100, "due")
    host.scheduler.at(600_000, host.loop.resume)
    host.advance()
    assert (host.seen, host.loop.waited_us) == ([(600_000, "due")], 0)


def test_a_shorter_pause_within_a_longer_one_does_not_end_it() -> None:
    host = Host()
    host.loop.pause(1_000_000)
    host.at(100, "due")
    host.scheduler.at(200, lambda: host.loop.pause(300_000))
    host.advance()
    assert (host.seen, host.loop.waited_us) == ([(1_000_000, "due")], 0)


def test_what_another_thread_does_takes_its_time_and_not_the_loops() -> None:
    host = Host()

    async def work() -> None:
        with host.loop.off_loop() as spent:
            spend_us(2_000_000)
        await asyncio.sleep(spent[0] / 1e6)
        host.seen.append((host.scheduler.now_us, "done"))

    host.loop.run_callback(lambda: host.loop.create_task(work()))
    host.at(1_000, "other")
    host.advance()
    assert host.seen[0] == (1_000, "other")
    assert host.seen[1][0] >= 2_000_000
    assert host.loop.held_us == 0


def test_calls_of_the_disk_take_time_by_their_bytes_and_none_for_the_checker() -> None:
    host = Host()
    disk = SimDisk(scheduler=host.scheduler, rng=random.Random(1), name="disk")
    spent: list[int] = []

    def work() -> None:
        file = SimFileSystem(disk).open("/d/a")
        began_us = host.scheduler.now_us
        file.write_at(0, bytes(1_000))
        file.sync()
        spent.append(host.scheduler.now_us - began_us)
        with disk.observed():
            file.read_at(0, 1_000)
        spent.append(host.scheduler.now_us - began_us)

    host.loop.run_callback(work)
    expected = CALL_US["write"] + 1_000 // BYTES_PER_US + CALL_US["sync"]
    assert spent == [expected, expected]


def test_elements_are_those_of_all_arrays() -> None:
    message = request(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": "t",
                "partitions": [
                    {"partition_index": index, "current_leader_epoch": -1, "timestamp": -2} for index in range(3)
                ],
            }
        ]
        * 2,
    )
    assert _elements(message) == 2 + 2 * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        "recovery_on_the_loop",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("partitions_opened_at_once", "elements_not_limited")),
    ],
)
def test_unbounded_work_in_one_wake_up_is_a_stall(mutant: str) -> None:
    with applied(mutant):
        violation = run_seed(AFTERMATH_SEED).violation
    assert violation is not None
    assert violation.invariant == EventLoopAnswersWithinASession.NAME

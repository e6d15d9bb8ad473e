"""The server of known behaviour does what its plan says, and the plan's arithmetic is right."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np
import pytest

from benchmarks.known_server.plan import Plan, seeded_stalls
from benchmarks.known_server.relay import KnownServer
from broker.door.clients import Admin, NewTopic, Producer

ANSWER_S = 60.0  # of a busy host


class Counting(Sequence[tuple[float, float]]):
    """Counts what is read of it."""

    def __init__(self, stalls: Sequence[tuple[float, float]]) -> None:
        self._stalls, self.reads = stalls, 0

    def __len__(self) -> int:
        return len(self._stalls)

    @overload
    def __getitem__(self, index: int) -> tuple[float, float]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[float, float]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, float] | Sequence[tuple[float, float]]:
        self.reads += 1
        return self._stalls[index]


def test_an_answer_due_in_a_stall_goes_at_its_end() -> None:
    plan = Plan(stalls=[(1.0, 1.5), (3.0, 3.1)])
    due = np.array([0.9, 1.0, 1.2, 1.5, 2.0, 3.05, 9.0])
    assert plan.release(due).tolist() == [0.9, 1.5, 1.5, 1.5, 2.0, 3.1, 9.0]
    assert Plan().release(due).tolist() == due.tolist()
    assert [plan.release_s(each) for each in due] == plan.release(due).tolist()
    assert Plan().release_s(4.5) == 4.5


def test_a_long_plan_does_not_slow_the_server_down() -> None:
    """An hour of stalls: to look for the right one takes microseconds, or the server's own delay would be measured."""
    plan = Plan(stalls=seeded_stalls(1, from_s=0.0, for_s=3_600.0, gap_s=(0.03, 0.12), length_s=(0.02, 0.10)))
    assert len(plan.stalls) > 20_000
    asked = Counting(plan.stalls)
    assert Plan(stalls=asked).release_s(1_800.0) == plan.release_s(1_800.0)
    assert asked.reads < 40


def test_latencies_are_the_wait_for_the_release_of_the_answer() -> None:
    plan = Plan(stalls=[(1.0, 1.5)], delay_s_by_acks={-1: 0.2})
    intended = np.array([0.7, 0.85, 1.4, 2.0])
    assert plan.latencies(intended, acks=-1, way_s=0.0) == pytest.approx([0.2, 0.65, 0.2, 0.2])
    assert plan.latencies(intended, acks=1, way_s=0.01) == pytest.approx([0.01, 0.01, 0.1, 0.01])


def test_stalls_are_those_of_their_seed_and_apart() -> None:
    stalls = seeded_stalls(3, from_s=10.0, for_s=5.0, gap_s=(0.1, 0.2), length_s=(0.05, 0.1))
    assert stalls == seeded_stalls(3, from_s=10.0, for_s=5.0, gap_s=(0.1, 0.2), length_s=(0.05, 0.1))
    assert stalls != seeded_stalls(4, from_s=10.0, for_s=5.0, gap_s=(0.1, 0.2), length_s=(0.05, 0.1))
    edges = [edge for stall in stalls for edge in stall]
    assert edges == sorted(edges)
    assert edges[0] >= 10.1
    assert edges[-1] >= 15.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownServer]:
    with KnownServer(tmp_path_factory.mktemp("known")) as started:
        with Admin({"bootstrap.servers": started.bootstrap_servers, "default.api.timeout.ms": 30_000}) as admin:
            admin.create_topics([NewTopic(name="t", partitions=1, replication_factor=1, config={})])
        yield started


def send_all(server: KnownServer, count: int, **properties: object) -> float:
    """Seconds until all records are acknowledged that are handed over at once."""
    settings = {
        "bootstrap.servers": server.bootstrap_servers,
        "linger.ms": 0,
        "enable.idempotence": False,
        **properties,
    }
    with Producer(settings) as producer:
        producer.send("t", b"warm up", partition=0).get(ANSWER_S)
        started_s = time.monotonic()
        futures = [producer.send("t", b"x", partition=0) for _ in range(count)]
        producer.flush(ANSWER_S)
        for future in futures:
            future.get(ANSWER_S)
        return time.monotonic() - started_s


@pytest.mark.slow
def test_the_server_delays_stalls_and_limits_as_planned(server: KnownServer) -> None:
    server.plan = Plan(delay_s_by_acks={1: 0.3})
    assert send_all(server, 1, acks=1) >= 0.3
    stall = (time.monotonic(), time.monotonic() + 1.5)
    server.plan = Plan(stalls=[stall])
    with Producer({"bootstrap.servers": server.bootstrap_servers, "linger.ms": 0}) as producer:
        producer.send("t", b"held back", partition=0).get(ANSWER_S)
    assert time.monotonic() >= stall[1]
    server.plan = Plan(records_per_s=500)
    assert send_all(server, 300, acks=1) >= 300 / 500

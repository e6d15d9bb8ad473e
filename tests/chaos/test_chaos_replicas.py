"""Faults that move replicas: what they ask for, what proves them, and how healing takes them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.faults.base import FaultRun
from chaos.faults.replicas import emptied
from chaos.targets import PartitionOfInterest


class FakeCluster:
    """Brokers and topics in one. What is asked for is there at once, unless `is_stuck`."""

    def __init__(self, replicas: dict[int, tuple[int, ...]], brokers: Sequence[int] = (1, 2, 3)) -> None:
        self.now, self.broker_ids = replicas, tuple(brokers)
        self.listed, self.running = set(brokers), set(brokers)
        self.is_stuck, self.was_cancelled = False, False

    def replicas_of(self, topic: str) -> dict[int, tuple[int, ...]]:
        return dict(self.now)

    def set_replicas(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        if self.is_stuck:
            raise TimeoutError("still on their way")
        self.now |= {partition: tuple(replicas) for partition, replicas in wanted.items()}

    def cancel_moves(self, topic: str) -> None:
        self.was_cancelled = True

    def leader(self, topic: str, partition: int) -> int:
        return self.now[partition][0]

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        return self.now[partition]

    isr = replicas

    def terminate(self, broker: int) -> None:
        self.running.discard(broker)

    def restart(self, broker: int) -> None:
        self.running.add(broker)
        self.listed.add(broker)

    def is_running(self, broker: int) -> bool:
        return broker in self.running

    def brokers(self) -> frozenset[int]:
        return frozenset(self.listed)

    def forget_broker(self, broker: int) -> None:
        assert broker not in self.running
        self.listed.discard(broker)


def make(name: str, cluster: Any) -> FaultRun:
    spec = FAULTS[name]
    port: Any = SimpleNamespace(brokers=cluster, processes=cluster, topics=cluster)
    context = spec.context(spec.default_target, port, PartitionOfInterest(topic="t"), None, "test")
    return spec.make(context, spec.parameters)


def test_the_leader_goes_and_a_broker_without_a_replica_comes() -> None:
    cluster = FakeCluster({0: (1, 2)})
    fault = make("replicas_moved", cluster)
    assert not fault.prove().is_effective
    fault.inject()
    assert cluster.now == {0: (3, 2)}
    assert fault.prove().is_effective
    fault.heal()
    assert not cluster.was_cancelled, "where the replicas have arrived they stay"


def test_healing_cancels_what_has_not_arrived() -> None:
    cluster = FakeCluster({0: (1, 2)})
    cluster.is_stuck = True
    fault = make("replicas_moved", cluster)
    with pytest.raises(TimeoutError):
        fault.inject()
    assert not fault.prove().is_effective
    fault.heal()
    assert cluster.was_cancelled


def test_without_a_broker_to_go_to_nothing_is_asked() -> None:
    with pytest.raises(ValueError, match="needs a leader, and a broker without a replica"):
        make("replicas_moved", FakeCluster({0: (1, 2, 3)})).inject()


def test_a_broker_is_emptied_stopped_and_forgotten_and_gets_back_what_it_had() -> None:
    before = {0: (1, 2), 1: (2, 3), 2: (3, 1)}
    cluster = FakeCluster(dict(before))
    fault = make("broker_decommissioned", cluster)
    fault.inject()
    assert cluster.now == {0: (3, 2), 1: (2, 3), 2: (3, 2)}
    assert (cluster.running, cluster.listed) == ({2, 3}, {2, 3})
    assert fault.prove().is_effective
    fault.heal()
    fault.heal()  # may be called twice
    assert (cluster.now, cluster.running) == (before, {1, 2, 3})


@pytest.mark.parametrize("fails", ["set_replicas", "terminate", "forget_broker"])
def test_a_decommission_that_fails_half_way_is_undone(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    before = {0: (1, 2), 1: (2, 3), 2: (3, 1)}
    cluster = FakeCluster(dict(before))
    fault = make("broker_decommissioned", cluster)
    real = getattr(cluster, fails)

    def half_done(*arguments: Any) -> None:
        real(*arguments)
        raise TimeoutError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, fails, half_done)
        with pytest.raises(TimeoutError):
            fault.inject()
    assert not fault.prove().is_effective
    fault.heal()
    assert cluster.was_cancelled
    assert (cluster.now, cluster.running, cluster.listed) == (before, {1, 2, 3}, {1, 2, 3})


def test_the_broker_with_the_fewest_replicas_takes_over_and_where_none_is_free_there_is_one_less() -> None:
    assert emptied({0: (1, 2), 1: (1, 2), 2: (4, 1)}, 1, [2, 3, 4]) == {0: (3, 2), 1: (3, 2), 2: (4, 2)}
    assert emptied({0: (2, 1, 3)}, 1, [2, 3]) == {0: (2, 3)}
    assert emptied({0: (2, 3)}, 1, [2, 3]) == {}
    with pytest.raises(ValueError, match="its only replica"):
        emptied({0: (1,)}, 1, [])

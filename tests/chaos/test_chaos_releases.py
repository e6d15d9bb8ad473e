"""Upgrades as faults: which release a broker gets, what proves it, and what is left as it is when the cell ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.faults.base import FaultRun, Parameter
from chaos.faults.releases import open_jar
from chaos.step import Step
from chaos.targets import PartitionOfInterest

OLD, NEW = "3.9.1", "4.3.1"
HIGHEST = {OLD: {"metadata.version": 21, "kraft.version": 1}, NEW: {"metadata.version": 30, "kraft.version": 1}}


class FakeCluster:
    """A cluster that is its own ports. Its brokers are sleeping programs with the jar of their release open."""

    default_release = NEW
    broker_ids = (1, 2, 3)

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.brokers = self.processes = self.versions = self.features = self
        self.now = dict.fromkeys(self.broker_ids, OLD)
        self.levels = {"metadata.version": 21}
        self.is_changed, self.refuses, self.ends_at_start = False, False, False
        self.ended: list[tuple[str, int]] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for broker in self.broker_ids:
            self.restart(broker)

    def pids(self) -> Mapping[int, int]:
        return {broker: each.pid for broker, each in self._processes.items() if each.poll() is None}

    def is_running(self, broker: int) -> bool:
        return broker in self.pids()

    answers = is_running

    def kill(self, broker: int) -> None:
        self._end(broker, "kill")

    def terminate(self, broker: int) -> None:
        self._end(broker, "terminate")

    def _end(self, broker: int, how: str) -> None:
        self.ended.append((how, broker))
        self._processes[broker].send_signal(signal.SIGKILL)
        self._processes[broker].wait()

    def restart(self, broker: int) -> None:
        jar = self._directory / f"kafka_2.13-{self.now[broker]}.jar"
        jar.touch()
        program = f"file = open({str(jar)!r}); print(flush=True); input()"
        if self.ends_at_start:
            program = "print(flush=True)"
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        if self.ends_at_start:
            process.wait()
        self._processes[broker] = process

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.communicate()

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def controller(self) -> int:
        return 3

    def release_of(self, broker: int) -> str:
        return self.now[broker]

    def change_release(self, broker: int, release: str) -> None:
        assert not self.is_running(broker)
        self.now[broker], self.is_changed = release, True

    def highest_levels(self) -> Mapping[str, int]:
        told = [HIGHEST[release] for release in self.now.values()]
        return {name: min(each[name] for each in told) for name in told[0]}

    def levels_in_force(self) -> Mapping[str, int]:
        return dict(self.levels)

    def levels_by_broker(self) -> Mapping[int, Mapping[str, int]]:
        return {broker: dict(self.levels) for broker in self.pids()}

    def change_features(self, levels: Mapping[str, int], *, is_downgrade: bool = False) -> None:
        if self.refuses:
            raise ValueError("INVALID_UPDATE_VERSION")
        assert all((level < self.levels.get(name, 0)) is is_downgrade for name, level in levels.items())
        self.levels |= levels


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeCluster]:
    made = FakeCluster(tmp_path)
    yield made
    made.close()


def make(name: str, cluster: Any, target: str = "broker:2", **parameters: Parameter) -> FaultRun:
    spec = FAULTS[name]
    context = spec.context(target, cluster, PartitionOfInterest(topic="t"), None, "test")
    return spec.make(context, {**spec.parameters, **parameters})


@pytest.mark.slow
@pytest.mark.parametrize(("how", "to"), [("terminate", NEW), ("kill", "4.0.0")])
def test_an_upgraded_broker_is_a_new_process_with_the_jar_of_its_release(
    cluster: FakeCluster, how: str, to: str
) -> None:
    fault = make("upgrade", cluster, how=how, to="" if to == NEW else to)
    fault.inject()
    assert cluster.now == {1: OLD, 2: to, 3: OLD}
    assert cluster.ended == [(how, 2)]
    proof = fault.prove()
    assert proof.is_effective
    assert (proof.detail["from"], proof.detail["to"]) == ({"2": OLD}, to)
    assert proof.detail["jars"] == {"2": f"kafka_2.13-{to}.jar"}
    fault.heal()
    fault.heal()
    assert cluster.now[2] == to, "healing takes no release back"
    assert len(cluster.ended) == 1


@pytest.mark.slow
def test_healing_starts_a_broker_that_was_left_down(cluster: FakeCluster) -> None:
    fault = make("upgrade", cluster)
    cluster.ends_at_start = True
    with pytest.raises(RuntimeError, match=r"broker 2 ended when it started as 4\.3\.1 on the data of 3\.9\.1"):
        fault.inject()
    assert not fault.prove().is_effective
    cluster.ends_at_start = False
    fault.heal()
    assert cluster.is_running(2)


@pytest.mark.slow
def test_an_old_process_that_goes_on_is_no_proof(cluster: FakeCluster) -> None:
    fault = make("upgrade", cluster)
    fault.inject()
    cluster.now[2] = OLD
    cluster.kill(2)
    cluster.restart(2)
    assert not fault.prove().is_effective, "it has the other release again"
    assert open_jar(cluster.pids()[2], OLD)
    assert not open_jar(os.getpid(), OLD)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "has", "to", "message"),
    [
        ("upgrade", NEW, OLD, "upgrade of broker 2 to 3.9.1: it has 4.3.1, expected a later release"),
        ("upgrade", NEW, NEW, "expected a later release"),
        ("downgrade", OLD, "3.10.0", "downgrade of broker 2 to 3.10.0: it has 3.9.1, expected an earlier release"),
    ],
)
def test_the_other_way_is_refused_before_a_broker_is_ended(
    cluster: FakeCluster, fault: str, has: str, to: str, message: str
) -> None:
    cluster.now[2] = has
    with pytest.raises(ValueError, match=message):
        make(fault, cluster, to=to).inject()
    assert cluster.ended == []


@pytest.mark.slow
def test_a_downgrade_goes_back_to_what_it_was(cluster: FakeCluster) -> None:
    make("upgrade", cluster).inject()
    back = make("downgrade", cluster, to=OLD)
    back.inject()
    assert back.prove().is_effective
    assert set(cluster.now.values()) == {OLD}


@pytest.mark.slow
def test_features_are_raised_to_what_all_brokers_can_do_and_stay(cluster: FakeCluster) -> None:
    with pytest.raises(ValueError, match="nothing can be raised"):
        make("features_upgraded", cluster, "controller").inject()
    cluster.now |= {1: NEW, 2: NEW}
    with pytest.raises(ValueError, match="nothing can be raised"):
        make("features_upgraded", cluster, "controller").inject()
    cluster.now[3] = NEW
    fault = make("features_upgraded", cluster, "controller")
    assert not fault.prove().is_effective
    fault.inject()
    assert cluster.levels == {"metadata.version": 30}, "how voters are known is no feature to raise"
    assert fault.prove().is_effective
    fault.heal()
    assert cluster.levels == {"metadata.version": 30}
    assert cluster.is_changed


@pytest.mark.slow
def test_a_level_is_brought_back_and_the_cluster_serves_other_cells(cluster: FakeCluster) -> None:
    cluster.levels["transaction.version"] = 2
    fault = make("feature_level", cluster, "controller", feature="transaction.version", level=1)
    fault.heal()
    assert cluster.levels["transaction.version"] == 2, "nothing was changed yet"
    fault.inject()
    assert cluster.levels["transaction.version"] == 1
    assert fault.prove().is_effective
    fault.heal()
    fault.heal()
    assert cluster.levels["transaction.version"] == 2
    assert not cluster.is_changed


@pytest.mark.slow
def test_a_level_that_is_refused_is_no_proof(cluster: FakeCluster) -> None:
    cluster.refuses = True
    fault = make("feature_level", cluster, "controller", feature="transaction.version", level=1)
    with pytest.raises(ValueError, match="INVALID_UPDATE_VERSION"):
        fault.inject()
    assert not fault.prove().is_effective
    fault.heal()  # the level is what it was, so nothing is asked for


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"fault": "upgrade", "with": {"to": "4.3"}}, "to is '4.3', expected a release of Apache Kafka like 4.3.1"),
        ({"fault": "downgrade", "with": {"how": "stop"}}, "how is 'stop', expected terminate or kill"),
        ({"fault": "feature_level"}, "feature_level needs a feature, like transaction.version"),
        ({"fault": "feature_level", "with": {"feature": "f", "level": -1}}, "level is -1, expected 0 or more"),
        ({"fault": "upgrade", "with": {"release": "4.3.1"}}, "has no parameter 'release', it has to, how"),
    ],
)
def test_a_step_that_cannot_work_is_refused_when_it_is_read(step: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Step.model_validate({"id": "s", "at": "1s", **step})

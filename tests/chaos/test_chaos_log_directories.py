"""A log directory that is emptied: what the fault asks for, what proves it, and what healing takes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.faults.base import FaultRun
from chaos.faults.log_directories import spread
from chaos.ports.topics import LogDirectory
from chaos.targets import PartitionOfInterest


def holding(*partitions: int, is_cordoned: bool = False) -> LogDirectory:
    return LogDirectory(partitions=frozenset(partitions), arriving=frozenset(), is_cordoned=is_cordoned)


@dataclass
class FakeBroker:
    """A cluster that is its own ports, of broker 2. What is asked for is there at once, unless `is_stuck`."""

    now: dict[str, LogDirectory]
    setting: str = ""
    is_stuck: bool = False
    asked: list[str] = field(default_factory=list)
    broker_ids = (1, 2, 3)

    def __post_init__(self) -> None:
        self.brokers = self.log_directories = self

    def leader(self, topic: str, partition: int) -> int:
        return 2

    def of_broker(self, broker_id: int, topic: str) -> dict[str, LogDirectory]:
        assert (broker_id, topic) == (2, "t")
        named = self.setting.split(",")
        return {path: replace(each, is_cordoned=path in named or "*" in named) for path, each in self.now.items()}

    def cordoned(self, broker_id: int) -> str:
        return self.setting

    def cordon(self, broker_id: int, value: str) -> None:
        self.setting = value
        self.asked.append(f"cordon {value}")

    def move(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> None:
        self.asked.append(f"move {dict(paths)}")
        for index, wanted in paths.items():
            for path, each in self.now.items():
                if self.is_stuck:
                    arriving = each.arriving | {index} if path == wanted else each.arriving
                    self.now[path] = replace(each, arriving=arriving)
                else:
                    rest = each.partitions - {index}
                    self.now[path] = replace(each, partitions=rest | {index} if path == wanted else rest)
        if self.is_stuck:
            raise TimeoutError("still on their way")

    def stay(self, broker_id: int, topic: str) -> None:
        self.asked.append("stay")
        self.now = {path: replace(each, arriving=frozenset()) for path, each in self.now.items()}


def make(broker: Any) -> FaultRun:
    spec = FAULTS["log_directory_emptied"]
    context = spec.context(spec.default_target, broker, PartitionOfInterest(topic="t", partition=1), None, "test")
    return spec.make(context, spec.parameters)


def test_the_directory_is_cordoned_first_and_then_emptied() -> None:
    broker = FakeBroker({"/a": holding(1, 3), "/b": holding(0, 2), "/c": holding()})
    fault = make(broker)
    assert not fault.prove().is_effective
    fault.inject()
    assert broker.asked == ["cordon /a", "move {1: '/c', 3: '/c'}"]
    assert broker.now == {"/a": holding(), "/b": holding(0, 2), "/c": holding(1, 3)}
    proof = fault.prove()
    assert proof.is_effective
    assert proof.detail["directory"] == "/a"
    assert proof.detail["moved"] == {"1": "/c", "3": "/c"}
    fault.heal()
    fault.heal()
    assert broker.asked[2:] == ["cordon "], "replicas stay where they are"
    assert not fault.prove().is_effective


@pytest.mark.parametrize(
    "change",
    [
        {"/a": holding(5), "/b": holding(1, 3)},  # a replica is there again
        {"/a": replace(holding(), arriving=frozenset({3})), "/b": holding(1, 3)},
        {"/a": holding(), "/b": holding(1)},  # one is nowhere
        {"/b": holding(1, 3)},  # the directory has failed
    ],
)
def test_what_is_no_longer_so_is_no_proof(change: dict[str, LogDirectory]) -> None:
    broker = FakeBroker({"/a": holding(1, 3), "/b": holding()})
    fault = make(broker)
    fault.inject()
    assert fault.prove().is_effective
    broker.now = change
    assert not fault.prove().is_effective


def test_a_cordon_of_before_stays() -> None:
    broker = FakeBroker({"/a": holding(1), "/b": holding(), "/c": holding(0)}, setting="/b")
    fault = make(broker)
    fault.inject()
    assert broker.asked == ["cordon /b,/a", "move {1: '/c'}"]
    fault.heal()
    assert broker.setting == "/b"
    broker = FakeBroker({"/a": holding(1), "/b": holding()}, setting="*")
    make(broker).inject()
    assert broker.asked == ["move {1: '/b'}"]


def test_moves_that_did_not_end_are_cancelled_once_the_directory_is_open_again() -> None:
    broker = FakeBroker({"/a": holding(1), "/b": holding()}, is_stuck=True)
    fault = make(broker)
    with pytest.raises(TimeoutError):
        fault.inject()
    assert not fault.prove().is_effective
    fault.heal()
    assert broker.asked[2:] == ["cordon ", "stay"]
    assert broker.now == {"/a": holding(1), "/b": holding()}


def test_a_broker_with_one_directory_or_without_the_partition_is_refused() -> None:
    for present in ({"/a": holding(1)}, {"/a": holding(0), "/b": holding(2)}):
        broker = FakeBroker(dict(present))
        fault = make(broker)
        with pytest.raises(ValueError, match="second log directory"):
            fault.inject()
        fault.heal()
        assert not broker.asked


def test_replicas_go_where_there_are_fewest_and_not_into_a_cordoned_directory() -> None:
    others = {"/a": holding(7), "/b": holding(), "/c": holding(is_cordoned=True)}
    assert spread(frozenset({1, 2, 3}), others) == {1: "/b", 2: "/a", 3: "/b"}
    assert spread(frozenset({1}), {"/c": others["/c"]}) == {1: "/c"}

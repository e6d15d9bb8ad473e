"""A log directory that an operator drains under load, as for a disk that is to be replaced (KIP-1066, KIP-113).

log_directory_emptied takes the log directory with the partition of interest on the target broker. The directory is
cordoned, so that it gets no new replicas (`cordoned.log.dirs`). Then each replica of the topic in it moves to the other
log directory with the fewest of them, while records come. The broker keeps its replicas and its place in their ISRs.
Healing lifts the cordon. Replicas that have moved stay where they are. Moves that are not complete are cancelled.

Proved by the broker: the directory is cordoned, it has no replica of the topic, none is on its way there, and each
replica is in the directory to which it was moved.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.ports.topics import LogDirectory

NAME: Final = "log_directory_emptied"
ALL: Final = "*"  # every log directory is cordoned


class LogDirectoryEmptied:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._directories, self._of = context.port.log_directories, context.of
        (self._broker,) = context.brokers
        self._path = ""
        self._before: str | None = None  # the setting; set while it must be restored
        self._moved: dict[int, str] = {}  # where each replica went
        self._took_ms = -1

    def inject(self) -> None:
        topic, partition = self._of.topic, self._of.partition
        present = self._directories.of_broker(self._broker, topic)
        self._path = next((path for path, each in present.items() if partition in each.partitions), "")
        others = {path: each for path, each in present.items() if path != self._path}
        if not self._path or not others:
            raise ValueError(
                f"{NAME} needs a broker with {topic}-{partition} and a second log directory, and broker "
                f"{self._broker} has {sorted(present)}: write `log_directories: 2`"
            )
        self._before = self._directories.cordoned(self._broker)
        if self._before != ALL:
            self._directories.cordon(self._broker, ",".join(filter(None, (self._before, self._path))))
        moves = spread(present[self._path].partitions, others)
        begin_ns = time.monotonic_ns()
        self._directories.move(self._broker, topic, moves)
        self._took_ms, self._moved = (time.monotonic_ns() - begin_ns) // 1_000_000, moves

    def heal(self) -> None:
        if self._before is None:
            return
        self._directories.cordon(self._broker, self._before)  # first: a cordoned directory takes no replica back
        if not self._moved:
            self._directories.stay(self._broker, self._of.topic)
        self._before = None

    def prove(self) -> Proof:
        now = self._directories.of_broker(self._broker, self._of.topic)
        source = now.get(self._path)
        is_empty = source is not None and source.is_cordoned and not source.partitions | source.arriving
        there = {index: index in now[path].partitions for index, path in self._moved.items() if path in now}
        return Proof(
            is_effective=bool(self._moved) and is_empty and len(there) == len(self._moved) and all(there.values()),
            detail={
                "broker": self._broker,
                "directory": self._path,
                "moved": {str(index): path for index, path in sorted(self._moved.items())},
                "took_ms": self._took_ms,
            },
        )


def spread(partitions: frozenset[int], others: Mapping[str, LogDirectory]) -> dict[int, str]:
    """A directory for each partition: the one with the fewest replicas of the topic, of those that are not
    cordoned. If all are, of all."""
    able = {path: each for path, each in others.items() if not each.is_cordoned} or others
    load = {path: len(each.partitions) for path, each in able.items()}
    found: dict[int, str] = {}
    for index in sorted(partitions):
        found[index] = min(load, key=lambda path: (load[path], path))
        load[found[index]] += 1
    return found


SPEC = FaultSpec(
    name=NAME,
    label="log directory emptied",
    colour="#6c5b1f",
    target_kind="broker",
    default_target="leader",
    make=LogDirectoryEmptied,
    parameters={},
    engines=("reference", "kafka"),
)

"""Capabilities that only some clusters have. Each is a protocol. Code that needs one asks `isinstance`, and names no
engine.

Our own cluster has processes, and logs that can be read. An external cluster has neither, and outlives the run.
What faults need of a cluster stands in chaos/ports, and clusters have these protocols too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from harness.clusters.hosts.host_requests import RequestGathering
from runlog.files.clock import RunClock


@runtime_checkable
class Processes(Protocol):
    """Its brokers are processes or containers that we start and can end."""

    on_process_event: Callable[[str, int], None]  # (kind, broker): started, killed, stopped, paused, resumed, ...

    def exits(self) -> Mapping[int, tuple[int, int | None]]:
        """(pid, exit code) of brokers whose last process has ended; a negative code is the signal, and
        None is not known."""

    def end_offset(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, end offset for consumers) by one question to the leader; None if it does not answer."""

    def describe(self) -> str:
        """The state of each broker, for finding out why the cluster is not as it should be."""


@runtime_checkable
class DeadEpochs(Protocol):
    """The logs of its dead brokers are read on other hosts."""

    def dead_epochs(self, broker_id: int, topic: str, partitions: int) -> Mapping[int, Sequence[tuple[int, int, int]]]:
        """What the log of a broker that is down holds: (leader epoch, start offset, end offset), by partition.
        HarnessError if it cannot be read."""


@runtime_checkable
class RecordsRequests(Protocol):
    """Its proxies on other hosts may record requests."""

    def request_gathering(self, clock: RunClock) -> RequestGathering | None:
        """None: nobody there records requests."""


@runtime_checkable
class LogFiles(Protocol):
    """The brokers' logs are on this host, and ours."""

    @property
    def broker_ids(self) -> tuple[int, ...]: ...

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        """The directory of a partition. None if the broker has none."""

    def remove_data(self) -> None:
        """Removes the data of a stopped cluster."""


@runtime_checkable
class OutlivesRun(Protocol):
    """Somebody else's cluster. What we make there stays unless we remove it."""

    @property
    def outlives_run(self) -> bool: ...


def ignore_process_event(kind: str, broker: int) -> None:
    """Does nothing. The sink of `Processes.on_process_event` if events are not recorded."""

"""What only some clusters can do. Each capability is a protocol. Code that needs one asks `isinstance`, and names no
engine.

A cluster of ours has processes, and logs that can be read. Somebody else's cluster has neither, and outlives the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class Processes(Protocol):
    """Its brokers are processes or containers that we start and can end."""

    on_process_event: Callable[[str, int], None]  # (kind, broker): started, killed, stopped, paused, resumed, ...

    def exits(self) -> Mapping[int, tuple[int, int]]:
        """(pid, exit code) of brokers whose last process has ended; a negative code is the signal."""

    def end_offset(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, end offset for consumers) by one question to the leader; None if it does not answer."""

    def describe(self) -> str:
        """The state of each broker, for finding out why the cluster is not as it should be."""


@runtime_checkable
class LogFiles(Protocol):
    """The brokers' logs are on this host, and ours."""

    @property
    def broker_ids(self) -> tuple[int, ...]: ...

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        """None where the broker has none."""

    def remove_data(self) -> None:
        """Of a stopped cluster."""


@runtime_checkable
class OutlivesRun(Protocol):
    """Somebody else's cluster. What we make there stays unless we remove it, and it may require authentication."""

    @property
    def client_properties(self) -> Mapping[str, str]:
        """What a client needs to be let in."""


def ignore_process_event(kind: str, broker: int) -> None:
    """The sink of `Processes.on_process_event` when nobody records."""

"""Capabilities that only some clusters have. Each is a protocol. Code that needs one asks `isinstance`, and names no
engine.

Our own cluster has processes, and logs that can be read. An external cluster has neither, and outlives the run.
What faults do to brokers is split as Jepsen splits it (db/Kill, db/Pause). Brokers that are containers are
chaos.port.Containers too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaos.port import LinkServer
from chaos.security_port import ProbeAccess, SecurityChanges
from harness.clusters.host_requests import RequestGathering
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
class Kill(Protocol):
    """Its brokers can be ended and started again, one by one."""

    def kill(self, broker_id: int) -> None:
        """SIGKILL; returns when the process is gone."""

    def terminate(self, broker_id: int) -> None:
        """SIGTERM, and wait for the clean stop."""

    def restart(self, broker_id: int) -> None:
        """Start a broker that does not run, on its old data."""


@runtime_checkable
class Pause(Protocol):
    """Its brokers can be made to stand still and go on."""

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""


@runtime_checkable
class Versions(Protocol):
    """Its brokers have releases of Apache Kafka, which can be changed one by one."""

    is_changed: bool  # it is no longer what its key says, so no other cell may have it

    def release_of(self, broker_id: int) -> str:
        """Empty for a broker that has none."""

    def change_release(self, broker_id: int, release: str) -> None:
        """For the next start of a broker that does not run, on its old data."""


@runtime_checkable
class FaultFiles(Protocol):
    """Its brokers read our control files for their disks and clocks."""

    def disk_control(self, broker_id: int) -> Path | None:
        """The control file of the broker's storage (broker/log/disk_faults.py); None: it has none."""

    def fault_page(self, broker_id: int) -> Path | None:
        """The mapped file that its clock, and under the interposer its disk, obeys; None: it has none."""


@runtime_checkable
class Secured(Protocol):
    """Its certificates, users and access control lists are ours."""

    def security_changes(self) -> SecurityChanges | None:
        """Changes of security. None if the cluster speaks plain text without authentication."""


class LinkAccess(Protocol):
    """The proxies of a cluster's links: harness.clusters.proxies.LinkProxies, or also those of fault hosts."""

    def plain(self, link: str) -> tuple[LinkServer, str]:
        """(server, proxy name) for Toxiproxy's own toxics and for cutting the link."""

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        """The same for Kafka toxics; client links only."""

    def probe_access(self, link: str) -> ProbeAccess:
        """How a probe passes `plain`."""


@runtime_checkable
class Links(Protocol):
    """Proxies may be on its links. They are if the cluster is `proxied`."""

    def link_names(self) -> tuple[str, ...]: ...

    def link_proxies(self) -> LinkAccess: ...


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

"""Brokers as faults see them: the roles that they have, and what can be done to them.

Clusters implement these protocols themselves (harness/clusters). `Brokers` is what every cluster tells. The others are
what only some clusters can do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from chaos.process_identity import ProcessIdentity


class Roles(Protocol):
    """The roles of brokers in a cluster. A target needs nothing else."""

    @property
    def broker_ids(self) -> Sequence[int]: ...

    def leader(self, topic: str, partition: int) -> int | None:
        """None while there is no leader, or nobody answers."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]: ...

    def controller(self) -> int | None: ...

    def group_coordinator(self, group: str) -> int | None:
        """None if there is no such group, or nobody answers."""

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """None if nobody answers."""


class Brokers(Roles, Protocol):
    """What every cluster tells of its brokers. What can be done to them stands in the protocols below. A cluster has
    those that it can serve, and whoever needs one asks `isinstance`."""

    def isr(self, topic: str, partition: int) -> Sequence[int]:
        """Empty while nobody answers."""

    def is_running(self, broker_id: int) -> bool: ...

    def pids(self) -> Mapping[int, int]:
        """Process ids of the brokers that run on this host, by broker id."""


@runtime_checkable
class BrokerProcesses(Protocol):
    """Brokers that can be ended, paused and started again, one by one, wherever their processes are."""

    def kill(self, broker_id: int) -> None:
        """SIGKILL. Returns when the process is gone."""

    def terminate(self, broker_id: int) -> None:
        """SIGTERM, and wait for the clean stop."""

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""

    def restart(self, broker_id: int) -> None:
        """Start a broker that does not run, on its old data. Does not wait for it to answer."""


@runtime_checkable
class BrokerFiles(Protocol):
    """Brokers whose files are on this host, and which obey control files of ours for their disks and clocks."""

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        """Where the broker keeps the partition's log. None if it has none."""

    def high_watermark_lag(self, topic: str, partition: int) -> int | None:
        """How many records in the leader's log are above the high watermark. None if unknown."""

    def disk_control(self, broker_id: int) -> Path | None:
        """The control file of the broker's storage (broker/log/disk_faults.py). None if the broker has none."""

    def fault_page(self, broker_id: int) -> Path | None:
        """The mapped file that controls the broker's clock, and on Apache Kafka also its disk
        (chaos/interposer/fault_page.py).

        None for a broker that has none.
        """


@runtime_checkable
class Versions(Protocol):
    """Brokers with releases of Apache Kafka, which can be changed one by one."""

    is_changed: bool  # The cluster is no longer what its key says, so no other cell may have it.

    @property
    def default_release(self) -> str:
        """The release to which a broker is brought if a step names none."""

    def release_of(self, broker_id: int) -> str:
        """The release that the broker has, or gets when it starts again. Empty for a broker that has none."""

    def change_release(self, broker_id: int, release: str) -> None:
        """A broker that does not run gets the release at its next start, on its old data. The cluster then serves no
        other cell."""


class Features(Protocol):
    """Kafka's admin requests for the levels of features (KIP-584). Every call takes effect before it returns, or
    raises."""

    def answers(self, broker_id: int) -> bool:
        """Whether the broker tells its features now."""

    def highest_levels(self) -> Mapping[str, int]:
        """The highest level of each feature that all brokers can do."""

    def levels_in_force(self) -> Mapping[str, int]:
        """The key is the feature. A feature that is left out is at level 0."""

    def levels_by_broker(self) -> Mapping[int, Mapping[str, int]]:
        """The same, as each running broker says. A broker that does not answer is left out."""

    def change_features(self, levels: Mapping[str, int], *, is_downgrade: bool = False) -> None:
        """All of them or none."""


@runtime_checkable
class Containers(Protocol):
    """What a cluster of containers can do beyond processes. Every call takes effect before it returns."""

    def disconnect(self, broker_id: int) -> None:
        """Take the broker off its network."""

    def reconnect(self, broker_id: int) -> None:
        """Connect the broker again, with its old address."""

    def limit_cpu(self, broker_id: int, cores: float | None) -> None:
        """`cores` may be a fraction. None removes the limit."""

    def limit_memory(self, broker_id: int, limit_bytes: int | None) -> None:
        """None removes the limit."""


@runtime_checkable
class HostProcesses(Protocol):
    """Brokers whose processes are on other hosts. Workers there carry out the faults and keep the leases."""

    def identity(self, broker_id: int) -> ProcessIdentity | None:
        """The identity of the broker's process on its host. None if it does not run."""

    def state_of(self, broker_id: int, identity: ProcessIdentity) -> str | None:
        """The letter of the process' state on its host, as in /proc. None if the process has ended."""

    def take_times(self) -> list[dict[str, object]]:
        """When the actions since the last call took effect, with the error bound of that host's clock."""

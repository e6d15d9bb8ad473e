"""A running cluster as faults see it: one small port for each kind of target.

harness/clusters/cluster_port.py says which class of the harness is which port. Tests use small fakes of the ports that
they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.door.security import Credentials
from chaos.ports.brokers import BrokerFiles, BrokerProcesses, Brokers, Features, Versions
from chaos.ports.clients import Clients
from chaos.ports.links import Links
from chaos.ports.topics import LogDirectories, Topics

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPort:
    """A running cluster with its proxies and load: one small port for each kind of target.

    The thread of the timeline calls them. Every call ends within a time limit.
    """

    brokers: Brokers
    links: Links
    clients: Clients | None  # None: the clients are processes of a user's own test.
    topics: Topics
    log_directories: LogDirectories
    features: Features
    load: Load
    access: Access | None  # None: clients need neither TLS nor a login.

    @property
    def processes(self) -> BrokerProcesses:
        """Raises NotOurs."""
        if not isinstance(self.brokers, BrokerProcesses):
            raise NotOurs("nobody here can end, start or pause a broker: the harness did not start this cluster")
        return self.brokers

    @property
    def files(self) -> BrokerFiles:
        """Raises NotOurs."""
        if not isinstance(self.brokers, BrokerFiles):
            raise NotOurs("nobody here can reach the files of a broker: the harness did not start this cluster")
        return self.brokers

    @property
    def versions(self) -> Versions:
        """Raises NotOurs."""
        if not isinstance(self.brokers, Versions):
            raise NotOurs("nobody here can change releases: the harness did not start this cluster")
        return self.brokers


class Load(Protocol):
    """The load of the cell, or of a user's own test."""

    @property
    def acked(self) -> int:
        """How many records were acknowledged so far."""

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """Remove from the segment files of a dead broker what a loss of power would remove, and note which records of
        the load were there. Returns the number of bytes for each file."""


class Access(Protocol):
    """How a client connects to the cluster and logs in."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """None: no TLS."""

    @property
    def credentials(self) -> Credentials | None:
        """None: no SASL."""


class NotOurs(Exception):
    """The cluster is somebody else's, and nobody here can do this to it. A plan refuses such a fault earlier."""

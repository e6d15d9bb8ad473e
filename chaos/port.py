"""The interface through which chaos uses a cluster. The harness implements it for its engines. The tests use a fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from broker.door.security import Credentials
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.process_identity import ProcessIdentity
from chaos.security_port import ProbeAccess, SecurityChanges
from chaos.toxiproxy.states import ProxyState, ToxicState
from chaos.toxiproxy.toxic import AttributeValue

if TYPE_CHECKING:
    import ssl


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


class LinkServer(Protocol):
    """The Toxiproxy server of a link. It is a server that we reach by its API (ToxiproxyClient), or one on another host
    that we reach through the worker there. Every call takes effect before it returns, or raises ToxiproxyError."""

    @property
    def url(self) -> str:
        """The URL of its API. Empty for a server on another host, where the worker keeps the leases."""

    def proxy(self, name: str) -> ProxyState: ...

    def enable(self, name: str) -> ProxyState: ...

    def disable(self, name: str) -> ProxyState:
        """Close the connections of the proxy. Later ones are refused."""

    def add_toxic(
        self,
        proxy: str,
        type_name: str,
        attributes: Mapping[str, AttributeValue],
        *,
        stream: str,
        name: str,
    ) -> ToxicState: ...

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None]) -> None:
        """Remove the toxic, perhaps later. `then` is called when it is removed."""

    def toxic(self, proxy: str, name: str) -> ToxicState: ...


class LinkProber(Protocol):
    """Probes a link from the host of its proxy, because other hosts may not reach the proxy."""

    def probe_link(self, *, timeout_ms: int) -> LinkProbe: ...

    def probe_load(self, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe: ...


@runtime_checkable
class HostLinks(Protocol):
    """Links whose proxies run on other hosts. Workers there carry out the faults and keep the leases."""

    def prober(self, link: str) -> LinkProber | None:
        """None for a link whose proxy is our own."""

    def joint_links(self) -> Sequence[frozenset[str]]:
        """For each proxy there, the links that it carries. A fault on one of them affects all."""


class Topics(Protocol):
    """Kafka's admin requests for a topic in use. Every call takes effect before it returns, or raises."""

    def partition_count(self, topic: str) -> int: ...

    def set_partition_count(self, topic: str, count: int) -> None: ...

    def own_settings(self, topic: str) -> Mapping[str, str]:
        """The overrides of the topic itself."""

    def setting_by_broker(self, topic: str, name: str) -> Mapping[int, str | None]:
        """The effective value, as each running broker tells it."""

    def change_setting(self, topic: str, name: str, value: str | None) -> None:
        """None: remove the override, so that the brokers' setting counts."""

    def id_by_broker(self, topic: str) -> Mapping[int, str | None]:
        """The topic's id (KIP-516) as each running broker tells it. None for a broker that knows no such topic.

        A broker that does not answer is left out.
        """

    def replication_factor(self, topic: str) -> int: ...

    def replicas_of(self, topic: str) -> dict[int, tuple[int, ...]]:
        """The replicas by partition. The first one is the preferred leader."""

    def set_replicas(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        """Reassign. It returns when these are the replicas and all of them are in sync."""

    def cancel_moves(self, topic: str) -> None:
        """Cancel reassignments that `set_replicas` began and that are not complete."""

    def brokers(self) -> frozenset[int]:
        """The ids of the brokers that the cluster lists."""

    def forget_broker(self, broker_id: int) -> None:
        """Unregister a broker that does not run, so that the cluster no longer lists it."""

    def delete(self, topic: str) -> None: ...

    def create(self, topic: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None: ...

    def start_offset(self, topic: str, partition: int) -> int: ...

    def end_offset(self, topic: str, partition: int) -> int: ...

    def newest_append_time_ms(self, topic: str, partition: int) -> int | None:
        """The time when the leader appended the newest batch, by the leader's clock. None if the log is empty, or if
        the timestamps are those of the producers."""

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A log directory of a broker that works, as the broker tells it."""

    partitions: frozenset[int]  # They are of the topic that was asked for.
    arriving: frozenset[int]  # They are of the same topic, and their logs are being copied into it.
    is_cordoned: bool


class LogDirectories(Protocol):
    """Kafka's admin requests for the log directories of a broker, by absolute path. Every call raises if it is
    refused."""

    def of_broker(self, broker_id: int, topic: str) -> Mapping[str, LogDirectory]: ...

    def cordoned(self, broker_id: int) -> str:
        """The setting `cordoned.log.dirs` (KIP-1066) in force."""

    def cordon(self, broker_id: int, value: str) -> None:
        """Change that setting. Empty: no directory is cordoned."""

    def move(self, broker_id: int, topic: str, paths: Mapping[int, str]) -> None:
        """Move the replicas of these partitions to the directories with these paths (KIP-113). It returns when they
        are there, and nowhere else."""

    def stay(self, broker_id: int, topic: str) -> None:
        """Cancel moves that are not complete."""


class Releases(Protocol):
    """Releases of Apache Kafka that brokers have, and the levels of features (KIP-584). Every call takes effect before
    it returns, or raises."""

    @property
    def default(self) -> str:
        """The release to which brokers are brought if a step names none."""

    def release_of(self, broker_id: int) -> str: ...

    def change_release(self, broker_id: int, release: str) -> None:
        """Of a broker that does not run, for its next start. The cluster serves no other cell."""

    def answers(self, broker_id: int) -> bool: ...

    def highest_levels(self) -> Mapping[str, int]:
        """The highest level of each feature that all brokers can do."""

    def levels_in_force(self) -> Mapping[str, int]:
        """By feature. A feature that is left out is at level 0."""

    def levels_by_broker(self) -> Mapping[int, Mapping[str, int]]:
        """The same, as each running broker says. A broker that does not answer is left out."""

    def change_features(
        self, levels: Mapping[str, int], *, is_downgrade: bool = False, is_for_good: bool = True
    ) -> None:
        """All of them or none. `is_for_good`: nobody will restore them, so the cluster serves no other cell."""


class Access(Protocol):
    """How a client connects to the cluster and logs in."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """None: no TLS."""

    @property
    def credentials(self) -> Credentials | None:
        """None: no SASL."""


class Roles(Protocol):
    """The roles of brokers in a cluster. A target needs nothing else."""

    @property
    def broker_ids(self) -> Sequence[int]: ...

    def leader(self, topic: str, partition: int) -> int | None:
        """None while there is no leader, or nobody answers."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]: ...

    def controller(self) -> int | None: ...

    def coordinator(self, group: str = "") -> int | None:
        """The coordinator of a consumer group, by default the first one of this cell's load. None if there is no such
        group, or if the coordinator is unknown."""

    def transaction_coordinator(self, transactional_id: str = "") -> int | None:
        """The coordinator of a transactional.id, by default that of the first transactional copier of this cell's load.
        None if there is no copier, or if the coordinator is unknown."""


class ClusterPort(Roles, Protocol):
    """A running cluster with its proxies and load. The thread of the timeline calls it. Every call ends within a time
    limit."""

    def isr(self, topic: str, partition: int) -> Sequence[int]:
        """Empty while nobody answers."""

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""

    def terminate(self, broker_id: int) -> None:
        """SIGTERM, and wait for the clean stop."""

    def pause(self, broker_id: int) -> None:
        """SIGSTOP."""

    def resume(self, broker_id: int) -> None:
        """SIGCONT."""

    def restart(self, broker_id: int) -> None:
        """Start a broker that does not run, on its old data."""

    def is_running(self, broker_id: int) -> bool: ...

    def pids(self) -> Mapping[int, int]:
        """Process ids of the brokers that run, by broker id."""

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        """Where the broker keeps the partition's log; None if it has none."""

    def failed_log_directories(self, broker_id: int) -> frozenset[Path]:
        """The log directories, without symbolic links, of which the broker says that they failed. Empty while it does
        not answer."""

    def disk_control(self, broker_id: int) -> Path | None:
        """The control file of the broker's storage. None if the broker has none."""

    def fault_page(self, broker_id: int) -> Path | None:
        """The mapped file that controls the broker's clock, and on Apache Kafka also its disk
        (chaos/interposer/fault_page.py).

        None for a broker that has none.
        """

    def containers(self) -> Containers | None:
        """None for brokers that are processes of this host."""

    def host_processes(self) -> HostProcesses | None:
        """None for brokers that are processes of this host."""

    def host_links(self) -> HostLinks | None:
        """None if all proxies are our own."""

    def topics(self) -> Topics: ...

    def log_directories(self) -> LogDirectories: ...

    def releases(self) -> Releases: ...

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """Remove from the segment files of a dead broker what a loss of power would remove. Returns the number of bytes
        for each file."""

    def link_names(self) -> Sequence[str]:
        """`client-<j>`, `internal-<i>-<j>`, `controller-<i>-<j>`. Empty for a cluster without proxies."""

    def plain(self, link: str) -> tuple[LinkServer, str]:
        """The server and the name of the proxy, for cutting a link and for Toxiproxy's own toxics."""

    def probe_access(self, link: str) -> ProbeAccess:
        """TLS and credentials that a probe through the proxy of `plain` needs to get an answer of the broker."""

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        """The same for Kafka toxics, on client links."""

    def client_names(self) -> Sequence[str]:
        """Names of the member processes of this cell's load, like app-0."""

    def client_pids(self) -> Mapping[str, int]:
        """Process ids of the clients that run, by name."""

    def committed_ahead(self, name: str) -> int | None:
        """How many records the member has committed and not processed, by its journal. For a member of a share group:
        how many it has and has not processed. None: it does not commit before it processes."""

    def kill_client(self, name: str) -> None:
        """SIGKILL."""

    def leave_client(self, name: str) -> None:
        """SIGTERM, and wait until it has left its group."""

    def pause_client(self, name: str) -> None:
        """SIGSTOP, also for the processes that it started."""

    def resume_client(self, name: str) -> None: ...

    def start_client(self, name: str) -> None:
        """Start a client again that does not run."""

    def twin_client(self, name: str) -> int:
        """Start a second process with the same group and transactional.id. Returns its pid."""

    def end_twins(self) -> None: ...

    def access(self) -> Access | None:
        """None if clients need neither TLS nor a login."""

    def security(self) -> SecurityChanges | None:
        """None if we may not change certificates and users."""

    def acked(self) -> int:
        """How many records were acknowledged so far in this cell."""

    def high_watermark_lag(self, topic: str, partition: int) -> int | None:
        """How many records in the leader's log are above the high watermark. None if unknown."""

"""What chaos asks of a cluster. The harness implements it for its engines; the tests use a fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from broker.client.core.sasl import Credentials
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.process_identity import ProcessIdentity
from chaos.security_port import ProbeAccess, SecurityChanges
from chaos.toxiproxy.states import ProxyState, ToxicState
from chaos.toxiproxy.toxic import AttributeValue

if TYPE_CHECKING:
    import ssl


@runtime_checkable
class Containers(Protocol):
    """What a cluster of containers offers beyond processes. Every call takes effect before it returns."""

    def disconnect(self, broker_id: int) -> None:
        """Off its network."""

    def reconnect(self, broker_id: int) -> None:
        """At its old address."""

    def limit_cpu(self, broker_id: int, cores: float | None) -> None:
        """`cores` may be a fraction; None gives all of them back."""

    def limit_memory(self, broker_id: int, limit_bytes: int | None) -> None:
        """None gives the host's memory back."""


@runtime_checkable
class HostProcesses(Protocol):
    """Brokers whose processes are on other hosts, which break and mend them there and keep the leases."""

    def identity(self, broker_id: int) -> ProcessIdentity | None:
        """Of the process that runs there; None if there is none."""

    def state_of(self, broker_id: int, identity: ProcessIdentity) -> str | None:
        """The letter of its state there, as in /proc; None if it is gone."""

    def take_times(self) -> list[dict[str, object]]:
        """When what was done since the last call took effect, with the bound of that host's clock."""


class LinkServer(Protocol):
    """The Toxiproxy server that carries a link: a server here, by its API (ToxiproxyClient), or one on another host,
    through the worker there. Every call takes effect before it returns, or raises ToxiproxyError."""

    @property
    def url(self) -> str:
        """Of its API; empty for a server on another host, which keeps the leases there."""

    def proxy(self, name: str) -> ProxyState: ...

    def enable(self, name: str) -> ProxyState: ...

    def disable(self, name: str) -> ProxyState:
        """Closes its connections; later ones are refused."""

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
        """`then` is called when it is gone."""

    def toxic(self, proxy: str, name: str) -> ToxicState: ...


class LinkProber(Protocol):
    """Probes a link on the host of its proxy, which may listen where nobody else reaches it."""

    def probe_link(self, *, timeout_ms: int) -> LinkProbe: ...

    def probe_load(self, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe: ...


@runtime_checkable
class HostLinks(Protocol):
    """Links whose proxies run on other hosts, which break and mend them there and keep the leases."""

    def prober(self, link: str) -> LinkProber | None:
        """None for a link whose proxy is of ours."""

    def joint_links(self) -> Sequence[frozenset[str]]:
        """For each proxy there, the links that it carries: what breaks one of them breaks all."""


class Topics(Protocol):
    """A topic in use, by Kafka's admin requests. Every call takes effect before it returns, or raises."""

    def partition_count(self, topic: str) -> int: ...

    def set_partition_count(self, topic: str, count: int) -> None: ...

    def own_settings(self, topic: str) -> Mapping[str, str]:
        """What is set on the topic itself."""

    def setting_by_broker(self, topic: str, name: str) -> Mapping[int, str | None]:
        """The value in force, by each running broker."""

    def change_setting(self, topic: str, name: str, value: str | None) -> None:
        """None: restore what the brokers' settings say."""

    def id_by_broker(self, topic: str) -> Mapping[int, str | None]:
        """The topic's id (KIP-516) as each running broker tells it. None for a broker that knows no such topic.

        A broker that does not answer is left out.
        """

    def replication_factor(self, topic: str) -> int: ...

    def replicas_of(self, topic: str) -> dict[int, tuple[int, ...]]:
        """By partition; the first one leads if it can."""

    def set_replicas(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        """Returns when these are the replicas, and all of them in sync."""

    def cancel_moves(self, topic: str) -> None:
        """Take back what `set_replicas` began and did not see the end of."""

    def brokers(self) -> frozenset[int]:
        """Those that the cluster lists."""

    def forget_broker(self, broker_id: int) -> None:
        """One that does not run: the cluster no longer has it."""

    def delete(self, topic: str) -> None: ...

    def create(self, topic: str, *, partitions: int, replication_factor: int, config: Mapping[str, str]) -> None: ...

    def start_offset(self, topic: str, partition: int) -> int: ...

    def end_offset(self, topic: str, partition: int) -> int: ...

    def newest_append_time_ms(self, topic: str, partition: int) -> int | None:
        """The time of its leader's clock when it appended the newest batch. None in an empty log, or if timestamps are
        the producers'."""

    def delete_records(self, topic: str, partition: int, before_offset: int) -> None: ...


class Access(Protocol):
    """How a client of the cluster gets in."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """None: no TLS."""

    @property
    def credentials(self) -> Credentials | None:
        """None: no SASL."""


class Roles(Protocol):
    """Who is who in a cluster, which is all that a target needs."""

    @property
    def broker_ids(self) -> Sequence[int]: ...

    def leader(self, topic: str, partition: int) -> int | None:
        """None while there is none, or nobody answers."""

    def replicas(self, topic: str, partition: int) -> Sequence[int]: ...

    def controller(self) -> int | None: ...

    def coordinator(self) -> int | None:
        """Of the first consumer group of this cell's load. None if there is no group, or if nobody knows."""

    def transaction_coordinator(self) -> int | None:
        """Of the first transactional copier of this cell's load. None if there is none, or if nobody knows."""


class ClusterPort(Roles, Protocol):
    """A running cluster with its proxies and load. Called from the timeline's thread. Every call ends within a
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

    def disk_control(self, broker_id: int) -> Path | None:
        """The control file of the broker's storage. None if the broker's disk cannot be told to fail."""

    def fault_page(self, broker_id: int) -> Path | None:
        """The mapped file that its clock obeys, and on Apache Kafka its disk (chaos/interposer/fault_page.py).

        None for a broker that has none.
        """

    def containers(self) -> Containers | None:
        """None for brokers that are processes of this host."""

    def host_processes(self) -> HostProcesses | None:
        """None for brokers that are processes of this host."""

    def host_links(self) -> HostLinks | None:
        """None where all proxies are of ours."""

    def topics(self) -> Topics: ...

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """Remove from a dead broker's segment files what a loss of power would remove. Returns the number of bytes for
        each file."""

    def link_names(self) -> Sequence[str]:
        """`client-<j>`, `internal-<i>-<j>`, `controller-<i>-<j>`; empty for a cluster without proxies."""

    def plain(self, link: str) -> tuple[LinkServer, str]:
        """Client and proxy name for cutting a link and for Toxiproxy's own toxics."""

    def probe_access(self, link: str) -> ProbeAccess:
        """How a probe of ours must speak to `plain`, to be answered by the broker."""

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        """The same for Kafka toxics, on client links."""

    def client_names(self) -> Sequence[str]:
        """Member processes of this cell's load, like app-0."""

    def client_pids(self) -> Mapping[str, int]:
        """Of those that run."""

    def committed_ahead(self, name: str) -> int | None:
        """Records that it has committed and not processed, by its journal. None: it does not commit ahead of
        processing."""

    def kill_client(self, name: str) -> None:
        """SIGKILL."""

    def leave_client(self, name: str) -> None:
        """SIGTERM, and wait: it leaves its group."""

    def pause_client(self, name: str) -> None:
        """SIGSTOP, also for the processes that it started."""

    def resume_client(self, name: str) -> None: ...

    def start_client(self, name: str) -> None:
        """Start a client again that does not run."""

    def twin_client(self, name: str) -> int:
        """A second process with the same group and transactional.id; its pid."""

    def end_twins(self) -> None: ...

    def access(self) -> Access | None:
        """None where everybody gets in, in plain text."""

    def security(self) -> SecurityChanges | None:
        """None where certificates and users are not ours to change."""

    def acked(self) -> int:
        """Records acknowledged so far in this cell."""

    def high_watermark_lag(self, topic: str, partition: int) -> int | None:
        """Records in the leader's log above the high watermark; None if unknown."""

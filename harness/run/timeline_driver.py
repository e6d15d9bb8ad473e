"""Runs chaos' timeline of one cell in a thread of its own, and gives it the cluster as a ClusterPort.

The timeline begins with the measured window. `finish` waits for its end, or ends it early, and returns when all faults
are healed. Shown by tests/harness/test_harness_kafka.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from chaos import timeline
from chaos.port import Containers, HostLinks, HostProcesses, LinkServer
from chaos.security_port import ProbeAccess, SecurityChanges
from harness.clusters.base import Address
from harness.clusters.capabilities import FaultFiles, Kill, Links, Pause, Secured
from harness.clusters.cluster import Cluster
from harness.clusters.log_directories import BrokerDirectories
from harness.clusters.log_reader import TopicLogReader
from harness.clusters.own_topics import OwnTopics
from harness.clusters.releases import ClusterReleases
from harness.clusters.security import Security
from harness.clusters.topic_changes import TopicChanges
from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.members import MemberProcesses
from harness.run.members import transactional_id as id_of_copier
from harness.run.truncation import read_partition_headers
from harness.run.unsynced_writes import drop_unsynced
from harness.scenarios import load_scenario
from runlog.files.paths import events_path
from runlog.records.cluster import ClusterEvent
from runlog.records.fault import FaultLine
from runlog.records.lines import FAULTS, RecordWriter

FINISH_TIMEOUT_S: Final = 120.0
HEAL_TIMEOUT_S: Final = 20.0


def _forget(event: ClusterEvent) -> None:
    """Ignores events until a cell sets its own listener."""


class Driver(Protocol):
    """What a port asks of the code that runs load and timeline: a cell, or a user's own test."""

    @property
    def acked(self) -> int: ...
    @property
    def members(self) -> MemberProcesses | None: ...
    @property
    def own_topics(self) -> OwnTopics | None: ...
    def coordinator(self, group: str = "") -> int | None: ...
    def transaction_coordinator(self, transactional_id: str = "") -> int | None: ...
    def drop_unsynced(self, broker_id: int, account: Path, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]: ...


class TimelineDriver:
    """The timeline of one cell. The code that listens to the load process keeps `acked` up to date."""

    def __init__(self, planned: PlannedCell, cluster: Cluster, context: RunContext) -> None:
        self._planned, self._context = planned, context
        self._scenario = load_scenario(planned.scenario_reference)
        self._cluster = cluster
        self._port = CellPort(cluster, self)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_finished = False
        self.acked: int = 0
        self.members: MemberProcesses | None = None
        self.own_topics: OwnTopics | None = None  # what the cell has made
        self.problem = ""
        self.unhealed = ""  # which heals failed: what is broken after that is not the cluster's fault
        self.on_cluster_event: Callable[[ClusterEvent], object] = _forget

    def begin(self, measure_start_us: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(measure_start_us,), name="timeline", daemon=True)
        self._thread.start()

    def coordinator(self, group: str = "") -> int | None:
        """The coordinator of the first reader that is a consumer group or a share group, or of another group."""
        if group:
            return self._cluster.group_coordinator(group)
        planned = self._planned
        groups = [reader.name for reader in planned.workload.reader_groups if reader.mode != "assign"]
        return self._cluster.group_coordinator(f"{planned.topic_name}-{groups[0]}") if groups else None

    def transaction_coordinator(self, transactional_id: str = "") -> int | None:
        """The coordinator of the first copier's transactional.id, or of another one."""
        if transactional_id:
            return self._cluster.transaction_coordinator(transactional_id)
        planned = self._planned
        copiers = [reader.name for reader in planned.workload.reader_groups if reader.copies]
        if not copiers:
            return None
        return self._cluster.transaction_coordinator(id_of_copier(planned.topic_name, f"{copiers[0]}-0"))

    @property
    def has_ended(self) -> bool:
        """All steps are done, or one failed."""
        return self._thread is not None and not self._thread.is_alive()

    def drop_unsynced(self, broker_id: int, account: Path, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """Drops what a dead broker had not synced. Lost records of the cell's topic go to `on_cluster_event`."""
        topic = self._planned.topic_name
        paths = {
            partition: self._port.partition_directory(broker_id, topic, partition)
            for partition in range(self._planned.partitions)
        }
        dropped = drop_unsynced(
            account,
            broker=broker_id,
            topic=topic,
            directories={partition: path for partition, path in paths.items() if path is not None},
            writeback_ms=writeback_ms,
            torn_bytes=torn_bytes,
            t_us=self._context.clock.now_us(),
        )
        for event in dropped.events:
            self.on_cluster_event(event)
        return dropped.bytes_by_file

    def finish(self, *, interrupted: bool) -> None:
        """Takes a limited time. A second call does nothing."""
        if self._is_finished:
            return
        self._is_finished = True
        if self._thread is None:
            self.problem = self.problem or "the measured window never began"
            return
        if not interrupted:
            self._join(FINISH_TIMEOUT_S)
        self._stop.set()
        self._thread.join(timeout=HEAL_TIMEOUT_S)
        if self._thread.is_alive():
            self.problem = self.unhealed = f"the timeline did not end within {FINISH_TIMEOUT_S:.0f} s"

    def _join(self, timeout_s: float) -> None:
        """As Thread.join, but a signal cuts it short."""
        assert self._thread is not None
        for _ in range(int(timeout_s / 0.1)):
            if not self._thread.is_alive() or self._context.stop.is_set():
                return
            self._thread.join(timeout=0.1)

    def _run(self, measure_start_us: int) -> None:
        planned, context = self._planned, self._context
        with RecordWriter(events_path(context.run_dir, planned.cell_id, "faults"), FAULTS) as faults:

            def record(line: FaultLine) -> None:
                faults.append(line)
                context.progress.fault(line)

            try:
                result = timeline.run(
                    self._scenario,
                    planned.record.case or "",
                    self._port,
                    record,
                    clock=timeline.RunningClock(t0_monotonic_ns=context.clock.t0_monotonic_ns, stop=self._stop),
                    topic=planned.topic_name,
                    measure_start_us=measure_start_us,
                    lease=context.lease,
                    seed=planned.draw_seed,
                )
                self.problem, self.unhealed = result.problem, "; ".join(result.unhealed)
            except Exception as error:  # the entry point of a thread: the cell must hear of it
                self.problem = f"{type(error).__name__}: {error}"


class CellPort:
    """chaos.port.ClusterPort over any cluster and the load of this cell. UsageError: the cluster cannot do this."""

    def __init__(self, cluster: Cluster, driver: Driver) -> None:
        self._cluster, self._driver = cluster, driver

    @property
    def _killable(self) -> Kill:
        if not isinstance(self._cluster, Kill):
            raise _cannot(self._cluster, "end or start a broker")
        return self._cluster

    @property
    def _pausable(self) -> Pause:
        if not isinstance(self._cluster, Pause):
            raise _cannot(self._cluster, "pause a broker")
        return self._cluster

    @property
    def _links(self) -> Links:
        if not isinstance(self._cluster, Links):
            raise _cannot(self._cluster, "disturb a link")
        return self._cluster

    @property
    def broker_ids(self) -> Sequence[int]:
        return self._cluster.broker_ids

    def leader(self, topic: str, partition: int) -> int | None:
        return self._cluster.leader(topic, partition)

    def isr(self, topic: str, partition: int) -> Sequence[int]:
        return self._cluster.isr(topic, partition)

    def replicas(self, topic: str, partition: int) -> Sequence[int]:
        return self._cluster.replicas(topic, partition)

    def controller(self) -> int | None:
        return self._cluster.controller()

    def coordinator(self, group: str = "") -> int | None:
        return self._driver.coordinator(group)

    def transaction_coordinator(self, transactional_id: str = "") -> int | None:
        return self._driver.transaction_coordinator(transactional_id)

    def kill(self, broker_id: int) -> None:
        self._killable.kill(broker_id)

    def terminate(self, broker_id: int) -> None:
        self._killable.terminate(broker_id)

    def pause(self, broker_id: int) -> None:
        self._pausable.pause(broker_id)

    def resume(self, broker_id: int) -> None:
        self._pausable.resume(broker_id)

    def restart(self, broker_id: int) -> None:
        self._killable.restart(broker_id)

    def is_running(self, broker_id: int) -> bool:
        return self._cluster.is_running(broker_id)

    def pids(self) -> Mapping[int, int]:
        return self._cluster.pids()

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        return self._cluster.partition_directory(broker_id, topic, partition)

    def failed_log_directories(self, broker_id: int) -> frozenset[Path]:
        with self._cluster.probe(broker_id) as probe:
            return probe.failed_log_directories()

    def disk_control(self, broker_id: int) -> Path | None:
        return self._cluster.disk_control(broker_id) if isinstance(self._cluster, FaultFiles) else None

    def fault_page(self, broker_id: int) -> Path | None:
        return self._cluster.fault_page(broker_id) if isinstance(self._cluster, FaultFiles) else None

    def containers(self) -> Containers | None:
        return self._cluster if isinstance(self._cluster, Containers) else None

    def host_processes(self) -> HostProcesses | None:
        return self._cluster if isinstance(self._cluster, HostProcesses) else None

    def host_links(self) -> HostLinks | None:
        return self._cluster if isinstance(self._cluster, HostLinks) and self._cluster.proxied else None

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        control = self.disk_control(broker_id)
        if control is None:
            raise UsageError("power_loss needs reference brokers, whose storage accounts for what is synced")
        account = control.with_name(control.name + ".durable")
        return self._driver.drop_unsynced(broker_id, account, writeback_ms, torn_bytes)

    def link_names(self) -> Sequence[str]:
        return self._links.link_names() if self._cluster.proxied else ()

    def plain(self, link: str) -> tuple[LinkServer, str]:
        return self._links.link_proxies().plain(link)

    def access(self) -> Security | None:
        return next((address.security for address in self._cluster.broker_addresses().values()), None)

    def probe_access(self, link: str) -> ProbeAccess:
        return self._links.link_proxies().probe_access(link)

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        return self._links.link_proxies().kafka(link)

    def topics(self) -> TopicChanges:
        own = self._driver.own_topics
        assert own is not None, "a timeline runs in a cell that has made its topics"
        return TopicChanges(self._addresses, self._cluster.probe_of_leader, own)

    def log_directories(self) -> BrokerDirectories:
        return BrokerDirectories(lambda broker: self._addresses().get(broker), self.topics().require_own)

    def releases(self) -> ClusterReleases:
        return ClusterReleases(self._cluster, self._addresses)

    def _addresses(self) -> Mapping[int, Address]:
        """Of the brokers that can be asked now."""
        can_be_asked = set(self._cluster.direct_addresses())
        return {broker: found for broker, found in self._cluster.broker_addresses().items() if found in can_be_asked}

    def client_names(self) -> Sequence[str]:
        return () if self._driver.members is None else self._driver.members.names()

    def client_pids(self) -> Mapping[str, int]:
        return {} if self._driver.members is None else self._driver.members.pids()

    def committed_ahead(self, name: str) -> int | None:
        return self._members.committed_ahead(name)

    def kill_client(self, name: str) -> None:
        self._members.kill(name)

    def leave_client(self, name: str) -> None:
        self._members.leave(name)

    def pause_client(self, name: str) -> None:
        self._members.pause(name)

    def resume_client(self, name: str) -> None:
        self._members.resume(name)

    def start_client(self, name: str) -> None:
        self._members.start_again(name)

    def twin_client(self, name: str) -> int:
        return self._members.twin(name)

    def end_twins(self) -> None:
        self._members.end_twins()

    @property
    def _members(self) -> MemberProcesses:
        members = self._driver.members
        assert members is not None, "a target that is a client was resolved, so there are members"
        return members

    def security(self) -> SecurityChanges | None:
        return self._cluster.security_changes() if isinstance(self._cluster, Secured) else None

    def acked(self) -> int:
        return self._driver.acked

    def high_watermark_lag(self, topic: str, partition: int) -> int | None:
        """The leader's log end is read from its segment files, because no client request tells it."""
        leader = self._cluster.leader(topic, partition)
        directory = None if leader is None else self._cluster.partition_directory(leader, topic, partition)
        if leader is None or directory is None:
            return None
        try:
            high_watermark = TopicLogReader(topic, lambda _: self._cluster.probe(leader)).end_offset(partition)
        except TimeoutError:
            return None
        log_end_offset = 0
        for header in read_partition_headers(directory):
            log_end_offset = header.next_offset
        return max(0, log_end_offset - high_watermark)


def _cannot(cluster: Cluster, what: str) -> UsageError:
    return UsageError(f"nobody here can {what}: the harness did not start this cluster (--cluster {cluster.engine})")


def timeline_driver(planned: PlannedCell, cluster: Cluster, context: RunContext) -> TimelineDriver:
    if not isinstance(cluster, Links) or not cluster.proxied:
        raise UsageError(f"{planned.cell_id} needs a cluster with proxies of ours: {cluster.engine} has none")
    return TimelineDriver(planned, cluster, context)

"""A cluster of broker processes on this host, of either engine: start, ask, break, heal, stop.

Carries out a ClusterLayout. Implements cluster.Cluster, and of chaos/ports/brokers.py also BrokerProcesses, BrokerFiles
and Versions. Thread-safe: the chaos timeline, the Metadata prober and the orchestrator call it at once. Shown by
tests/harness/test_harness_robustness.py.
"""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from chaos.lease import Lease
from harness.clusters.base import UNKNOWN_STATE, Address, ClusterLayout, ClusterState, Engine, NodeLayout
from harness.clusters.broker_process import BrokerProcess, spawn
from harness.clusters.capabilities import ignore_process_event
from harness.clusters.node_files import rewrite_properties, run_preparations, write_node_files
from harness.clusters.proxies import LinkProxies
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.observer import Observer
from harness.clusters.requests.probe import BrokerProbe, first_answer, newest_controller
from harness.clusters.secured.access import AccessStep, MadeUpAccess
from harness.clusters.secured.security_changes import SecurityChanges
from harness.clusters.segment_files import read_partition_headers
from harness.errors import EnvironmentFault, ExitCode, Interrupted, UsageError, hints
from harness.kafka_releases import DEFAULT, Release, parse_release, version_words

TERMINATE_GRACE_S: Final = 10.0
STOP_GRACE_S: Final = 3.0
PROBE_TIMEOUT_S: Final = 1.0


def never_stop() -> bool:
    """Callers use it that start a cluster and cannot be interrupted."""
    return False


class ProcessCluster:
    def __init__(
        self,
        layout: ClusterLayout,
        *,
        proxies: LinkProxies | None = None,
        outlive_parent: bool = False,
        lease: Lease | None = None,
        should_stop: Callable[[], bool] = never_stop,
        access: MadeUpAccess | None = None,
        as_release: Callable[[NodeLayout, Release], NodeLayout] | None = None,
    ) -> None:
        """`as_release`: the node as another release of Apache Kafka runs it."""
        assert layout.proxied == (proxies is not None), "a proxied layout and its proxies come together"
        self.layout = layout
        self.proxies = proxies
        self.on_process_event: Callable[[str, int], None] = ignore_process_event
        self._outlive_parent = outlive_parent
        self._lease = lease
        self._should_stop = should_stop
        self._access = access
        self._changes = None if access is None else SecurityChanges(layout, access, proxies)
        self._lease_entries: dict[int, str] = {}
        self._as_release = as_release
        self.is_changed = False
        self._nodes: dict[int, NodeLayout] = {int(node.broker_id): node for node in layout.nodes}
        self._processes: dict[int, BrokerProcess] = {}
        self._paused: set[int] = set()
        self._lock = threading.RLock()
        self._stopped = False

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        return self.layout.engine

    @property
    def version(self) -> str:
        began = [node.release for node in self.layout.nodes if node.release is not None]
        now = [node.release for node in self._nodes.values() if node.release is not None]
        return version_words(began, now) if began else self.layout.version

    @property
    def proxied(self) -> bool:
        return self.layout.proxied

    @property
    def path_description(self) -> str:
        return "loopback" if self.proxies is None else self.proxies.description

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(self._nodes)

    @property
    def bootstrap_servers(self) -> str:
        return self.layout.bootstrap_servers

    @property
    def direct_bootstrap_servers(self) -> str:
        return self.layout.direct_bootstrap_servers

    @property
    def client_properties(self) -> Mapping[str, str]:
        return self.layout.client_properties

    def link_proxies(self) -> LinkProxies:
        assert self.proxies is not None, "an unproxied cluster has no links"
        return self.proxies

    def security_changes(self) -> SecurityChanges | None:
        """Changes of security. None for a cluster in plain text."""
        return self._changes

    def pids(self) -> Mapping[int, int]:
        with self._lock:
            return {broker: process.pid for broker, process in self._processes.items() if process.is_running()}

    def exits(self) -> Mapping[int, tuple[int, int]]:
        """(pid, exit code) of brokers whose last process has ended; a negative code is the signal."""
        with self._lock:
            ended = {broker: (process.pid, process.exit_code()) for broker, process in self._processes.items()}
        return {broker: (pid, code) for broker, (pid, code) in ended.items() if code is not None}

    def end_offset(self, topic: str, partition: int) -> tuple[int, int] | None:
        """(leader, end offset for consumers) by one question to the leader; None if it does not answer."""
        leader = self.leader(topic, partition)
        if leader is None or leader not in self._nodes:
            return None
        with self.probe(leader) as probe:
            offset = probe.end_offset(topic, partition)
        return None if offset is None else (leader, offset)

    def journal_paths(self) -> Mapping[int, Path]:
        return {broker: node.journal_path for broker, node in self._nodes.items() if node.journal_path is not None}

    def disk_control(self, broker_id: int) -> Path | None:
        """The control file of a reference broker's storage (broker/log/disk_faults.py)."""
        path = self._nodes[broker_id].properties.get("harness.disk.faults")
        return None if path is None else Path(path)

    def fault_page(self, broker_id: int) -> Path | None:
        """The file that controls the broker's clock and, with the interposer, its disk
        (chaos/interposer/fault_page.py)."""
        return self._nodes[broker_id].fault_page

    def partition_directory(self, broker_id: int, topic: str, partition: int) -> Path | None:
        return self._nodes[broker_id].storage.find_partition(topic, partition)

    def high_watermark_lag(self, topic: str, partition: int) -> int | None:
        """The leader's log end is read from its segment files, because no client request tells it."""
        leader = self.leader(topic, partition)
        directory = None if leader is None else self.partition_directory(leader, topic, partition)
        if leader is None or directory is None:
            return None
        try:
            high_watermark = TopicLogReader(topic, lambda _: self.probe(leader)).end_offset(partition)
        except TimeoutError:
            return None
        log_end_offset = 0
        for header in read_partition_headers(directory):
            log_end_offset = header.next_offset
        return max(0, log_end_offset - high_watermark)

    # --- as a whole -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Write the files, open the proxies, start all brokers and wait until each sees all others."""
        write_node_files(self.layout.nodes)
        run_preparations(self.layout.nodes)
        if self.proxies is not None:
            self.proxies.open(self.layout.links)
        for broker in self._nodes:
            self._launch(broker)
        if self._access is not None:
            self._carry_out(self._access.admit)
        if not self._wait_every_broker_sees_all(self.layout.start_timeout_s):
            if self._should_stop():
                self.stop()
                raise Interrupted(f"interrupted while the {self.engine} cluster started")
            problem = self.describe()
            is_misconfigured = any(process.exit_code() == ExitCode.USAGE for process in self._processes.values())
            self.stop()
            if is_misconfigured:
                raise UsageError(f"{self.engine} cluster refused its settings: {problem}")
            raise EnvironmentFault(
                f"{self.engine} cluster did not come up (limit {self.layout.start_timeout_s:.0f} s): {problem}"
            )
        if self._access is not None:
            self._carry_out(self._access.permit)

    def stop(self) -> None:
        """Stop every broker and close the proxies. Nothing of the cluster runs afterwards, and passwords and keys that
        were made up for it are gone. May be called twice."""
        with self._lock:
            self._stopped = True
            processes = list(self._processes.values())
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_GRACE_S
        for process in processes:
            if not process.wait(max(0.05, deadline - time.monotonic())):
                process.kill_and_wait()
        for broker in self._nodes:
            self._forget(broker)
        if self.proxies is not None:
            self.proxies.close()
        if self._access is not None:
            self._access.remove()

    def remove_data(self) -> None:
        """Delete the logs of a stopped cluster; properties, journals and stderr stay for the report."""
        for node in self._nodes.values():
            shutil.rmtree(node.storage.data, ignore_errors=True)

    def ensure_all_running(self) -> None:
        """Resume what is paused and start what is dead: a cell begins and ends with all brokers up."""
        for broker in self._nodes:
            if broker in self._paused:
                self.resume(broker)
            if not self.is_running(broker):
                self.restart(broker)

    # --- asking -----------------------------------------------------------------------------------------------------

    def state(self, topic: str | None) -> ClusterState | None:
        """The answer of the first broker that answers, preferably one with the newest leader epochs. None if nobody
        answered."""
        best: ClusterState | None = None
        for broker in self._askable():
            answer = self.state_seen_by(broker, topic)
            if answer is not None and (best is None or answer.newest_leader_epoch() > best.newest_leader_epoch()):
                best = answer
        return best

    def state_seen_by(self, broker_id: int, topic: str | None) -> ClusterState | None:
        with self.probe(broker_id) as probe:
            return probe.metadata(topic)

    def probe(self, broker_id: int) -> BrokerProbe:
        """A new connection to a broker. The caller closes it."""
        return BrokerProbe(self._nodes[broker_id].direct, timeout_s=PROBE_TIMEOUT_S)

    def wait_healthy(self, topic: str | None, *, timeout_s: float, replication_factor: int = 3) -> bool:
        """True when all running brokers agree: all brokers are there, and each partition has a leader and is fully in
        sync."""
        deadline = time.monotonic() + timeout_s
        while True:
            states = [self.state_seen_by(broker, topic) for broker in self._askable()]
            if len(states) == len(self._nodes) and all(
                state is not None and state.is_healthy(len(self._nodes), replication_factor) for state in states
            ):
                return True
            # Only ensure_all_running starts a broker again that has ended. Waiting would not bring it back.
            is_hopeless = not all(map(self.is_running, self._nodes))
            if is_hopeless or time.monotonic() >= deadline or self._stopped or self._should_stop():
                return False
            time.sleep(0.05)

    def observer(self, topic: str) -> Observer:
        return Observer(topic, self.broker_addresses(), self._askable)

    def broker_addresses(self) -> Mapping[int, Address]:
        return {broker: node.direct for broker, node in self._nodes.items()}

    def direct_addresses(self) -> list[Address]:
        """Addresses of the brokers that can be asked now."""
        return [self._nodes[broker].direct for broker in self._askable()]

    def wire_log_path(self) -> Path | None:
        return None if self.proxies is None else self.proxies.wire_log_path

    def wire_log_problem(self) -> str:
        return "" if self.proxies is None else self.proxies.wire_log_problem()

    def probe_of_leader(self, topic: str, partition: int) -> BrokerProbe | None:
        leader = self.leader(topic, partition)
        return None if leader is None or leader not in self._nodes else self.probe(leader)

    def leader(self, topic: str, partition: int) -> int | None:
        return (self.state(topic) or UNKNOWN_STATE).leader_of(partition)

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return (self.state(topic) or UNKNOWN_STATE).isr_of(partition)

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        return (self.state(topic) or UNKNOWN_STATE).replicas_of(partition)

    def controller(self) -> int | None:
        return newest_controller(self._askable(), self.probe)

    def group_coordinator(self, group: str) -> int | None:
        return self._first_answer(lambda probe: probe.group_coordinator(group))

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        return self._first_answer(lambda probe: probe.transaction_coordinator(transactional_id))

    def _first_answer(self, ask: Callable[[BrokerProbe], int | None]) -> int | None:
        return first_answer(self.direct_addresses(), ask, timeout_s=PROBE_TIMEOUT_S)

    # --- one broker -------------------------------------------------------------------------------------------------

    def is_running(self, broker_id: int) -> bool:
        with self._lock:
            process = self._processes.get(broker_id)
        return process is not None and process.is_running()

    def kill(self, broker_id: int) -> None:
        """SIGKILL; returns when the process is gone."""
        self._processes[broker_id].kill_and_wait()
        self._paused.discard(broker_id)
        self.on_process_event("killed", broker_id)

    def terminate(self, broker_id: int) -> None:
        """SIGTERM, a clean stop; SIGKILL after 10 s."""
        self._processes[broker_id].stop(TERMINATE_GRACE_S)
        self._paused.discard(broker_id)
        self.on_process_event("stopped", broker_id)

    def pause(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGSTOP)
        self._paused.add(broker_id)
        self.on_process_event("paused", broker_id)

    def resume(self, broker_id: int) -> None:
        self._processes[broker_id].send_signal(signal.SIGCONT)
        self._paused.discard(broker_id)
        self.on_process_event("resumed", broker_id)

    def restart(self, broker_id: int) -> None:
        """Start a broker that is not running, on its old data. Does not wait for it to answer."""
        if self.is_running(broker_id):
            self.terminate(broker_id)
        self._launch(broker_id)

    @property
    def default_release(self) -> str:
        return str(DEFAULT)

    def release_of(self, broker_id: int) -> str:
        """The release of Apache Kafka that the broker has, or gets when it starts again."""
        return str(self._nodes[broker_id].release or "")

    def change_release(self, broker_id: int, release: str) -> None:
        """A broker that does not run gets another release, for its next start on its old data. Fetches its jars."""
        assert not self.is_running(broker_id), "a process keeps the jars that it was started with"
        node = self._nodes[broker_id]
        if self._as_release is None or node.release is None:
            raise UsageError(f"broker {broker_id} is none of Apache Kafka ({self.engine}): it has no other release")
        changed = self._as_release(node, parse_release(release))
        self.is_changed = True
        rewrite_properties(changed)
        self._nodes[broker_id] = changed

    # --- inside -----------------------------------------------------------------------------------------------------

    def _askable(self) -> list[int]:
        return [broker for broker in self._nodes if broker not in self._paused and self.is_running(broker)]

    def _launch(self, broker_id: int) -> None:
        node = self._nodes[broker_id]
        with self._lock:
            if self._stopped:
                return
            name = f"{self.engine} broker {broker_id}"
            self._forget(broker_id)
            reservation = self._lease.reserve_process(name) if self._lease is not None else None
            process = self._start_process(node, reservation.environment if reservation is not None else None)
            self._processes[broker_id] = process
            if self._lease is not None and reservation is not None:
                self._lease.record_process(reservation.entry_id, process.pid)
                self._lease_entries[broker_id] = reservation.entry_id
        self.on_process_event("started", broker_id)

    def _start_process(self, node: NodeLayout, environment: Mapping[str, str] | None) -> BrokerProcess:
        return spawn(
            f"{self.engine} broker {node.broker_id}",
            node.command,
            stderr_path=node.stderr_path,
            outlive_parent=self._outlive_parent,
            environment={**node.environment, **(environment or {})},
        )

    def _forget(self, broker_id: int) -> None:
        """The broker's last process is gone: nothing to undo any more."""
        entry_id = self._lease_entries.pop(broker_id, None)
        if self._lease is not None and entry_id is not None:
            self._lease.remove(entry_id)

    def _carry_out(self, step: AccessStep) -> None:
        def should_stop() -> bool:
            return self._should_stop() or len(self._askable()) < len(self._nodes)

        try:
            step(self.layout, should_stop=should_stop)
        except EnvironmentFault:
            if not should_stop():  # otherwise the caller knows why
                self.stop()
                raise

    def _wait_every_broker_sees_all(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        waiting = set(self._nodes)
        while waiting and time.monotonic() < deadline and not self._should_stop():
            for broker in sorted(waiting):
                if not self.is_running(broker):
                    return False
                state = self.state_seen_by(broker, None)
                if state is not None and len(state.brokers) == len(self._nodes):
                    waiting.discard(broker)
            if waiting:
                time.sleep(0.05)
        return not waiting

    def broken_proxies(self) -> str:
        """Names our Toxiproxy server that has died, and the file to look at. Empty while all run."""
        return "" if self.proxies is None else self.proxies.problem()

    def describe(self) -> str:
        """The state of each broker, for a reader who must find out why the cluster is not healthy."""
        lines = [problem] if (problem := self.broken_proxies()) else []
        for broker, node in self._nodes.items():
            process = self._processes[broker]
            if process.is_running():
                state = self.state_seen_by(broker, None)
                seen = "does not answer Metadata" if state is None else f"sees brokers {list(state.brokers)}"
                lines.append(f"broker {broker} runs and {seen} ({node.stderr_path})")
            else:
                tail = process.stderr_tail()
                lines.append(f"broker {broker} ended with {process.exit_code()} ({node.stderr_path}):\n{tail}")
                lines += hints(tail)
        return "\n".join(lines)

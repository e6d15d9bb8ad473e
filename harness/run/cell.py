"""One cell from topic to outcome: load, faults, healing, final read, compaction. Leaves the cluster healthy for the
next.

Whatever goes wrong, faults are healed, the load process ends, the recorders stop, and cell.json says how far it came.
Shown by tests/harness/test_harness_wheel_install.py, which runs the demo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from harness.clusters.admin import Admin
from harness.clusters.base import Cluster
from harness.clusters.external import ExternalCluster
from harness.clusters.log_reader import SeveralTopics, TopicLogReader
from harness.clusters.process_cluster import ProcessCluster, ignore_process_event
from harness.errors import CellError, hints
from harness.plan import PlannedCell
from harness.run.context import RunContext
from harness.run.copies import read_copies
from harness.run.deposed import answers_of, deposed_events
from harness.run.document import cell_document
from harness.run.final_read import FinalRead, LogReader, read_log
from harness.run.load_plan import load_plan
from harness.run.members import MemberProcesses
from harness.run.read_bound import BoundedReader
from harness.run.recorders import (
    EXIT_INTERVAL_S,
    HIGH_WATERMARK_INTERVAL_S,
    JOURNAL_INTERVAL_S,
    PROBE_INTERVAL_S,
    STATS_INTERVAL_S,
    ExitWatch,
    HighWatermarkProbe,
    JournalTail,
    LeaderProbe,
    Periodic,
    StatsSampler,
)
from harness.run.replica_check import divergence_events
from harness.run.sends import nothing_came_of
from harness.run.settle import await_high_watermarks
from harness.run.timeline_driver import TimelineDriver
from harness.run.topics import delete_topics, own_topics
from harness.run.truncation import DeadLogs
from harness.run.wire_log import WireLogTail
from harness.run.workload_process import Event, WorkloadProcess
from runlog.compact import compact_cell
from runlog.events import JsonlWriter, cell_directory, events_path, read_jsonl, write_cell
from runlog.inventory import take_inventory
from runlog.redaction import hidden_settings
from workloads.model import copy_topic

HEALTH_TIMEOUT_S: Final = 45.0
TOPIC_TIMEOUT_S: Final = 20.0
# Beyond the planned duration and drain, the load process may take this long to connect and to write its figures.
LOAD_OVERTIME_S: Final = 45.0
STOP_GRACE_S: Final = 3.0
AFTER_TIMELINE_MS: Final = 1_500  # of load after the last step, to see that service is back
INTERRUPT_GRACE_S: Final = 2.0


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Grows while the cell runs; what cell.json gets as `outcome`."""

    status: str = "interrupted"
    reason: str = "the run ended in the middle of this cell"
    started_us: int = 0
    measure_start_us: int | None = None
    measure_end_us: int | None = None
    ended_us: int | None = None
    producers: list[dict[str, Any]] = field(default_factory=list)
    health: dict[str, Any] = field(default_factory=dict)
    effective: dict[str, Any] = field(default_factory=lambda: {"client": {}, "topic": {}, "broker": {}})
    final_read: dict[str, Any] = field(
        default_factory=lambda: {"complete": False, "reason": "not reached", "end_offsets": {}}
    )
    members: dict[str, Any] = field(default_factory=dict)  # of member processes: caught_up, missing, died, deliveries
    copies: dict[str, Any] = field(default_factory=dict)  # the read of the copiers' topic: complete, reason
    anomaly: str = ""  # no_recovery, hang: a failure of the cell that says something of cluster or client
    notes: list[str] = field(default_factory=list)

    @property
    def window_us(self) -> tuple[int, int] | None:
        if self.measure_start_us is None or self.measure_end_us is None:
            return None
        return self.measure_start_us, self.measure_end_us

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def _nothing() -> None:
    """Until somebody wants to hear of it."""


class CellRun:
    def __init__(
        self,
        context: RunContext,
        planned: PlannedCell,
        cluster: Cluster,
        load: WorkloadProcess,
        order: int,
        chaos: TimelineDriver | None,
    ) -> None:
        self._context, self._planned, self._cluster, self._load = context, planned, cluster, load
        self._order, self._chaos = order, chaos
        self._directory = cell_directory(context.run_dir, planned.cell_id)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._outcome = Outcome(started_us=context.clock.now_us())
        self._admin = Admin(cluster.direct_addresses, should_stop=context.stop.is_set)
        self._topics = own_topics(self._admin, cluster, context)
        self._cluster_events = JsonlWriter(events_path(context.run_dir, planned.cell_id, "cluster"))
        self._stats = JsonlWriter(events_path(context.run_dir, planned.cell_id, "stats"))
        self._dead_logs = DeadLogs(planned.topic_name, planned.partitions)
        # How to be let in goes to the load and the members alone, and into no file of the run: it holds passwords.
        self._access = dict(cluster.client_properties) if isinstance(cluster, ExternalCluster) else {}
        self._members = MemberProcesses(planned, context, cluster.bootstrap_servers, self._access)
        self._files: dict[str, Any] = {}
        self._timeline_ended_us: int | None = None
        self._is_load_asked_to_stop = False
        self._sends: Event = {}  # the load's last progress
        if chaos is not None:
            chaos.on_cluster_event = self._cluster_events.append
            chaos.members = self._members
            chaos.own_topics = self._topics
        # The orchestrator starts the next load process from here.
        self.on_load_finished: Callable[[], object] = _nothing

    def add_notes(self, notes: Iterable[str]) -> None:
        """What was known of the cell before it began; part of its outcome."""
        self._outcome.notes += notes

    def carry_out(self) -> Outcome:
        """Never raises for what cluster or load do: the outcome says it."""
        outcome = self._outcome
        self._write()
        try:
            with self._recording():
                self._prepare_topic()
                self._start_members()
                self._run_load()
                self._heal_and_wait()
                self._await_members()
                self._read_back()
            outcome.status, outcome.reason = self._verdict_of_run()
        except CellError as error:
            outcome.status, outcome.reason, outcome.anomaly = "failed", str(error), error.anomaly
            if self._context.stop.is_set():
                outcome.status, outcome.reason = self._verdict_of_run()
        finally:
            self._finish()
        return outcome

    # --- phases -----------------------------------------------------------------------------------------------------

    def _prepare_topic(self) -> None:
        planned = self._planned
        self._context.progress.phase("topic")
        for topic in planned.all_topics:
            self._topics.create(
                topic,
                partitions=planned.partitions,
                replication_factor=planned.replication_factor,
                config=planned.topic_config,
            )
        for topic in planned.all_topics:
            if not self._cluster.wait_healthy(
                topic, timeout_s=TOPIC_TIMEOUT_S, replication_factor=planned.replication_factor
            ):
                raise CellError(f"topic {topic} had no full ISR after {TOPIC_TIMEOUT_S:.0f} s")
        self._outcome.effective["topic"] = self._admin.topic_config(planned.topic_name)
        self._outcome.effective["broker"] = self._broker_settings()

    def _run_load(self) -> None:
        planned, context = self._planned, self._context
        context.progress.phase("connect")
        self._load.wait_ready(should_stop=context.stop.is_set)
        self._load.begin(
            load_plan(
                planned,
                run_dir=context.run_dir,
                cell_id=planned.cell_id,
                t0_monotonic_ns=context.clock.t0_monotonic_ns,
                bootstrap_servers=self._cluster.bootstrap_servers,
                topic=planned.topic_name,
                workload=planned.workload,
                properties={**self._access, **planned.properties},
                consumer_properties=self._access,
                web_port=context.web_port,
                log_append_time=self._outcome.effective["topic"].get("message.timestamp.type") == "LogAppendTime",
            )
        )
        workload = planned.workload
        limit_us = (workload.warmup_ms + workload.measure_ms + workload.drain_ms) * 1000 + int(LOAD_OVERTIME_S * 1e6)
        deadline_us = context.clock.now_us() + limit_us
        while True:
            if context.stop.is_set():
                return
            self._end_load_with_timeline()
            if context.clock.now_us() > deadline_us:
                raise CellError(f"the load process did not finish within {limit_us / 1e6:.0f} s", anomaly="hang")
            if problem := self._cluster.broken_proxies():
                raise CellError(problem)
            event = self._load.next_event(0.2)
            if event is not None and self._take(event):
                return

    def _end_load_with_timeline(self) -> None:
        """Where the scenario asks for it the load ends a moment after the timeline, however long that took."""
        if not self._planned.until_done or self._chaos is None or not self._chaos.has_ended:
            return
        now_us = self._context.clock.now_us()
        if self._timeline_ended_us is None:
            self._timeline_ended_us = now_us
        elif now_us - self._timeline_ended_us >= AFTER_TIMELINE_MS * 1000 and not self._is_load_asked_to_stop:
            self._is_load_asked_to_stop = True
            self._load.ask_to_stop()

    def _take(self, event: Event) -> bool:
        """React to one event of the load process. True after its last one."""
        kind = event.get("event")
        if kind == "phase":
            self._on_phase(str(event.get("phase")), int(event.get("t_us", self._context.clock.now_us())))
        elif kind == "progress":
            self._context.progress.figures(event)
            self._sends = event
            if self._chaos is not None:
                self._chaos.acked = int(event.get("acked", 0))
            self._stats.append(
                {"t_us": self._context.clock.now_us(), "source": "load", "name": "progress", "values": event}
            )
        elif kind == "done":
            self._outcome.producers = list(event.get("producers", []))
            self._outcome.health = dict(event.get("health", {}))
            effective = {side: hidden_settings(values) for side, values in event.get("effective", {}).items()}
            self._outcome.effective["client"] = effective.pop("client", effective)
            self._outcome.effective["consumer"] = effective.pop("consumer", {})
            return True
        elif kind == "error":
            message = str(event.get("message"))
            raise CellError(" ".join([f"load process: {message}", *hints(message)]))
        elif kind == "end":
            raise CellError(f"the load process ended before it was done: {self._load.describe_end()}")
        return False

    def _on_phase(self, phase: str, t_us: int) -> None:
        self._context.progress.phase(phase)
        # On disk at once: recover.py finds the measured window there when this process is killed.
        self._stats.append({"t_us": t_us, "source": "load", "name": "phase", "value": phase})
        if phase == "measure":
            self._outcome.measure_start_us = t_us
            if self._chaos is not None:
                self._chaos.begin(t_us)
        elif phase == "drain":
            self._outcome.measure_end_us = t_us

    def _heal_and_wait(self) -> None:
        """Also when interrupted: nothing that this cell broke may stay broken."""
        self._context.progress.phase("heal")
        if self._chaos is not None:
            self._chaos.finish(interrupted=self._context.stop.is_set())
        if self._context.stop.is_set():
            return
        self.on_load_finished()
        self._cluster.ensure_all_running()
        planned = self._planned
        if not all(
            self._cluster.wait_healthy(topic, timeout_s=HEALTH_TIMEOUT_S, replication_factor=planned.replication_factor)
            for topic in planned.all_topics
        ):
            state = f":\n{self._cluster.describe()}" if isinstance(self._cluster, ProcessCluster) else ""
            raise CellError(
                f"the cluster did not get healthy again after the last fault was healed "
                f"(limit {HEALTH_TIMEOUT_S:.0f} s){state}",
                anomaly="no_recovery",
            )
        for event in self._dead_logs.truncated_events(self._cluster, self._context.clock.now_us()):
            self._cluster_events.append(event)
        self._outcome.notes += self._dead_logs.problems
        if self._chaos is not None and self._cluster.wire_log_path() and not self._cluster.journal_paths():
            self._tell_deposed()

    def _tell_deposed(self) -> None:
        """What leaders answered for that did not know yet that they were none."""
        cluster, clock, topic = self._cluster, self._context.clock, self._planned.topic_name
        wire_log = cluster.wire_log_path()

        def epoch_end_offset(partition: int, epoch: int) -> tuple[int, int] | None:
            probe = cluster.probe_of_leader(topic, partition)
            if probe is None:
                return None
            try:
                return probe.epoch_end_offset(topic, partition, epoch)
            finally:
                probe.close()

        events, problems = deposed_events(
            topic=topic,
            events=read_jsonl(events_path(self._context.run_dir, self._planned.cell_id, "cluster")),
            answers=answers_of(read_jsonl(wire_log, containing=topic) if wire_log else (), topic),
            epoch_end_offset=epoch_end_offset,
            to_ns=clock.to_mono_ns,
            to_us=clock.to_us,
            t_us=clock.now_us(),
        )
        for event in events:
            self._cluster_events.append(event)
        self._outcome.notes += problems

    def _start_members(self) -> None:
        self._members.start()

    def _await_members(self) -> None:
        """Members read on until they have all; one that does not get there, or ended unasked, is told of."""
        if not self._members.are_there or self._context.stop.is_set():
            return
        self._context.progress.phase("members")
        missing = self._members.await_caught_up(self._end_offset, self._planned.workload.drain_ms / 1000)
        self._outcome.members = {
            "caught_up": not missing,
            "missing": missing,
            "died": self._members.unasked_ends(),
            "deliveries": self._members.finish(),
        }

    def _end_offset(self, topic: str, partition: int) -> int | None:
        probe = self._cluster.probe_of_leader(topic, partition)
        if probe is None:
            return None
        try:
            return probe.end_offset(topic, partition)
        finally:
            probe.close()

    def _read_back(self) -> None:
        """The ground truth. An interrupted run skips it: the log would be read while it is taken down."""
        if self._context.stop.is_set():
            return
        self._context.progress.phase("final read")
        hidden = await_high_watermarks(
            self._cluster, self._planned.all_topics, timeout_s=HEALTH_TIMEOUT_S, should_stop=self._context.stop.is_set
        )
        if hidden and not self._context.stop.is_set():
            raise CellError(
                "the high watermark did not reach the end of the leader's log after the last fault was healed "
                f"(limit {HEALTH_TIMEOUT_S:.0f} s): {'; '.join(hidden)}",
                anomaly="no_recovery",
            )
        topics = [self._topic_reader(topic) for topic in self._planned.topic_names]
        count = self._partition_count()
        result: FinalRead = read_log(
            self._context.run_dir,
            self._planned.cell_id,
            reader=self._bounded(SeveralTopics(topics, partitions=count)),
            partitions=range(count * len(topics)),
            clock=self._context.clock,
            should_stop=self._context.stop.is_set,
        )
        self._outcome.final_read = result.as_json()
        if self._planned.workload.has_copiers:
            self._outcome.copies = read_copies(
                self._context.run_dir,
                self._planned.cell_id,
                reader=self._bounded(self._topic_reader(copy_topic(self._planned.topic_name))),
                partitions=range(self._planned.partitions),
            ).as_json()
        self._compare_replicas()

    def _partition_count(self) -> int:
        """As planned, or more where a fault has added some to the one topic of its cell."""
        state = self._cluster.state(self._planned.topic_name) if self._chaos is not None else None
        return max(self._planned.partitions, len(state.partitions) if state is not None else 0)

    def _bounded(self, reader: LogReader) -> BoundedReader:
        return BoundedReader(reader, sent=int(self._sends.get("sent", 0)))

    def _topic_reader(self, topic: str) -> TopicLogReader:
        cluster = self._cluster
        return TopicLogReader(topic, lambda partition: cluster.probe_of_leader(topic, partition))

    def _compare_replicas(self) -> None:
        """Only where something was broken: nothing else makes replicas part."""
        if self._chaos is None or not isinstance(self._cluster, ProcessCluster):
            return
        partitions = range(self._planned.partitions)
        try:
            found = divergence_events(self._cluster, self._planned.topic_name, partitions, self._context.clock.now_us())
        except OSError as error:
            self._outcome.notes.append(f"the replicas could not be compared: {error}")
            return
        for event in found:
            self._cluster_events.append(event)

    def _verdict_of_run(self) -> tuple[str, str]:
        if self._context.stop.is_set():
            return "interrupted", "stopped by a signal"
        if self._chaos is not None and self._chaos.problem:
            return "failed", f"the fault timeline failed: {self._chaos.problem}"
        if self._planned.kind != "search" and (
            problem := nothing_came_of(self._sends, acks=str(self._planned.properties.get("acks", "all")))
        ):
            return "failed", problem
        return "done", ""

    # --- around -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _recording(self) -> Iterator[None]:
        cluster, clock, topic = self._cluster, self._context.clock, self._planned.topic_name
        journal = JournalTail(cluster.journal_paths(), clock, self._cluster_events)
        observer = cluster.observer(topic)
        leaders = LeaderProbe(topic, observer.state, clock, self._cluster_events)
        stats = StatsSampler(cluster, lambda: self._load.pid if self._load.is_running() else None, clock, self._stats)
        wire = WireLogTail(
            cluster.wire_log_path(), events_path(self._context.run_dir, self._planned.cell_id, "wire"), clock
        )
        recorders = [
            Periodic("journals", JOURNAL_INTERVAL_S, journal.step),
            Periodic("leader-probe", PROBE_INTERVAL_S, leaders.step),
            Periodic("stats", STATS_INTERVAL_S, stats.step),
            Periodic("wire-log", JOURNAL_INTERVAL_S, wire.step),
        ]
        if isinstance(cluster, ProcessCluster) and self._chaos is not None:
            ends = HighWatermarkProbe(
                topic,
                self._planned.partitions,
                lambda partition: cluster.end_offset(topic, partition),
                clock,
                self._cluster_events,
            )
            exits = ExitWatch(cluster, clock, self._cluster_events)
            recorders += [
                Periodic("high-watermarks", HIGH_WATERMARK_INTERVAL_S, ends.step),
                Periodic("exits", EXIT_INTERVAL_S, exits.step),
            ]
        if isinstance(cluster, ProcessCluster):
            cluster.on_process_event = self._on_process_event
        for recorder in recorders:
            recorder.start()
        try:
            yield
        finally:
            for recorder in recorders:
                recorder.stop()
                if recorder.problem is not None:
                    self._outcome.notes.append(
                        f"recorder stopped: {type(recorder.problem).__name__}: {recorder.problem}"
                    )
            observer.close()
            wire.close()
            if isinstance(cluster, ProcessCluster):
                cluster.on_process_event = ignore_process_event

    def _on_process_event(self, kind: str, broker: int) -> None:
        self._cluster_events.append(
            {"t_us": self._context.clock.now_us(), "broker": broker, "kind": kind, "source": "process"}
        )
        if kind == "killed" and not self._cluster.journal_paths():
            self._dead_logs.dump(self._cluster, broker)

    def _broker_settings(self) -> dict[str, str]:
        for broker_id, address in self._cluster.broker_addresses().items():
            settings = self._admin.broker_config(broker_id, address)
            if settings:
                return settings
        return {}

    def _finish(self) -> None:
        """Runs on every way out: end the load, heal, compact, write the outcome, drop the topic."""
        outcome, context = self._outcome, self._context
        if self._chaos is not None:
            self._chaos.finish(interrupted=True)  # does nothing when it has finished already
        if context.stop.is_set():
            self._load.stop(INTERRUPT_GRACE_S)
        else:
            self._load.stop(STOP_GRACE_S)
        self._members.finish()
        result = compact_cell(context.run_dir, self._planned.cell_id)
        if result.producers:
            outcome.producers = [
                {"producer": item.producer, "incarnation": item.incarnation, "high_seq": item.high_seq}
                for item in result.producers
            ]
        outcome.ended_us = context.clock.now_us()
        if outcome.measure_start_us is not None and outcome.measure_end_us is None:
            outcome.measure_end_us = outcome.ended_us  # cut short: what there is was measured until now
        self._cluster_events.close()
        self._stats.close()
        self._list_files()
        self._write()
        problems = delete_topics(self._topics, self._cluster, context)
        if problems:
            outcome.notes += problems
            self._write()

    def _list_files(self) -> None:
        """Nobody writes any more: from now on a file that is lost or changed can be told. Without the list the analysis
        calls the cell inconclusive."""
        try:
            self._files = {"files": take_inventory(self._context.run_dir, self._planned.cell_id)}
        except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors
            self._outcome.notes.append(f"the cell's files could not be listed: {error}")

    def _write(self) -> None:
        document = cell_document(self._planned, self._cluster, self._order, self._context)
        whole = self._context.redactor.document({**document, "outcome": self._outcome.as_json()})
        write_cell(self._context.run_dir, {**whole, **self._files})

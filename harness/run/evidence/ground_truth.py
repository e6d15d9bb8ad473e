"""The facts after the load of a cell: what dead and replaced leaders lost, the log from its start to its end, and
whether the replicas agree.

Shown by tests/harness/test_harness_wheel_install.py, which runs the demo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from harness.clusters.capabilities import LogFiles
from harness.clusters.cluster import Cluster
from harness.clusters.requests.log_reader import SeveralTopics, TopicLogReader
from harness.errors import CellError
from harness.planned_cell import PlannedCell
from harness.run.context import RunContext
from harness.run.directory.outcome import Outcome
from harness.run.evidence.copied_records import read_copies
from harness.run.evidence.deposed_leader import answers_of, deposed_events, ended_leaderships
from harness.run.evidence.final_read import read_log
from harness.run.evidence.log_visibility import await_high_watermarks, await_markers
from harness.run.evidence.read_limits import BoundedReader
from harness.run.evidence.replica_check import divergence_events
from harness.run.recording.recorders import ClusterWriter
from harness.run.recording.truncation import DeadLogs
from runlog.files.paths import events_path
from runlog.records.cell import CellAnomaly
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, WIRE, own_lines, read_lines
from runlog.records.wire import WireExchange
from workloads.keys import numbers_of
from workloads.model import copy_topic

HEALTH_TIMEOUT_S: Final = 45.0
# Coordinators abort what a killed load process left open: after transaction.timeout.ms, which is a minute if nothing
# else is said, and they look every ten seconds.
MARKERS_TIMEOUT_S: Final = 75.0


def _nothing() -> None:
    """No fault host records requests."""


class GroundTruth:
    """Fills the outcome's final_read, copies and holes; events go to `cluster_events`."""

    def __init__(
        self,
        context: RunContext,
        planned: PlannedCell,
        cluster: Cluster,
        *,
        dead_logs: DeadLogs,
        outcome: Outcome,
        cluster_events: ClusterWriter,
        exchanges: Callable[[], list[WireExchange] | None] = _nothing,
    ) -> None:
        """`exchanges`: what fault hosts have recorded. None: they record nothing."""
        self._exchanges = exchanges
        self._context, self._planned, self._cluster = context, planned, cluster
        self._dead_logs, self._outcome, self._cluster_events = dead_logs, outcome, cluster_events
        self._is_chaos = planned.kind == "chaos"
        self.problem = ""  # what a verdict would rest on, and nobody has seen

    def tell_of_lost_leaders(self) -> None:
        """Called when the cluster is healthy again."""
        for event in self._dead_logs.truncated_events(self._cluster, self._context.clock.now_us()):
            self._cluster_events.append(event)
        self._outcome.miss(HoleKind.DEAD_LOGS, *self._dead_logs.problems)
        if not self._is_chaos or self._cluster.journal_paths():
            return
        wire_log, topic = self._cluster.wire_log_path(), self._planned.topic_name
        if wire_log is not None:
            self._cluster.wire_log_problem()  # waits for the last lines; what is missing is told at the end of the cell
            self._tell_deposed(own_lines(wire_log, WIRE, containing=topic.encode()))
        elif (recorded := self._exchanges()) is not None:
            self._tell_deposed(recorded)
        else:
            self._require_no_deposed()

    def _tell_deposed(self, exchanges: Iterable[WireExchange]) -> None:
        """What leaders answered for after they had been replaced without knowing it."""
        cluster, clock, topic = self._cluster, self._context.clock, self._planned.topic_name

        def epoch_end_offset(partition: int, epoch: int) -> tuple[int, int] | None:
            probe = cluster.probe_of_leader(topic, partition)
            if probe is None:
                return None
            with probe:
                return probe.epoch_end_offset(topic, partition, epoch)

        events, problems = deposed_events(
            topic=topic,
            events=read_lines(events_path(self._context.run_dir, self._planned.cell_id, "cluster"), CLUSTER).records,
            answers=answers_of(exchanges, topic),
            epoch_end_offset=epoch_end_offset,
            to_ns=clock.to_mono_ns,
            to_us=clock.to_us,
            t_us=clock.now_us(),
        )
        for event in events:
            self._cluster_events.append(event)
        self._outcome.miss(HoleKind.DEPOSED_LEADERS, *problems)

    def _require_no_deposed(self) -> None:
        """Clients whose proxies record no requests leave no trace of what a deposed leader answered. Where all replicas
        acknowledge, it can have answered for nothing."""
        events = read_lines(events_path(self._context.run_dir, self._planned.cell_id, "cluster"), CLUSTER).records
        ended = [each for each in ended_leaderships(events) if not each.was_killed]
        if ended and str(self._planned.properties.get("acks", "all")) not in ("all", "-1"):
            brokers = ", ".join(str(broker) for broker in sorted({each.broker for each in ended}))
            self.problem = (
                f"what broker {brokers} acknowledged after another leader was elected is not known: clients did not go "
                "through proxies that record requests"
            )
            self._outcome.miss(HoleKind.DEPOSED_LEADERS, self.problem)

    def end_offset(self, topic: str, partition: int) -> int | None:
        """The end offset that the leader tells consumers."""
        probe = self._cluster.probe_of_leader(topic, partition)
        if probe is None:
            return None
        with probe:
            return probe.end_offset(topic, partition)

    def read(self, *, sent: int) -> None:
        """The final read and the comparisons with it. `sent` limits how many records the load can have left."""
        self._context.progress.phase("final read")
        hidden = await_high_watermarks(
            self._cluster, self._planned.all_topics, timeout_s=HEALTH_TIMEOUT_S, should_stop=self._context.stop.is_set
        )
        if hidden and not self._context.stop.is_set():
            raise CellError(
                "the high watermark did not reach the end of the leader's log after the last fault was healed "
                f"(limit {HEALTH_TIMEOUT_S:.0f} s): {'; '.join(hidden)}",
                anomaly=CellAnomaly.NO_RECOVERY,
            )
        if self._planned.workload.is_transactional:
            self._await_markers()
        self._read_topics(sent)
        self._compare_replicas()

    def _await_markers(self) -> None:
        still_open = await_markers(
            self._cluster,
            self._planned.topic_names,
            timeout_s=MARKERS_TIMEOUT_S,
            should_stop=self._context.stop.is_set,
        )
        if still_open and not self._context.stop.is_set():
            # A record of them may be committed all the same, so none is called lost.
            where, limit = "; ".join(still_open), f"{MARKERS_TIMEOUT_S:.0f} s"
            why = f"transactions have no marker after {limit}, and the log does not say how they ended: {where}"
            self._outcome.miss(HoleKind.FINAL_READ, why)

    def _read_topics(self, sent: int) -> None:
        topics = [self._topic_reader(topic) for topic in self._planned.topic_names]
        count = self._partition_count()
        is_compacted = self._is_compacted()
        result = read_log(
            self._context.run_dir,
            self._planned.cell_id,
            reader=BoundedReader(SeveralTopics(topics, partitions=count), sent=sent),
            partitions=range(count * len(topics)),
            clock=self._context.clock,
            is_compacted=is_compacted,
            keys=numbers_of(self._planned.workload, self._planned.draw_seed) if is_compacted else None,
            should_stop=self._context.stop.is_set,
        )
        self._outcome.record = replace(self._outcome.record, final_read=result)
        if self._planned.workload.has_copiers:
            copies = read_copies(
                self._context.run_dir,
                self._planned.cell_id,
                reader=BoundedReader(self._topic_reader(copy_topic(self._planned.topic_name)), sent=sent),
                partitions=range(self._planned.partitions),
                is_compacted=is_compacted,
            )
            self._outcome.record = replace(self._outcome.record, copies=copies)

    def _is_compacted(self) -> bool:
        return "compact" in self._outcome.record.effective.topic.get("cleanup.policy", "")

    def _may_delete(self) -> bool:
        return "delete" in self._outcome.record.effective.topic.get("cleanup.policy", "delete")

    def _is_shortened(self) -> bool:
        """Whether records were removed from the log's start, or may be while its replicas are compared."""
        settings = self._outcome.record.effective.topic
        kept_bytes, kept_ms = (int(settings.get(name, -1)) for name in ("retention.bytes", "retention.ms"))
        is_reached = kept_bytes >= 0 or 0 <= kept_ms < self._context.clock.now_us() // 1000
        starts = self._outcome.record.final_read.start_offsets or {}
        return any(starts.values()) or (self._may_delete() and is_reached)

    def _partition_count(self) -> int:
        """The planned number, or more if a fault has added partitions to the only topic of its cell."""
        state = self._cluster.state(self._planned.topic_name) if self._is_chaos else None
        return max(self._planned.partitions, len(state.partitions) if state is not None else 0)

    def _topic_reader(self, topic: str) -> TopicLogReader:
        cluster = self._cluster
        return TopicLogReader(
            topic,
            lambda partition: cluster.probe_of_leader(topic, partition),
            should_stop=self._context.stop.is_set,
        )

    def _compare_replicas(self) -> None:
        """Compares the replicas, only if the cell had faults. Without a fault replicas do not differ."""
        if not self._is_chaos or not isinstance(self._cluster, LogFiles):
            return
        if self._is_compacted() and self._may_delete():
            why = "each replica of a topic that is compacted and shortened removes records by itself"
            self._outcome.miss(HoleKind.REPLICAS, f"the replicas were not compared: {why}")
            return
        partitions = range(self._planned.partitions)
        try:
            found = divergence_events(
                self._cluster,
                self._planned.topic_name,
                partitions,
                self._context.clock.now_us(),
                is_compacted=self._is_compacted(),
                is_shortened=self._is_shortened(),
            )
        except OSError as error:
            self._outcome.miss(HoleKind.REPLICAS, f"the replicas could not be compared: {error}")
            return
        for event in found:
            self._cluster_events.append(event)

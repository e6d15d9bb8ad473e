"""Records while a cell runs: journals, leaders, CPU and memory, the wire log, and on our own clusters the
high watermarks and the ends of processes.

Shown by tests/harness/test_harness_wheel_install.py, which runs the demo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from harness.clusters.base import ClusterState
from harness.clusters.capabilities import Processes, RecordsRequests, ignore_process_event
from harness.clusters.cluster import Cluster
from harness.clusters.hosts.host_requests import RequestGathering
from harness.errors import CellError, HarnessError
from harness.planned_cell import PlannedCell
from harness.run.directory.outcome import Outcome
from harness.run.recording.host_stalls import INTERVAL_S as STALL_INTERVAL_S
from harness.run.recording.host_stalls import StallWatch
from harness.run.recording.recorders import (
    EXIT_INTERVAL_S,
    HIGH_WATERMARK_INTERVAL_S,
    JOURNAL_INTERVAL_S,
    PROBE_INTERVAL_S,
    STATS_INTERVAL_S,
    ClusterWriter,
    ExitWatch,
    HighWatermarkProbe,
    JournalTail,
    LeaderProbe,
    Periodic,
    StatsSampler,
)
from harness.run.recording.truncation import DeadLogs
from harness.run.recording.wire_log_tail import WireLogTail
from runlog.files.clock import RunClock
from runlog.records.cluster_kinds import Source
from runlog.records.holes import HoleKind
from runlog.records.lines import CLUSTER, RecordWriter
from runlog.records.stats import StatsSample
from runlog.records.wire import WireExchange

REQUESTS_INTERVAL_S: Final = 5.0


class CellRecording:
    """`cluster_events` and `stats` are the cell's files; the caller opens and closes them."""

    def __init__(
        self,
        planned: PlannedCell,
        cluster: Cluster,
        clock: RunClock,
        *,
        cluster_events: ClusterWriter,
        stats: RecordWriter[StatsSample],
        wire_path: Path,
        load_pid: Callable[[], int | None],
        dead_logs: DeadLogs,
    ) -> None:
        self._planned, self._cluster, self._clock = planned, cluster, clock
        self._cluster_events, self._stats, self._wire_path = cluster_events, stats, wire_path
        self._load_pid, self._dead_logs = load_pid, dead_logs
        self._requests: RequestGathering | None = None
        self.problem = ""  # what is not recorded although a verdict may rest on it

    def begin_requests(self) -> None:
        """Let fault hosts record what their proxies see from now on, if they can. The topics must be there. Raises
        CellError."""
        if self._planned.kind != "chaos" or not isinstance(self._cluster, RecordsRequests):
            return
        gathering = self._cluster.request_gathering(self._clock)
        if gathering is None:
            return
        try:
            gathering.begin(self._planned.all_topics)
        except HarnessError as error:
            raise CellError(f"requests are not recorded: {error}") from error
        self._requests = gathering

    def exchanges(self) -> list[WireExchange] | None:
        """What fault hosts have recorded so far. None: they record nothing. Raises CellError."""
        if self._requests is None:
            return None
        try:
            return self._requests.exchanges()
        except HarnessError as error:
            raise CellError(f"the record of requests is not complete: {error}") from error

    def _fetch_requests(self) -> None:
        """While the cell runs. What does not come now comes at the end, or is missed there."""
        if self._requests is not None:
            with suppress(HarnessError):
                self._requests.fetch()

    def _finish_requests(self, outcome: Outcome) -> None:
        if self._requests is not None:
            problems, notes = self._requests.finish(self._wire_path)
            self.problem = "; ".join(problems)
            outcome.miss(HoleKind.REQUESTS, *problems)
            outcome.note(*notes)

    @contextmanager
    def running(self, outcome: Outcome) -> Iterator[None]:
        """A recorder that stopped leaves a hole in the evidence of the cell."""
        observer = self._cluster.observer(self._planned.topic_name)
        wire = WireLogTail(self._cluster.wire_log_path(), self._wire_path, self._clock)
        recorders = [*self._of_any_cluster(observer.state, wire), *self._of_our_processes()]
        if isinstance(self._cluster, Processes):
            self._cluster.on_process_event = self._on_process_event
        for recorder in recorders:
            recorder.start()
        try:
            yield
        finally:
            self._ask_wire_log(outcome)
            for recorder in recorders:
                recorder.stop()
                if recorder.problem:
                    outcome.miss(recorder.hole, f"the recorder of {recorder.problem}")
                if recorder.error is not None:
                    outcome.fail_to_write(recorder.error)
            observer.close()
            wire.close()
            self._finish_requests(outcome)
            if isinstance(self._cluster, Processes):
                self._cluster.on_process_event = ignore_process_event

    def _ask_wire_log(self, outcome: Outcome) -> None:
        """Before the last look at the wire log: the proxies write down what they still hold."""
        if self._planned.kind == "chaos" and (problem := self._cluster.wire_log_problem()):
            outcome.miss(HoleKind.REQUESTS, f"the proxies stopped writing down requests: {problem}")

    def _of_any_cluster(self, state: Callable[[], ClusterState | None], wire: WireLogTail) -> list[Periodic]:
        cluster, clock = self._cluster, self._clock
        journal = JournalTail(cluster.journal_paths(), clock, self._cluster_events)
        leaders = LeaderProbe(self._planned.topic_name, state, clock, self._cluster_events)
        stats = StatsSampler(cluster, self._load_pid, clock, self._stats)
        stalls = StallWatch(clock, self._stats)
        return [
            Periodic("journals", JOURNAL_INTERVAL_S, journal.step, hole=HoleKind.JOURNALS),
            Periodic("leaders", PROBE_INTERVAL_S, leaders.step, hole=HoleKind.LEADERS),
            Periodic("CPU and memory", STATS_INTERVAL_S, stats.step, hole=HoleKind.SAMPLES),
            Periodic("stalls of the host", STALL_INTERVAL_S, stalls.look, hole=HoleKind.SAMPLES),
            Periodic("the wire log", JOURNAL_INTERVAL_S, wire.step, hole=HoleKind.REQUESTS),
            Periodic("requests", REQUESTS_INTERVAL_S, self._fetch_requests, hole=HoleKind.REQUESTS),
        ]

    def _of_our_processes(self) -> list[Periodic]:
        """Watches of our own processes, only if the cell has faults. Without a fault no process ends and no watermark
        lags."""
        cluster, topic = self._cluster, self._planned.topic_name
        if not isinstance(cluster, Processes) or self._planned.kind != "chaos":
            return []
        ends = HighWatermarkProbe(
            topic,
            self._planned.partitions,
            lambda partition: cluster.end_offset(topic, partition),
            self._clock,
            self._cluster_events,
        )
        exits = ExitWatch(cluster, self._clock, self._cluster_events)
        return [
            Periodic("high watermarks", HIGH_WATERMARK_INTERVAL_S, ends.step, hole=HoleKind.HIGH_WATERMARKS),
            Periodic("ends of processes", EXIT_INTERVAL_S, exits.step, hole=HoleKind.PROCESS_ENDS),
        ]

    def _on_process_event(self, kind: str, broker: int) -> None:
        line = {"t_us": self._clock.now_us(), "broker": broker, "kind": kind, "source": Source.PROCESS.value}
        self._cluster_events.append(CLUSTER.record(line))
        if kind == "killed" and not self._cluster.journal_paths():
            self._dead_logs.dump(self._cluster, broker)

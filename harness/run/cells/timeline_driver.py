"""Runs chaos' timeline of one cell in a thread of its own, and gives it the ports of the cluster.

The timeline begins with the measured window. `finish` waits for its end, or ends it early, and returns when all faults
are healed. Shown by tests/harness/test_harness_kafka.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from chaos import timeline
from harness.clusters.cluster import Cluster
from harness.clusters.cluster_port import cluster_port
from harness.clusters.requests.own_topics import OwnTopics
from harness.errors import UsageError
from harness.planned_cell import PlannedCell
from harness.run.cells.members import MemberProcesses, transactional_id
from harness.run.cells.power_loss import lose_power
from harness.run.context import RunContext
from harness.scenarios import load_scenario
from runlog.files.paths import events_path
from runlog.records.cluster import ClusterEvent
from runlog.records.fault import FaultLine
from runlog.records.lines import FAULTS, RecordWriter

FINISH_TIMEOUT_S: Final = 120.0
HEAL_TIMEOUT_S: Final = 20.0


def _forget(event: ClusterEvent) -> None:
    """Ignores events until a cell sets its own listener."""


class TimelineDriver:
    """The timeline of one cell. It implements chaos.ports.cluster.Load: the code that listens to the load process keeps
    `acked` up to date."""

    def __init__(self, planned: PlannedCell, cluster: Cluster, context: RunContext) -> None:
        self._planned, self._context = planned, context
        self._scenario = load_scenario(planned.scenario_reference)
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_finished = False
        self.acked: int = 0
        self.members: MemberProcesses | None = None
        self.own_topics: OwnTopics | None = None  # what the cell has made
        self.problem = ""
        self.disk_error: OSError | None = None  # why a lease or a line about a fault could not be written here
        self.unhealed = ""  # It names heals that failed. What is broken after that is not the cluster's fault.
        self.on_cluster_event: Callable[[ClusterEvent], object] = _forget

    def begin(self, measure_start_us: int) -> None:
        self._thread = threading.Thread(target=self._run, args=(measure_start_us,), name="timeline", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """All steps are done, or one failed."""
        return self._thread is not None and not self._thread.is_alive()

    def drop_unsynced(self, broker_id: int, *, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        """Drops what a dead broker had not synced. Lost records of the cell's topic go to `on_cluster_event`."""
        dropped = lose_power(
            self._cluster,
            broker_id,
            topic=self._planned.topic_name,
            partitions=range(self._planned.partitions),
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
                try:
                    faults.append(line)
                except OSError as error:
                    self.disk_error = error
                    raise
                context.progress.fault(line)

            try:
                assert self.own_topics is not None, "a timeline runs in a cell that has made its topics"
                result = timeline.run(
                    self._scenario,
                    planned.record.case or "",
                    cluster_port(self._cluster, self, own_topics=self.own_topics, clients=self.members),
                    record,
                    clock=timeline.RunningClock(t0_monotonic_ns=context.clock.t0_monotonic_ns, stop=self._stop),
                    topic=planned.topic_name,
                    measure_start_us=measure_start_us,
                    lease=context.lease,
                    seed=planned.draw_seed,
                    group=_first_group(planned),
                    transactional_id=_first_transactional_id(planned),
                )
                self.problem, self.unhealed = result.problem, "; ".join(result.unhealed)
                self.disk_error = self.disk_error or result.os_error
            except Exception as error:  # the entry point of a thread: the cell must hear of it
                self.problem = f"{type(error).__name__}: {error}"


def _first_group(planned: PlannedCell) -> str:
    """The first reader that is a consumer group or a share group. Empty if there is none."""
    readers = [reader for reader in planned.workload.reader_groups if reader.mode != "assign"]
    return readers[0].group_id(planned.topic_name) if readers else ""


def _first_transactional_id(planned: PlannedCell) -> str:
    """That of the first copier. Empty if there is none."""
    copiers = [reader.name for reader in planned.workload.reader_groups if reader.copies]
    return transactional_id(planned.topic_name, f"{copiers[0]}-0") if copiers else ""


def timeline_driver(planned: PlannedCell, cluster: Cluster, context: RunContext) -> TimelineDriver:
    if not cluster.proxied:
        raise UsageError(f"{planned.cell_id} needs a cluster with proxies of ours: {cluster.engine} has none")
    return TimelineDriver(planned, cluster, context)

"""The load of one cell from connecting to its last figures: the plan goes in, phases and progress come out.

Shown by tests/harness/test_harness_wheel_install.py, which runs the demo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from harness.clusters.cluster import Cluster
from harness.errors import CellError, hints, tells_of_full_disk
from harness.planned_cell import PlannedCell
from harness.run.cells.timeline_driver import TimelineDriver
from harness.run.context import RunContext
from harness.run.directory.outcome import Outcome
from harness.run.generator.load_plan import load_plan
from harness.run.generator.workload_process import Load
from harness.run.hosts.load_hosts import HubLoad, problems_of
from runlog.files.redaction import hidden_settings
from runlog.records.cell import CellAnomaly
from runlog.records.lines import RecordWriter
from runlog.records.load import (
    HostsTold,
    LoadDone,
    LoadEnded,
    LoadError,
    LoadEvent,
    LoadPhase,
    PhaseBegan,
    Progress,
    ProgressTold,
)
from runlog.records.stats import PhaseSample, ProgressSample, StatsSample
from workloads.clients.protocol import READY_TIMEOUT_S

OVERTIME_S: Final = 45.0  # beyond what the clients may take to connect, and beyond the planned duration and drain
STOP_GRACE_S: Final = 3.0
INTERRUPT_GRACE_S: Final = 2.0
AFTER_TIMELINE_MS: Final = 1_500  # The load goes on for so long after the last step, to see that the service is back.


def _nothing() -> None:
    """Until somebody listens."""


class LoadRun:
    """`access`: the security settings that a client needs. Fills the outcome's window, producers, health and
    settings."""

    def __init__(
        self,
        context: RunContext,
        planned: PlannedCell,
        cluster: Cluster,
        process: Load,
        *,
        access: Mapping[str, str],
        chaos: TimelineDriver | None,
        outcome: Outcome,
        stats: RecordWriter[StatsSample],
    ) -> None:
        self._context, self._planned, self._cluster, self._process = context, planned, cluster, process
        self._access, self._chaos, self._outcome, self._stats = access, chaos, outcome, stats
        self._timeline_ended_us: int | None = None
        self._is_asked_to_stop = False
        self._awaited, self._since_us, self._limit_us = "begin", 0, 0  # set before anything is awaited
        self.on_hosts: Callable[[], object] = _nothing  # it is known which load host has which share
        self.sends: Progress | None = None  # as the load told it last
        self.full_disk = ""  # the words of a load process here about a full disk, which is that of the run
        self.problems: tuple[str, ...] = ()  # Single users or processes of the load had them, while the others went on.

    def pid(self) -> int | None:
        return self._process.pid if self._process.is_running() else None

    def run(self) -> None:
        """Until its last event, or the run is stopped. CellError when it fails or takes too long."""
        try:
            self._run()
        except CellError as error:
            self._look_for_full_disk(str(error))
            raise

    def _run(self) -> None:
        self._context.progress.phase("connect")
        self._process.wait_ready(should_stop=self._context.stop.is_set)
        self._begin()
        self._await("connect", READY_TIMEOUT_S + OVERTIME_S + self._process.prepare_s)
        clock = self._context.clock
        while not self._context.stop.is_set():
            self._end_with_timeline()
            if clock.now_us() > self._since_us + self._limit_us:
                limit = f"within {self._limit_us / 1e6:.0f} s"
                raise CellError(f"the load process did not {self._awaited} {limit}", anomaly=CellAnomaly.HANG)
            if problem := self._cluster.broken_proxies():
                raise CellError(problem)
            event = self._process.next_event(0.2)
            if event is not None and self._take(event):
                return

    def _look_for_full_disk(self, words: str) -> None:
        """Words of a load host tell of a disk there."""
        if self._process.is_here and not self.full_disk and tells_of_full_disk(words):
            self.full_disk = words

    def _await(self, what: str, limit_s: float) -> None:
        """The clients take their time to connect: the rest is bounded from when they have."""
        self._awaited, self._since_us, self._limit_us = what, self._context.clock.now_us(), int(limit_s * 1e6)

    def stop(self) -> None:
        self._process.stop(INTERRUPT_GRACE_S if self._context.stop.is_set() else STOP_GRACE_S)
        if isinstance(self._process, HubLoad):
            hosts = self._process.hosts
            self._outcome.record = replace(self._outcome.record, load_hosts=hosts)
            for problem in problems_of(hosts):
                self._context.progress.say(f"{self._planned.title}: {problem}")

    def forget_at_hosts(self) -> None:
        """The cell's run log is here, compacted and listed: load hosts need not keep it any longer."""
        if isinstance(self._process, HubLoad):
            self._process.forget()

    def _begin(self) -> None:
        planned, context = self._planned, self._context
        access = self._access if self._process.carries_access else {}
        self._process.begin(
            load_plan(
                planned,
                run_dir=context.run_dir,
                cell_id=planned.cell_id,
                t0_monotonic_ns=context.clock.t0_monotonic_ns,
                bootstrap_servers=self._cluster.bootstrap_servers,
                topic=planned.topic_name,
                workload=planned.workload,
                properties={**access, **planned.properties},
                consumer_properties=access,
                web_port=context.web_port,
                log_append_time=self._outcome.record.effective.topic.get("message.timestamp.type") == "LogAppendTime",
            )
        )

    def _end_with_timeline(self) -> None:
        """If the scenario asks for it, the load ends a moment after the timeline, however long that took."""
        if not self._planned.until_done or self._chaos is None or not self._chaos.has_ended:
            return
        now_us = self._context.clock.now_us()
        if self._timeline_ended_us is None:
            self._timeline_ended_us = now_us
        elif now_us - self._timeline_ended_us >= AFTER_TIMELINE_MS * 1000 and not self._is_asked_to_stop:
            self._is_asked_to_stop = True
            self._process.ask_to_stop()

    def _take(self, event: LoadEvent) -> bool:
        """React to one event of the load process. True after the last event."""
        match event:
            case PhaseBegan():
                self._on_phase(event.phase, event.t_us)
            case ProgressTold():
                self._on_progress(event.progress)
            case LoadDone():
                self._on_done(event)
                return True
            case HostsTold(is_beginning=True):
                self._outcome.record = replace(self._outcome.record, load_hosts=event.hosts)
                self.on_hosts()
            case LoadError(fatal=False):
                self._on_problem(event.message)
            case LoadError():
                known = hints(event.message) if self._process.is_here else []
                raise CellError(" ".join([f"load process: {event.message}", *known]))
            case LoadEnded():
                raise CellError(f"the load process ended before it was done: {self._process.describe_end()}")
        return False

    def _on_progress(self, progress: Progress) -> None:
        self._context.progress.figures(progress)
        self.sends = progress
        if self._chaos is not None:
            self._chaos.acked = progress.acked
        self._stats.append(ProgressSample(t_us=self._context.clock.now_us(), values=progress))

    def _on_problem(self, message: str) -> None:
        self.problems = (*self.problems, message)
        self._look_for_full_disk(message)
        self._context.progress.say(f"{self._planned.title}: load: {message}")

    def _on_done(self, done: LoadDone) -> None:
        record, said = self._outcome.record, done.effective
        settings = replace(
            record.effective, client=hidden_settings(said.client), consumer=hidden_settings(said.consumer)
        )
        self._outcome.record = replace(record, producers=done.producers, health=done.health, effective=settings)

    def _on_phase(self, phase: LoadPhase, t_us: int) -> None:
        self._context.progress.phase(phase)
        # On disk at once, because recover.py finds the measured window there if this process is killed.
        self._stats.append(PhaseSample(t_us=t_us, value=phase))
        if self._context.copy is not None:
            self._context.copy.cell_written(self._planned.cell_id)
        if phase is LoadPhase.WARMUP:
            workload = self._planned.workload
            planned_s = (workload.warmup_ms + workload.measure_ms + workload.drain_ms) / 1000
            self._await("finish", planned_s + OVERTIME_S)
        elif phase is LoadPhase.MEASURE:
            self._outcome.record = replace(self._outcome.record, measure_start_us=t_us)
            if self._chaos is not None:
                self._chaos.begin(t_us)
        elif phase is LoadPhase.DRAIN:
            self._outcome.record = replace(self._outcome.record, measure_end_us=t_us)

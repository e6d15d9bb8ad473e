"""A whole run: directory, manifest, cells one after another on clusters that are reused, then the report.

Owns the order of the steps, and that nothing is left behind. cell.py carries out one cell. Shown by
tests/harness/test_harness_wheel_install.py.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from chaos.lease import Lease
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.capabilities import LogFiles
from harness.clusters.cluster import Cluster
from harness.clusters.factory import build_cluster, external_cluster
from harness.clusters.security import read_properties
from harness.errors import EnvironmentFault, ExitCode, HarnessError
from harness.plan import PlannedCell, search_cell
from harness.run.attempts import ATTEMPTS_MAX, put_aside, why_again
from harness.run.cell import CellRun
from harness.run.certify import Certifier
from harness.run.client_runtime import client_runtime
from harness.run.context import RunContext, new_mark
from harness.run.progress import Progress
from harness.run.rundir import new_run_record
from harness.run.scrub import scrub
from harness.run.search_trace import SearchTrace
from harness.run.stop import StopFlag
from harness.run.time_left import WARMED_ENGINES, key_of, repeats_of, time_left_of
from harness.run.timeline_driver import timeline_driver
from harness.run.warm_up import plan_of as warm_up_plan
from harness.run.warm_up import rounds_before, warm_up
from harness.run.workload_process import WorkloadProcess
from harness.suite import Search, Suite
from runlog.files.clock import RunClock
from runlog.files.redaction import Redactor
from runlog.records.cell import CellStatus, OutcomeRecord
from runlog.records.documents import write_run
from runlog.records.run import CertificationStatus, RunRecord, RunStatus

STANDBY: Final = 2  # load processes that are started ahead of time
PORT_ATTEMPTS: Final = 3
CLUSTER_FAILURES_MAX: Final = 2  # after this many the environment is broken, and further cells would only wait


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What the command line asked for."""

    suite: Suite
    cells: tuple[PlannedCell, ...]
    engine: Engine
    client: str
    seed: int
    proxy_choice: str
    bootstrap_servers: str | None
    client_config: Path | None = None  # of an external cluster: Kafka's client properties
    run_dir: Path
    argv: Sequence[str]
    web_port: int | None = None
    certify: bool = True


class Run:
    """Carry out with `execute`; afterwards the run directory says everything."""

    def __init__(self, request: RunRequest, *, stop: StopFlag, progress: Progress, lease_root: Path) -> None:
        self._request, self._stop, self._progress = request, stop, progress
        clock = RunClock.starting_now()
        access = {} if request.client_config is None else read_properties(request.client_config)
        redactor = Redactor.of(request.suite.model_dump(mode="json", by_alias=True), access, arguments=request.argv)
        progress.clean = redactor.text
        mark = new_mark()
        self._record: RunRecord = new_run_record(
            run_dir=request.run_dir,
            clock=clock,
            argv=request.argv,
            engine=request.engine,
            client=request.client,
            seed=request.seed,
            suite=request.suite,
            cells=[cell.cell_id for cell in request.cells],
            redactor=redactor,
            mark=mark,
        )
        self._context = RunContext(
            run_dir=request.run_dir,
            clock=clock,
            stop=stop,
            progress=progress,
            lease=Lease(lease_root),
            argv=tuple(redactor.arguments(request.argv)),
            seed=request.seed,
            engine=request.engine,
            redactor=redactor,
            web_port=request.web_port,
            mark=mark,
        )
        self._cluster: Cluster | None = None
        self._cluster_key: ClusterKey | None = None
        self._cluster_number = 0
        self._time_left = time_left_of(request.suite, request.engine)
        self._standby: deque[WorkloadProcess] = deque()
        self._repeats = repeats_of(request.suite, request.cells)

    def execute(self) -> ExitCode:
        """PASS when every cell was carried out (the report judges them), INCONCLUSIVE when one could not be."""
        self._write(self._record)
        statuses: Counter[CellStatus] = Counter()
        status = RunStatus.FAILED
        try:
            client_runtime(self._request.client)  # what is missing is reported before anything is started
            self._fill_standby()
            self._certify()
            self._run_cells(statuses)
            if self._request.suite.search is not None and not self._stop.is_set():
                self._search(self._request.suite.search)
            status = RunStatus.FINISHED
        except HarnessError as error:
            if not self._stop.is_set():  # otherwise the error only follows from stopping in the middle of something
                self._context.redactor.exception(error)
                raise
        except Exception as error:
            self._context.redactor.exception(error)
            raise
        finally:
            self._clean_up()
            ended_us = self._context.clock.now_us()
            status = RunStatus.INTERRUPTED if self._stop.is_set() else status
            self._write(replace(self._record, status=status, ended_us=ended_us))
        if self._stop.is_set():
            return ExitCode.INTERRUPTED
        return ExitCode.INCONCLUSIVE if len(self._request.cells) > statuses[CellStatus.DONE] else ExitCode.PASS

    def _write(self, record: RunRecord) -> None:
        """manifest.json, as it is from now on."""
        self._record = record
        write_run(self._context.run_dir, record, clean=self._context.redactor.document)

    def _certify(self) -> None:
        """What the generator itself can do, measured before anything is asked of a cluster."""
        request, certification = self._request, self._context.certification
        if not request.certify:
            certification.status, certification.why = CertificationStatus.SKIPPED, "--no-certify"
        else:
            cells = [
                *request.cells,
                *([] if request.suite.search is None else [self._fastest_try(request.suite.search)]),
            ]
            Certifier(self._context, self._take_load).certify(cells, certification)
            self._fill_standby()
        self._write(replace(self._record, certification=certification.record()))

    def _run_cells(self, statuses: Counter[CellStatus]) -> None:
        cluster_failures = 0
        for order, planned in enumerate(self._request.cells):
            if self._stop.is_set():
                return
            left_s = self._time_left.seconds(self._request.cells[order:], self._cluster_key)
            self._progress.begin_cell(order + 1, planned.title, left_s)
            try:
                cluster = self._cluster_for(planned)
                if self._stop.is_set():  # while a cluster came up or was warmed: the cell has not begun
                    return
                outcome = self._attempt_cell(planned, cluster, order)
            except EnvironmentFault as error:
                cluster_failures += 1
                self._drop_cluster()
                self._progress.end_cell("failed", str(error))
                if cluster_failures >= CLUSTER_FAILURES_MAX or order == 0:
                    raise
                continue
            statuses[outcome.status] += 1
            self._progress.end_cell(outcome.status, outcome.reason)
            if outcome.status is CellStatus.FAILED:
                self._drop_cluster()  # the next cell begins on a cluster that nothing has happened to

    def _search(self, search: Search) -> None:
        """Tries rates until the interval is narrow, then measures fractions of the limit; search.json grows along."""
        request = self._request
        ceiling = self._context.certification.of(self._fastest_try(search)).records_per_s
        trace = SearchTrace(self._context.run_dir, search, ceiling)
        for number, rate in enumerate(trace.rates(), start=1):
            planned = search_cell(
                request.suite, search, rate, number=number, fraction=None, seed=request.seed, client=request.client
            )
            outcome = self._run_extra(planned)
            if outcome is None:
                return
            trace.take(planned, outcome)
            self._progress.say(trace.last_line())
        for planned in trace.load_curve(request.suite, seed=request.seed, client=request.client):
            if self._run_extra(planned) is None:
                return

    def _fastest_try(self, search: Search) -> PlannedCell:
        request = self._request
        return search_cell(
            request.suite, search, search.high_per_s, number=1, fraction=None, seed=request.seed, client=request.client
        )

    def _run_extra(self, planned: PlannedCell) -> OutcomeRecord | None:
        """A cell that was not in the plan; None when the run was stopped."""
        if self._stop.is_set():
            return None
        cells = self._record.cells or ()
        order = len(cells)
        self._write(replace(self._record, cells=(*cells, planned.cell_id)))
        self._progress.begin_cell(order + 1, planned.title, 0.0)
        cluster = self._cluster_for(planned)
        outcome = self._run_cell(planned.marked(self._context.mark), cluster, order, ())
        self._progress.end_cell(outcome.status, outcome.reason)
        if outcome.status is CellStatus.FAILED:
            self._drop_cluster()
        return outcome

    def _attempt_cell(self, planned: PlannedCell, cluster: Cluster, order: int) -> OutcomeRecord:
        """A sweep cell that the host disturbed is run again. So is, once, any cell whose Toxiproxy server died, on a
        new cluster. The cell's notes keep what was put aside."""
        notes: list[str] = []
        may_lose_proxies = True
        for attempt in range(1, ATTEMPTS_MAX + 1):
            mark = self._context.mark if attempt == 1 else f"{self._context.mark}-{attempt}"
            began_s = time.monotonic()
            outcome = self._run_cell(planned.marked(mark), cluster, order, notes)
            took_ms = (time.monotonic() - began_s) * 1000
            if attempt > 1:
                self._repeats.use(took_ms)
            if attempt == ATTEMPTS_MAX:
                break
            broken = cluster.broken_proxies() if outcome.status is CellStatus.FAILED else ""
            if broken and may_lose_proxies and not self._stop.is_set():
                may_lose_proxies = False
                why: str | None = broken
            elif planned.is_of_sweep and outcome.status is CellStatus.DONE:
                why = self._why_again(planned, outcome, took_ms)
            else:
                why = None
            if why is None:
                break
            notes.append(f"attempt {attempt} was put aside: {why}")
            self._progress.say(
                f"{planned.title}: attempt {attempt} was put aside, {why}; once more ({self._repeats.words()})"
            )
            put_aside(self._context.run_dir, planned.cell_id, attempt)
            if broken:
                self._drop_cluster()
                cluster = self._cluster_for(planned)
        return outcome

    def _why_again(self, planned: PlannedCell, outcome: OutcomeRecord, took_ms: float) -> str | None:
        """None also for a cell that is spoilt and stays, because the time for repeats is used up: it is marked."""
        why = why_again(
            self._context.run_dir,
            planned.cell_id,
            acks=str(planned.properties.get("acks", "all")),
            started_us=outcome.started_us or 0,
            window_us=outcome.window_us,
            schedule_kind=planned.workload.schedule.kind,
        )
        if why is None or self._repeats.has_room_for(took_ms):
            return why
        self._progress.say(f"{planned.title}: {why}; it stays and is marked ({self._repeats.words()})")
        return None

    def _run_cell(self, planned: PlannedCell, cluster: Cluster, order: int, notes: Sequence[str]) -> OutcomeRecord:
        load = self._take_load()
        chaos = timeline_driver(planned, cluster, self._context) if planned.kind == "chaos" else None
        cell = CellRun(self._context, planned, cluster, load, order, chaos)
        cell.add_notes(notes)
        if planned.kind == "search" or order + STANDBY < len(self._request.cells):
            cell.on_load_finished = self._fill_standby
        return cell.carry_out()

    # --- load processes ---------------------------------------------------------------------------------------------

    def _new_load_process(self) -> WorkloadProcess:
        return WorkloadProcess(self._context.run_dir / "load.stderr.log")

    def _take_load(self) -> WorkloadProcess:
        return self._standby.popleft() if self._standby else self._new_load_process()

    def _take_fresh_load(self) -> WorkloadProcess:
        """And have the next one made ready beside it."""
        load = self._take_load()
        self._fill_standby()
        return load

    def _fill_standby(self) -> None:
        """Imports take a second of CPU. They are done while nothing is measured, beside the final read of a cell, for
        the cell after the next. So nobody waits for them."""
        while len(self._standby) < STANDBY and not self._stop.is_set():
            self._standby.append(self._new_load_process())

    # --- clusters ---------------------------------------------------------------------------------------------------

    def _cluster_for(self, planned: PlannedCell) -> Cluster:
        key = self._key_of(planned)
        if self._cluster is not None and key == self._cluster_key:
            return self._cluster
        self._drop_cluster()
        sweep = self._request.suite.sweep
        of_forks = f" (fork {key.fork} of {sweep.forks})" if sweep is not None and planned.is_of_sweep else ""
        self._progress.phase(f"cluster{of_forks}")
        began_s = time.monotonic()
        cluster = self._start_cluster(key)
        up_s = time.monotonic()
        is_warmed = cluster.engine in WARMED_ENGINES
        if is_warmed:
            self._progress.phase(f"cluster warm-up{of_forks}")
            warmed = warm_up(
                cluster,
                warm_up_plan(planned, self._context, cluster.bootstrap_servers),
                self._take_fresh_load,
                rounds=rounds_before(planned),
                longest_s=self._request.suite.cluster.warm_up_ms_max / 1000,
                replication_factor=planned.replication_factor,
                should_stop=self._context.stop.is_set,
            )
            line = f"{of_forks.strip(' ()')}: {warmed.line}" if of_forks else warmed.line
            self._record = replace(self._record, warm_ups=(*(self._record.warm_ups or ()), line))
            if warmed.problem:
                self._progress.say(f"warm-up{of_forks} ended early, the first cells may look slow: {warmed.problem}")
        warm_up_s = time.monotonic() - up_s if is_warmed else None
        self._time_left.took(planned, start_s=up_s - began_s, warm_up_s=warm_up_s)
        return cluster

    def _start_cluster(self, key: ClusterKey) -> Cluster:
        """Start it. If somebody took a port between its choice and its use, ports are chosen again."""
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._cluster_number += 1
            directory = self._context.run_dir / "clusters" / str(self._cluster_number)
            if key.engine == "external":
                cluster: Cluster = external_cluster(
                    self._request.bootstrap_servers,
                    self._request.client_config,
                    directory,
                    proxied=key.proxied,
                    proxy_choice=self._request.proxy_choice,
                    lease=self._context.lease,
                    seed=self._request.seed,
                )
            else:
                cluster = build_cluster(
                    key,
                    directory,
                    proxy_choice=self._request.proxy_choice,
                    lease=self._context.lease,
                    seed=self._request.seed,
                    should_stop=self._stop.is_set,
                )
            self._cluster, self._cluster_key = cluster, key
            try:
                cluster.start()
                return cluster
            except EnvironmentFault as error:
                if attempt == PORT_ATTEMPTS or "address already in use" not in str(error).lower():
                    raise
                self._drop_cluster()
        raise AssertionError("the last attempt returns or raises")

    def _key_of(self, planned: PlannedCell) -> ClusterKey:
        return key_of(
            planned,
            engine=self._request.engine,
            brokers=self._request.suite.cluster.brokers,
            host=self._request.suite.cluster.host,
        )

    def _drop_cluster(self) -> None:
        cluster, self._cluster, self._cluster_key = self._cluster, None, None
        if cluster is not None:
            cluster.stop()
            if isinstance(cluster, LogFiles):
                cluster.remove_data()

    def _clean_up(self) -> None:
        """Runs on every way out. Each step runs even if the one before failed."""
        steps: list[Callable[[], Any]] = [self._drop_cluster, self._context.lease.close]
        steps = [*(partial(standby.stop, 1.0) for standby in self._standby), *steps]
        # Last: texts that libraries and other programs wrote into files of the run.
        steps.append(partial(scrub, self._context.run_dir, self._context.redactor))
        problems = []
        for step in steps:
            try:
                step()
            except Exception as error:  # the other steps must run too; the first problem is told below
                problems.append(error)
        if problems:
            raise HarnessError(f"not everything could be stopped: {problems[0]}; run `harness clean`") from problems[0]

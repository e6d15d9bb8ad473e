"""A whole run: directory, manifest, cells one after another on clusters that are reused, then the report.

This module owns the order of the steps, and the clean-up at the end. cell.py carries out one cell. Shown by
tests/harness/test_harness_wheel_install.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from chaos.lease import Lease
from harness.clusters.cluster import Cluster
from harness.clusters.security import read_properties
from harness.errors import EnvironmentFault, ExitCode, HarnessError, LoadHostsLost, is_full
from harness.plan import search_cell
from harness.planned_cell import PlannedCell
from harness.release_needs import releases_of
from harness.run.attempts import ATTEMPTS_MAX, DisturbedCells, disturbed, put_aside
from harness.run.cells.cell import CellRun
from harness.run.cells.timeline_driver import timeline_driver
from harness.run.context import RunContext, new_mark
from harness.run.current_cluster import CurrentCluster
from harness.run.directory.outcome import is_carried_out
from harness.run.directory.reserved_space import give_room, try_keep_room, write_last
from harness.run.directory.run_directory import new_run_record
from harness.run.directory.secret_removal import scrub
from harness.run.generator.client_runtime import client_runtime
from harness.run.generator.standby_processes import STANDBY, StandbyLoads
from harness.run.generator.workload_process import Load
from harness.run.hosts.fault_host_needs import check_fault_hosts
from harness.run.hosts.fault_hosts import FaultHosts
from harness.run.hosts.load_hosts import LoadHosts
from harness.run.hosts.store_copy import RunCopy
from harness.run.preparation.ceiling_measurement import Certifier
from harness.run.preparation.host_ceilings import HostCeilings
from harness.run.report.analysis_process import AnalysisAhead
from harness.run.request import RunRequest
from harness.run.search_trace import SearchTrace
from harness.run.time_left import repeats_of, time_left_of
from harness.suite import Search
from harness.terminal.progress import Progress
from harness.terminal.signals import Patience, StopFlag
from runlog.files.clock import RunClock
from runlog.files.redaction import Redactor
from runlog.records.cell import CellStatus, OutcomeRecord
from runlog.records.documents import write_run
from runlog.records.run import CertificationStatus, RunRecord, RunStatus

STOPPED_KEEP_S: Final = 60.0  # The last cell of a run that was stopped has this time. A user waits for it.
FULL_DISK: Final = "a disk was full: free some space, or put the run elsewhere with --run-dir"
CLUSTER_FAILURES_MAX: Final = 2  # after this many the environment is broken, and further cells would only wait


class Run:
    """Carry out with `execute`; afterwards the run directory says everything."""

    def __init__(
        self,
        request: RunRequest,
        *,
        stop: StopFlag,
        progress: Progress,
        lease_root: Path,
        ahead: AnalysisAhead | None = None,
    ) -> None:
        """`ahead`: of a run whose report follows."""
        self._request, self._stop, self._progress, self._ahead = request, stop, progress, ahead
        clock = RunClock.starting_now()
        access = {} if request.client_config is None else read_properties(request.client_config)
        redactor = Redactor.of(
            request.suite.model_dump(mode="json", by_alias=True),
            access,
            arguments=request.argv,
            names=[request.suite.name, request.run_dir.name, *(cell.cell_id for cell in request.cells)],
        )
        progress.clean = redactor.text
        mark = new_mark()
        store = None if request.load_hosts is None else request.load_hosts.store
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
            store=None if store is None else store.url,
            releases=releases_of(request.cells) if request.engine == "kafka" else (),
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
            copy=None if store is None else RunCopy(store, mark, request.run_dir, progress.say),
        )
        self._time_left = time_left_of(request.suite, request.engine)
        self._loads = StandbyLoads(request.run_dir, stop.is_set)
        self._cluster = CurrentCluster(
            request, self._context, loads=self._loads, time_left=self._time_left, on_warmed=self._note_warm_up
        )
        self._repeats = repeats_of(request.suite, request.cells)
        self._disturbed = DisturbedCells()
        self._hosts: LoadHosts | None = None
        self._fault_hosts: FaultHosts | None = None
        self._ceilings: HostCeilings | None = None
        self._is_disk_full = False  # at the end of some cell
        self._carried_out = 0  # cells of the plan

    def execute(self) -> ExitCode:
        """PASS when every cell was carried out (the report judges them), INCONCLUSIVE when one was not,
        ENVIRONMENT when the disk was too small for one."""
        try_keep_room(self._context.run_dir)  # without it the first document tells that the disk is full
        self._write(self._record)
        status = RunStatus.FAILED
        try:
            self._tell_of_weak_secrets()
            client_runtime(self._request.client)  # what is missing is reported before anything is started
            self._start_load_hosts()
            self._start_fault_hosts()
            self._loads.fill()
            self._certify()
            self._run_cells()
            if self._request.suite.search is not None and not self._stop.is_set():
                self._search(self._request.suite.search)
            if words := self._disturbed.words():
                self._progress.say(words)
            status = RunStatus.FINISHED
        except HarnessError as error:
            if not self._stop.is_set():  # otherwise the error only follows from stopping in the middle of something
                self._context.redactor.exception(error)
                raise
        except Exception as error:
            self._context.redactor.exception(error)
            raise
        finally:
            try:
                self._clean_up()
            finally:
                self._end(status)
        if self._stop.is_set():
            return ExitCode.INTERRUPTED
        if self._is_disk_full:
            self._progress.say(f"{FULL_DISK}; what was written so far is kept in {self._context.run_dir}")
            return ExitCode.ENVIRONMENT
        return ExitCode.INCONCLUSIVE if len(self._request.cells) > self._carried_out else ExitCode.PASS

    def _end(self, status: RunStatus) -> None:
        status = RunStatus.INTERRUPTED if self._stop.is_set() else status
        try:
            self._write(replace(self._record, status=status, ended_us=self._context.clock.now_us()))
        finally:
            give_room(self._context.run_dir)
            if self._context.copy is not None:
                self._context.copy.close()

    def _write(self, record: RunRecord) -> None:
        """manifest.json, as it is from now on."""
        self._record = record
        run_dir, clean = self._context.run_dir, self._context.redactor.document
        write_last(run_dir, lambda: write_run(run_dir, record, clean=clean))
        if self._context.copy is not None:
            self._context.copy.manifest_written()

    def _tell_of_weak_secrets(self) -> None:
        if count := self._context.redactor.weak:
            are = "is an ordinary word" if count == 1 else "are ordinary words"
            self._progress.say(
                f"{count} of the passwords and tokens of this run {are} or short. Settings and command lines do not "
                "show them. But the files of the run are not searched for them, because that would change names and "
                "figures. Take longer ones before you pass a run on"
            )

    def _note_warm_up(self, line: str) -> None:
        self._record = replace(self._record, warm_ups=(*(self._record.warm_ups or ()), line))

    def _start_load_hosts(self) -> None:
        wanted, context = self._request.load_hosts, self._context
        if wanted is None:
            return
        if context.copy is not None:
            context.copy.begin(self._record)
        self._hosts = LoadHosts(
            wanted, context.mark, context.run_dir / "load.stderr.log", context.clock.t0_monotonic_ns, context.copy
        )
        self._hosts.start(self._stop.is_set, self._progress.say)
        self._ceilings = HostCeilings(context, self._hosts)

    def _start_fault_hosts(self) -> None:
        """UsageError if their operators do not permit what the plan needs, before anything is measured."""
        wanted, context = self._request.fault_hosts, self._context
        cells = [cell for cell in self._request.cells if cell.kind == "chaos"]
        if wanted is None:
            return
        if not cells:
            self._progress.say("fault hosts are not waited for: no cell of this plan has a scenario")
            return
        self._fault_hosts = FaultHosts(
            wanted, context.mark, context.run_dir / "faults.stderr.log", context.clock.t0_monotonic_ns
        )
        self._fault_hosts.start(self._stop.is_set, self._progress.say)
        if self._stop.is_set():
            return
        self._cluster.fault_hosts = self._fault_hosts
        check_fault_hosts(cells, self._cluster.of(cells[0]), self._fault_hosts)

    def _certify(self) -> None:
        """Measures what the load generator itself can do, before a cluster is used."""
        request, certification = self._request, self._context.certification
        if not request.certify:
            certification.status, certification.why = CertificationStatus.SKIPPED, "--no-certify"
        else:
            cells = [
                *request.cells,
                *([] if request.suite.search is None else [self._fastest_try(request.suite.search)]),
            ]
            if self._ceilings is not None:
                self._ceilings.certify(cells, certification)
            else:
                Certifier(self._context, self._loads.take).certify(cells, certification)
            self._loads.fill()
        self._write(replace(self._record, certification=certification.record()))

    def _run_cells(self) -> None:
        cluster_failures = 0
        for order, planned in enumerate(self._request.cells):
            if self._stop.is_set() or self._is_out_of_room():
                return
            left_s = self._time_left.seconds(self._request.cells[order:], self._cluster.key)
            self._progress.begin_cell(order + 1, planned.cell_id, left_s)
            try:
                cluster = self._cluster.of(planned)
                if self._stop.is_set():  # while a cluster came up or was warmed: the cell has not begun
                    return
                outcome = self._attempt_cell(planned, cluster, order)
            except LoadHostsLost as error:
                self._progress.end_cell("not begun", str(error))
                raise
            except EnvironmentFault as error:
                cluster_failures += 1
                self._cluster.drop()
                self._progress.end_cell("failed", str(error))
                if cluster_failures >= CLUSTER_FAILURES_MAX or order == 0:
                    raise
                continue
            self._carried_out += is_carried_out(outcome)
            self._count_disturbed(planned, outcome)
            self._keep(planned.cell_id)
            self._progress.end_cell(outcome.status, outcome.reason)
            if outcome.status is CellStatus.FAILED:
                self._cluster.drop()  # the next cell begins on a new cluster

    def _search(self, search: Search) -> None:
        """Tries rates until the interval is narrow and the kept rate was tried, then measures fractions of that rate.
        Each try is added to search.json."""
        request = self._request
        trace = SearchTrace(self._context.run_dir, search)
        plans = trace.tries(request.suite, seed=request.seed, client=request.client)
        for planned in chain(plans, trace.load_curve(request.suite, seed=request.seed, client=request.client)):
            outcome = self._run_extra(planned)
            if outcome is None:
                return
            # As it is now: since the try before, load hosts may have been lost.
            ceiling = self._context.certification.of(self._fastest_try(search)).records_per_s
            trace.take(planned, outcome, ceiling)
            self._progress.say(trace.last_line())

    def _fastest_try(self, search: Search) -> PlannedCell:
        request = self._request
        return search_cell(
            request.suite, search, search.high_per_s, number=1, fraction=None, seed=request.seed, client=request.client
        )

    def _run_extra(self, planned: PlannedCell) -> OutcomeRecord | None:
        """A cell that was not in the plan; None when the run was stopped or its disk is full."""
        if self._stop.is_set() or self._is_out_of_room():
            return None
        cells = self._record.cells or ()
        order = len(cells)
        self._write(replace(self._record, cells=(*cells, planned.cell_id)))
        self._progress.begin_cell(order + 1, planned.cell_id, 0.0)
        cluster = self._cluster.of(planned)
        outcome = self._run_cell(planned.marked(self._context.mark), cluster, order, ())
        self._count_disturbed(planned, outcome)
        self._keep(planned.cell_id)
        self._progress.end_cell(outcome.status, outcome.reason)
        if outcome.status is CellStatus.FAILED:
            self._cluster.drop()
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
                f"{planned.cell_id}: attempt {attempt} was put aside, {why}; once more{self._repeats.words()}"
            )
            put_aside(self._context.run_dir, planned.cell_id, attempt)
            if broken:
                self._cluster.drop()
                cluster = self._cluster.of(planned)
        return outcome

    def _keep(self, cell_id: str) -> None:
        """Puts an ended cell into the store, if there is a store. So does a run that is stopped, for a while."""
        context = self._context
        if context.copy is not None:
            context.progress.phase("store")
            context.copy.keep(cell_id, Patience(self._stop, STOPPED_KEEP_S).is_over)

    def _why_again(self, planned: PlannedCell, outcome: OutcomeRecord, took_ms: float) -> str | None:
        """Why the cell is run again; None if it is not. If the time for repeats is used up, the cell is only marked."""
        why = disturbed(self._context.run_dir, planned.cell_id, outcome.window_us)
        return why if why is not None and self._repeats.has_room_for(took_ms) else None

    def _count_disturbed(self, planned: PlannedCell, outcome: OutcomeRecord) -> None:
        told = self._disturbed.ended(self._context.run_dir, planned.cell_id, outcome.window_us)
        if told:
            self._progress.say(f"{told}{self._repeats.words()}")

    def _run_cell(self, planned: PlannedCell, cluster: Cluster, order: int, notes: Sequence[str]) -> OutcomeRecord:
        if self._ahead is not None:
            self._ahead.cancel()  # it waits if the last cell is carried out once more
        load = self._take_load()
        chaos = timeline_driver(planned, cluster, self._context) if planned.kind == "chaos" else None
        cell = CellRun(self._context, planned, cluster, load, order, chaos)
        cell.add_notes(notes)
        if planned.kind == "search" or order + STANDBY < len(self._request.cells):
            cell.on_load_finished = self._loads.fill
        elif self._ahead is not None and order + 1 == len(self._request.cells) and self._request.suite.search is None:
            cell.on_load_finished = self._ahead.start
        outcome = cell.carry_out()
        self._is_disk_full = self._is_disk_full or cell.is_disk_full
        return outcome

    def _is_out_of_room(self) -> bool:
        """Whether a cell found the disk full and it still is: the data of a cluster that ended may have been in the
        way. Says so."""
        if not self._is_disk_full or try_keep_room(self._context.run_dir):
            return False
        self._progress.say("the disk of the run is still full, so no further cell is begun")
        return True

    def _take_load(self) -> Load:
        """The load, on the connected load hosts or on this host."""
        if self._hosts is None:
            return self._loads.take()
        load = self._hosts.take(all_needed=self._request.suite.lost_load_host == "end")
        if self._ceilings is not None:
            alive = frozenset(host.name for host in self._hosts.present)
            self._ceilings.count_only(alive, self._context.certification)
        return load

    def _clean_up(self) -> None:
        """Runs at every end of a run. Each step runs even if the step before failed."""
        # The last one: texts that libraries and other programs wrote into files of the run.
        clean_texts = partial(scrub, self._context.run_dir, self._context.redactor)
        steps: list[Callable[[], object]] = [
            *self._loads.stops(),
            *([] if self._hosts is None else [self._hosts.stop]),
            self._cluster.drop,
            *([] if self._fault_hosts is None else [self._fault_hosts.stop]),
            self._context.lease.close,
            clean_texts,
        ]
        problems = []
        for step in steps:
            try:
                step()
            except Exception as error:  # the other steps must run too; the first problem is told below
                problems.append(error)
        if problems:
            first = next((problem for problem in problems if not is_full(problem)), problems[0])
            kind = EnvironmentFault if is_full(first) else HarnessError
            raise kind(f"not everything could be stopped: {first}; run `harness clean`") from first

"""The users of a cell on load hosts: the same calls as those of a fleet on this host (workloads/fleet.py).

A load host that ends, loses its link or falls behind is told by name in `records`, and the others go on. What a host
was told is told again until its states say that it was done, so a lost message costs time and nothing else. Shown by
tests/workloads/test_workloads_hosts.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

import gevent

from runlog.files.paths import live_directory
from runlog.quality.clock_bound import ClockBound, ClockBoundError, no_bound
from runlog.records.hosts import NOT_HEARD, HostState, LoadHostRecord
from runlog.records.stats import ShareSample
from workloads.context import Phases
from workloads.fleet import FleetError
from workloads.hosts import wire
from workloads.hosts.gather import Gatherer, gather_all
from workloads.hosts.registry import Host, Registry, Tell
from workloads.hosts.spread import spread
from workloads.load_process import LOOK_S
from workloads.model import Plan
from workloads.reports import LoadReport, LoadState, merge_states, merged

START_DELAY_MS: Final = 1_500  # until all hosts know when to begin
CLOCK_SAMPLES_MIN: Final = 8
CLOCK_WAIT_S: Final = 30.0
CUT_S: Final = 5.0  # without a word, of four a second: the link was lost, which makes the cell inconclusive
DEAD_S: Final = 45.0  # without a state: nobody waits for this host any more
AGAIN_S: Final = 1.0
PREPARE_S: Final = 120.0  # A load process may need this long to begin. It takes seconds on an idle host.
REPORT_S: Final = 30.0
GATHER_S: Final = 2.0  # between two looks for closed segments while the load runs
GATHER_STALL_S: Final = 60.0  # without a byte from a host: what it has stays there
GATHER_DEAD_S: Final = 10.0  # the same of a host that was taken for dead
NOTE_SHARE_S: Final = 1.0  # between two notes in the run directory of what a host has
BEHIND_US: Final = 1_000_000  # schedule lag at p99: the load was another one than the plan's
BEHIND_SHARE: Final = 0.1  # A share of a host's records that it did not hand over, as Criteria.achieved_ratio_min.


class _Part:
    """One load host's part in the cell."""

    def __init__(self, host: Host, plan: Plan, share: wire.ShareOfHost, shift_ns: int, cell: wire.OfCell) -> None:
        self.host, self.share, self.shift_ns = host, share, shift_ns
        self.client_id = host.client_id
        self.state: LoadState | None = None
        self.done: frozenset[str] = frozenset()
        self.state_s = time.monotonic()
        self.reports: tuple[LoadReport, ...] | None = None
        self.problem = ""
        self.is_dead = False
        self.wanted: dict[str, wire.Message] = {}  # what it must do: name -> message
        self.asked_s: dict[str, float] = {}
        self.noted_s = 0.0
        self.live = live_directory(plan.run_dir, plan.cell_id)
        self.cell = cell

    def look(self) -> None:
        """Before its first state a host starts a process, which has a limit of its own (readiness.py)."""
        if self.state is not None and time.monotonic() - self.state_s > DEAD_S:
            self.is_dead = True

    def start_anew(self, host: Host) -> None:
        """Its worker was started anew: its share is gone, its files are not."""
        self.client_id, self.host = host.client_id, host
        self.problem = self.problem or "its worker was started anew in the middle of the cell"
        self.is_dead = True


class HostsFleet:
    start_delay_ms = START_DELAY_MS

    def __init__(
        self, plan: Plan, *, registry: Registry, tell: Tell, run_id: str, environment: Any, store: str = ""
    ) -> None:
        """ClockBoundError, named by host, if a clock cannot be held against ours. `store`: its token, if the run has
        one."""
        self._plan, self._tell, self.environment, self._store = plan, tell, environment, store
        self._registry = registry
        self._cell = wire.OfCell(run_id=run_id, cell_id=plan.cell_id)
        hosts = {host.name: host for host in registry.alive()}
        self._began_ns = time.monotonic_ns()
        self._wait_clocks(list(hosts.values()))
        workload = plan.workload
        middle_ns = self._began_ns + (workload.warmup_ms + workload.measure_ms) // 2 * 1_000_000
        self.parts: dict[str, _Part] = {}
        for name, share in spread(workload, sorted(hosts)).items():
            shift_ns = round(_bound(hosts[name], time.monotonic_ns()).at(middle_ns).offset_ns)
            self.parts[name] = _Part(hosts[name], plan, share, shift_ns, self._cell)
        self._gatherers = {
            name: Gatherer(self._cell, part.live, self._asker(part), uses_store=bool(store))
            for name, part in self.parts.items()
        }
        self._next_gather_s = time.monotonic() + GATHER_S
        self._is_over = False

    def _asker(self, part: _Part) -> Callable[[wire.Message], None]:
        return lambda message: self._tell(part.client_id, message)

    def _wait_clocks(self, hosts: list[Host]) -> None:
        deadline_s = time.monotonic() + CLOCK_WAIT_S
        for host in hosts:  # so that round trips from before a step are not counted
            with contextlib.suppress(ClockBoundError):
                host.samples.drop_before_step()
        while any(len(host.samples) < CLOCK_SAMPLES_MIN for host in hosts):
            if time.monotonic() > deadline_s:
                return  # one round trip is enough for a bound; without any the host is named below
            self._registry.ask_clocks()
            gevent.sleep(0.05)

    # --- the calls of a fleet -----------------------------------------------------------------------------------------

    def start_users(self) -> None:
        plan = self._plan
        for part in self.parts.values():
            part.wanted["plan"] = wire.SharePlan.of(
                plan,
                run_id=self._cell.run_id,
                share=part.share,
                t0_monotonic_ns=plan.t0_monotonic_ns + part.shift_ns,
                harness_t0_ns=plan.t0_monotonic_ns,
                store=self._store,
            )
        self._wait_prepared()

    def _wait_prepared(self) -> None:
        """Until each share has made its records' bodies and begins to connect: the limit for that counts from then."""
        deadline_s = time.monotonic() + PREPARE_S
        while any(part.state is None and not _why(part) for part in self.parts.values()):
            if time.monotonic() > deadline_s:
                late = ", ".join(name for name, part in self.parts.items() if part.state is None)
                raise FleetError(f"no load process began within {PREPARE_S:.0f} s on load host {late}")
            self._find_restarted()
            self._ask_what_is_wanted()
            gevent.sleep(LOOK_S)

    def begin(self, phases: Phases) -> None:
        for part in self.parts.values():
            part.host.count_silence()
            times = {name: at_ns + part.shift_ns for name, at_ns in asdict(phases).items()}
            part.wanted["begin"] = wire.BeginAt(**times)
        self._ask_what_is_wanted()

    def stop_sending(self, drain_deadline_ns: int) -> None:
        for part in self.parts.values():
            part.wanted["stop_sending"] = wire.StopSending(drain_deadline_ns=drain_deadline_ns + part.shift_ns)
        self._ask_what_is_wanted()

    def stop_receiving(self) -> None:
        for part in self.parts.values():
            part.wanted["stop_receiving"] = wire.StopReceiving()
        self._ask_what_is_wanted()

    def state(self) -> LoadState:
        self._look()
        whole = merge_states([_state_of(part) for part in self.parts.values()])
        if "begin" in next(iter(self.parts.values())).wanted:
            return whole
        why_not = [f"load host {part.host.name}: {why}" for part in self.parts.values() if (why := _why(part))]
        return whole.model_copy(update={"errors": (*whole.errors, *why_not)})  # without all hosts a cell does not begin

    def settle(self) -> None:
        """A host's report comes after its last rows were counted; so only its last state is waited for."""
        gevent.sleep(LOOK_S)

    def reports(self) -> list[LoadReport]:
        for part in self.parts.values():
            part.wanted["report"] = wire.AskReport()
        deadline_s = time.monotonic() + REPORT_S
        while time.monotonic() < deadline_s:
            self._look()
            if all(part.reports is not None or part.is_dead or part.problem for part in self.parts.values()):
                break
            gevent.sleep(LOOK_S)
        return [report for part in self.parts.values() for report in part.reports or ()]

    def quit(self) -> None:
        """End the shares and gather what is left of their run logs."""
        self._is_over = True
        for part in self.parts.values():
            self._note_share(part)
            self._tell(part.client_id, wire.End())
        self._gather_rest()

    # --- what hosts say -----------------------------------------------------------------------------------------------

    def on_message(self, host: Host, message: wire.Message) -> None:
        part = self.parts.get(host.name)
        if part is None:
            return
        if part.client_id != host.client_id:
            part.start_anew(host)
        match message:
            case wire.FilesOfCell() if message.cell == self._cell:
                self._gatherers[host.name].on_files(message)
            case wire.Chunk() if message.cell == self._cell:
                self._gatherers[host.name].on_chunk(message)
            case wire.NoChunk() if message.cell == self._cell:
                self._gatherers[host.name].on_no_chunk(message)
            case wire.StateTold() | wire.ReportTold() | wire.Problem() if message.cell_id == self._cell.cell_id:
                self._on_share(part, message)

    def _on_share(self, part: _Part, message: wire.StateTold | wire.ReportTold | wire.Problem) -> None:
        if isinstance(message, wire.Problem):
            part.problem = part.problem or message.message
        elif isinstance(message, wire.ReportTold):
            if part.reports is None:
                part.reports = message.reports
        elif not part.is_dead:
            part.state, part.done, part.state_s = message.state, frozenset(message.done), time.monotonic()
            if part.state_s - part.noted_s >= NOTE_SHARE_S:
                self._note_share(part)

    def _note_share(self, part: _Part) -> None:
        """What the host must have, in the run directory, so that its run log can be held against it."""
        if part.state is None:
            return
        part.noted_s = time.monotonic()
        self._registry.on_sample(
            ShareSample(
                t_us=(time.monotonic_ns() - self._plan.t0_monotonic_ns) // 1000,
                source=part.host.name,
                sends=part.state.acked + part.state.failed + part.state.unknown,
                receives=part.state.received,
            )
        )

    # --- looking after them -------------------------------------------------------------------------------------------

    def _find_restarted(self) -> bool:
        """A new worker is asked nothing under the address of the old one, so it would never say anything. False: no
        restart ends the gathering."""
        for host in self._registry.alive():
            part = self.parts.get(host.name)
            if part is not None and part.client_id != host.client_id:
                part.start_anew(host)
        return False

    def _look(self) -> None:
        self._find_restarted()
        for part in self.parts.values():
            if part.reports is None:
                part.look()
        self._ask_what_is_wanted()
        if time.monotonic() >= self._next_gather_s:
            self._next_gather_s = time.monotonic() + GATHER_S
            for name, gatherer in self._gatherers.items():
                if not self.parts[name].is_dead:
                    gatherer.list_anew()
        for gatherer in self._gatherers.values():
            gatherer.step()

    def _ask_what_is_wanted(self) -> None:
        now_s = time.monotonic()
        for part in self.parts.values():
            for name, message in part.wanted.items():
                is_done = part.state is not None if name == "plan" else name in part.done
                is_done = is_done or (name == "report" and part.reports is not None)
                if not is_done and not part.is_dead and now_s - part.asked_s.get(name, 0.0) >= AGAIN_S:
                    part.asked_s[name] = now_s
                    self._tell(part.client_id, message)

    def _gather_rest(self) -> None:
        """Until all is here, or a host that has more gives nothing for a while."""
        gather_all(
            self._gatherers,
            stall_s=lambda name: GATHER_DEAD_S if self.parts[name].is_dead else GATHER_STALL_S,
            before_list=lambda name: self._tell(self.parts[name].client_id, wire.End()),
            is_stopped=self._find_restarted,
            sleep=gevent.sleep,
        )

    @property
    def cell(self) -> wire.OfCell:
        return self._cell

    def whole(self) -> set[str]:
        """Hosts whose run log is here, verified."""
        return {name for name, gatherer in self._gatherers.items() if gatherer.is_whole()}

    def beginning(self) -> tuple[LoadHostRecord, ...]:
        """Who has which share, for the case that nobody lives to say more."""
        return tuple(
            LoadHostRecord(
                name=name,
                state=HostState.FAILED,
                reason=NOT_HEARD,
                version=part.host.hello.version,
                cores=part.host.hello.cores,
                processes=wire.processes_here(self._plan.workload, part.share),
                producers=part.share.producers,
                consumers=part.share.consumers,
            )
            for name, part in self.parts.items()
        )

    def records(self) -> tuple[LoadHostRecord, ...]:
        """What became of each share."""
        return tuple(self._record(name, part) for name, part in self.parts.items())

    def _record(self, name: str, part: _Part) -> LoadHostRecord:
        lag, gatherer = merged(report.lag for report in part.reports or ()), self._gatherers[name]
        lag_p99 = lag.quantile_us(0.99) if lag.count else None
        try:
            clock = _bound(part.host, self._began_ns).over(
                self._began_ns, time.monotonic_ns(), used_offset_ns=part.shift_ns
            )
        except ClockBoundError as error:
            clock = no_bound(str(error))
        state, reason = _ending(part, lag_p99)
        if state is HostState.DONE and clock.problem:
            state, reason = HostState.FAILED, f"no bound for its clock: {clock.problem}"
        if state is HostState.DONE and not gatherer.is_whole():
            state, reason = HostState.FAILED, gatherer.problem or "its run log could not be gathered"
        return LoadHostRecord(
            name=name,
            state=state,
            reason=reason,
            version=part.host.hello.version,
            cores=part.host.hello.cores,
            processes=wire.processes_here(self._plan.workload, part.share),
            producers=part.share.producers,
            consumers=part.share.consumers,
            clock=clock,
            schedule_lag_us_p99=lag_p99,
            late_sends=sum(report.late_sends for report in part.reports or ()),
            files=gatherer.files,
            files_stored=gatherer.stored_only,
            bytes=gatherer.bytes,
            is_gathered=gatherer.is_whole(),
        )


def _bound(host: Host, since_ns: int) -> ClockBound:
    try:
        return host.clock(since_ns)
    except ClockBoundError as error:
        raise ClockBoundError(f"load host {host.name}: {error}") from None


def _state_of(part: _Part) -> LoadState:
    """Its errors with its name."""
    if part.state is None:
        return merge_states(())
    told = part.state.model_copy(
        update={"errors": tuple(f"load host {part.host.name}: {error}" for error in part.state.errors)}
    )
    if part.is_dead or part.problem:  # what it did counts, but nobody waits for it
        return told.model_copy(update={"producing": 0, "consuming": 0})
    return told


def _why(part: _Part) -> str:
    if part.problem:
        return part.problem
    return f"was not heard of for {DEAD_S:.0f} s" if part.is_dead else ""


def _ending(part: _Part, lag_us_p99: float | None) -> tuple[HostState, str]:
    if part.is_dead or part.reports is None:
        why = part.problem or f"was not heard of for {time.monotonic() - part.state_s:.0f} s"
        return HostState.DEAD, why
    if part.problem:
        return HostState.FAILED, part.problem
    if part.state is not None and part.state.errors:
        return HostState.FAILED, part.state.errors[0]
    if part.host.silent_s_max > CUT_S:
        return HostState.CUT, f"its link was lost for {part.host.silent_s_max:.1f} s"
    if lag_us_p99 is not None and lag_us_p99 > BEHIND_US:
        return HostState.BEHIND, f"schedule lag p99 {lag_us_p99 / 1e3:,.0f} ms, the limit is {BEHIND_US / 1e3:,.0f} ms"
    unsent = sum(report.unsent - report.unsent_for_space for report in part.reports)
    sent = sum(end.high_seq + 1 for report in part.reports for end in report.producers)
    if unsent > BEHIND_SHARE * (sent + unsent):
        return HostState.BEHIND, f"{unsent:,} of {sent + unsent:,} records were not sent in time"
    return HostState.DONE, ""

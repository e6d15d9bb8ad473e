"""The course of one cell's load: connect, warm-up, measure, drain, done; each wait has an end.

Emits the events that `docs/internals/contracts.md` lists and writes progress and client metrics to the cell's
stats.jsonl.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent

from runlog.files.clock import RunClock
from runlog.files.paths import events_path
from runlog.records.lines import STATS, RecordWriter
from runlog.records.load import LoadError, LoadEvent, LoadPhase, PhaseBegan, ProgressTold
from runlog.records.stats import WORKLOADS, ClientSample, HealthSample, ProgressSample
from workloads import web
from workloads.context import Phases
from workloads.fleet import Fleet
from workloads.load_process import LOOK_S, TELL_INTERVAL_S
from workloads.model import Plan
from workloads.producer import CLOSE_TIMEOUT_S
from workloads.readiness import LoadFailed, have_read, wait_ready
from workloads.reports import merge_client_metrics, merge_reports, progress_of

Emit = Callable[[LoadEvent], None]


class Conductor:
    """Runs a fleet through the phases, once. `request_stop` may be called at any time from the main thread."""

    def __init__(self, plan: Plan, fleet: Fleet, emit: Emit) -> None:
        self._plan = plan
        self._fleet = fleet
        self._emit = emit
        self._clock = RunClock(t0_monotonic_ns=plan.t0_monotonic_ns)
        self._readers_inside = sum(not reader.own_processes for reader in plan.workload.reader_groups)
        self._stop_requested = False
        self._next_progress_s = 0.0
        self._stats = RecordWriter(events_path(plan.run_dir, plan.cell_id, "stats"), STATS)
        self._errors_told: set[str] = set()

    def request_stop(self) -> None:
        """Stop producing now, drain, finish normally."""
        self._stop_requested = True

    def run(self) -> None:
        """LoadFailed when no load could be run; what happens to single users later is told by `error` events."""
        end_web: Callable[[], None] | None = None
        try:
            if self._plan.web_port is not None:
                end_web = web.serve(self._fleet.environment, self._plan.web_port, self.request_stop)
            self._phase(LoadPhase.CONNECT)
            self._fleet.start_users()
            if self._wait_ready():
                self._send_and_drain()
            self._finish()
        finally:
            if end_web is not None:
                end_web()
            self._stats.close()
            self._fleet.quit()

    def _wait_ready(self) -> bool:
        users = len(self._plan.producers_here) + len(self._plan.consumers_here)
        try:
            is_ready = wait_ready(
                self._fleet.state,
                users,
                is_stopped=lambda: self._stop_requested,
                now_s=time.monotonic,
                pause=lambda: gevent.sleep(LOOK_S),
            )
        except LoadFailed:
            self._fleet.stop_sending(time.monotonic_ns())
            self._fleet.stop_receiving()
            raise
        if not is_ready:
            self._fleet.stop_sending(time.monotonic_ns())
        return is_ready

    def _send_and_drain(self) -> None:
        phases = Phases.of(self._plan, time.monotonic_ns() + self._fleet.start_delay_ms * 1_000_000)
        self._fleet.begin(phases)
        drain_deadline_ns = phases.drain_end_ns
        for phase, start_ns, end_ns in (
            (LoadPhase.WARMUP, phases.start_ns, phases.measure_ns),
            (LoadPhase.MEASURE, phases.measure_ns, phases.end_ns),
        ):
            if not self._wait_until(start_ns):
                break
            self._phase(phase, start_ns)
            if not self._wait_until(end_ns):
                break
        if self._stop_requested:
            drain_deadline_ns = time.monotonic_ns() + self._plan.workload.drain_ms * 1_000_000
            self._fleet.stop_sending(drain_deadline_ns)
        self._phase(LoadPhase.DRAIN, None if self._stop_requested else phases.end_ns)
        self._drain(drain_deadline_ns)

    def _drain(self, deadline_ns: int) -> None:
        stop_told = self._stop_requested
        close_deadline_s = deadline_ns / 1e9 + CLOSE_TIMEOUT_S + 2.0
        while self._fleet.state().producing and time.monotonic() < close_deadline_s:
            if self._stop_requested and not stop_told:
                stop_told = True
                self._fleet.stop_sending(deadline_ns)
            self._progress()
            gevent.sleep(LOOK_S)
        produced_us = self._clock.now_us()
        while (state := self._fleet.state()).consuming and time.monotonic_ns() < deadline_ns:
            idle_us = self._clock.now_us() - max(state.last_received_us, produced_us)
            if have_read(state, self._readers_inside, idle_us=idle_us):
                break
            self._progress()
            gevent.sleep(LOOK_S)
        self._fleet.stop_receiving()
        consumers_deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        while self._fleet.state().consuming and time.monotonic() < consumers_deadline_s:
            gevent.sleep(LOOK_S)

    def _finish(self) -> None:
        self._fleet.settle()
        self._progress(now=True)
        reports = self._fleet.reports()
        t_us = self._clock.now_us()
        done = merge_reports(reports, t_us=t_us)
        client = {"final": True, **merge_client_metrics(reports)}
        self._stats.append(ClientSample.of(t_us, WORKLOADS, client))
        self._stats.append(HealthSample(t_us=t_us, source=WORKLOADS, values=done.health))
        self._phase(LoadPhase.DONE)
        self._emit(done)

    def _wait_until(self, mono_ns: int) -> bool:
        """False as soon as a stop is asked for, or when every producer is gone."""
        while (left_s := (mono_ns - time.monotonic_ns()) / 1e9) > 0:
            if self._stop_requested:
                return False
            self._progress()
            gevent.sleep(min(left_s, LOOK_S))
        return not self._stop_requested

    def _progress(self, *, now: bool = False) -> None:
        if not now and time.monotonic() < self._next_progress_s:
            return
        self._next_progress_s = time.monotonic() + TELL_INTERVAL_S
        state = self._fleet.state()
        progress, t_us = progress_of(state, self._readers_inside), self._clock.now_us()
        self._emit(ProgressTold(t_us=t_us, progress=progress))
        self._stats.append(ProgressSample(t_us=t_us, source=WORKLOADS, values=progress))
        if state.client:
            self._stats.append(ClientSample.of(t_us, WORKLOADS, state.client))
        for message in state.errors:
            if message not in self._errors_told:
                self._errors_told.add(message)
                self._emit(LoadError(message=message, fatal=False))

    def _phase(self, phase: LoadPhase, mono_ns: int | None = None) -> None:
        """Announce a phase with its exact start, which is at most a few milliseconds ago."""
        t_us = self._clock.now_us() if mono_ns is None else self._clock.to_us(mono_ns)
        self._emit(PhaseBegan(phase=phase, t_us=t_us))

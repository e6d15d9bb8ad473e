"""Where the users run: in this process, or in worker processes under a Locust master on loopback.

Both offer the conductor the same six calls. Messages between master and workers are Locust's own; their names begin
with `load_`. A worker ends when the pipe to its stdin closes, so none outlives its master.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict
from typing import Any, Protocol

import gevent
from locust.env import Environment

from workloads.context import Phases
from workloads.load_process import LOOK_S, TELL_INTERVAL_S, LoadProcess
from workloads.model import Plan
from workloads.reports import LoadReport, LoadState, merge_states
from workloads.users import user_classes

LOOPBACK = "127.0.0.1"
WORKERS_TIMEOUT_S = 30.0
REPORT_TIMEOUT_S = 5.0
START_DELAY_MS = 200


class FleetError(RuntimeError):
    """Worker processes did not start or did not answer."""


class Fleet(Protocol):
    start_delay_ms: int  # from "all are ready" to the first send, so that every process hears of it in time

    def start_users(self) -> None: ...

    def begin(self, phases: Phases) -> None: ...

    def stop_sending(self, drain_deadline_ns: int) -> None: ...

    def stop_receiving(self) -> None: ...

    def state(self) -> LoadState:
        """Sums over all processes, at most half a second old."""

    def settle(self) -> None:
        """Waits until `state` includes the last rows too. Call it after the last write."""

    def reports(self) -> list[LoadReport]: ...

    def quit(self) -> None: ...

    @property
    def environment(self) -> Any:
        """Locust's, with the runner whose figures are those of the whole cell."""


def make_environment(plan: Plan) -> Any:
    """Locust's Environment, which has no usable types."""
    classes = user_classes(len(plan.producers_here), len(plan.consumers_here))
    return Environment(user_classes=classes, stop_timeout=None, catch_exceptions=True)


def user_count(plan: Plan) -> int:
    return len(plan.producers_here) + len(plan.consumers_here)


class LocalFleet:
    """All users in this process."""

    start_delay_ms = START_DELAY_MS

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.environment = make_environment(plan)
        self._runner = self.environment.create_local_runner()
        self._process = LoadProcess(plan, self.environment)

    def start_users(self) -> None:
        count = user_count(self._plan)
        self._runner.start(count, spawn_rate=count)

    def begin(self, phases: Phases) -> None:
        self._process.begin(phases)

    def stop_sending(self, drain_deadline_ns: int) -> None:
        self._process.context.stop_sending(drain_deadline_ns)

    def stop_receiving(self) -> None:
        self._process.context.receiving_stopped.set()

    def state(self) -> LoadState:
        self._process.fold()
        return self._process.state()

    def settle(self) -> None:
        self._process.fold(everything=True)

    def reports(self) -> list[LoadReport]:
        self._process.fold(everything=True)
        return [self._process.report()]

    def quit(self) -> None:
        self._process.health.stop()
        self._runner.quit()


class WorkerFleet:
    """Users spread by a Locust master over `processes` workers that it starts itself."""

    start_delay_ms = START_DELAY_MS

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.environment = make_environment(plan)
        # Port 0 would do for ZeroMQ but Locust does not tell which port it got.
        self._port = _free_port()
        self._runner = self.environment.create_master_runner(LOOPBACK, self._port)
        self._states: dict[str, LoadState] = {}
        self._reports: dict[str, LoadReport] = {}
        self._runner.register_message("load_state", self._on_state)
        self._runner.register_message("load_report", self._on_report)
        self._workers: list[subprocess.Popen[bytes]] = []

    def start_users(self) -> None:
        plan_line = self._plan.model_dump_json().encode() + b"\n"
        for number in range(self._plan.processes_here):
            command = [sys.executable, "-m", "workloads", "--worker", str(self._port), str(number)]
            worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            self._workers.append(worker)
            assert worker.stdin is not None
            worker.stdin.write(plan_line)
            worker.stdin.flush()
        deadline = time.monotonic() + WORKERS_TIMEOUT_S
        while self._runner.worker_count < len(self._workers):
            if time.monotonic() > deadline or any(worker.poll() is not None for worker in self._workers):
                raise FleetError(f"{self._runner.worker_count} of {len(self._workers)} load processes started")
            gevent.sleep(0.05)
        count = user_count(self._plan)
        self._runner.start(count, spawn_rate=count)

    def begin(self, phases: Phases) -> None:
        self._runner.send_message("load_begin", asdict(phases))

    def stop_sending(self, drain_deadline_ns: int) -> None:
        self._runner.send_message("load_stop_sending", {"drain_deadline_ns": drain_deadline_ns})

    def stop_receiving(self) -> None:
        self._runner.send_message("load_stop_receiving", {})

    def state(self) -> LoadState:
        whole = merge_states(list(self._states.values()))
        died = [worker.returncode for worker in self._workers if worker.poll() is not None]
        if not died:
            return whole
        error = f"{len(died)} load process(es) ended early, exit codes {died}"
        return whole.model_copy(update={"errors": (*whole.errors, error)})

    def settle(self) -> None:
        gevent.sleep(TELL_INTERVAL_S)  # each worker tells its state twice in that time

    def reports(self) -> list[LoadReport]:
        """One report from each worker that answers in time. The report of a dead worker is missing, but its rows are
        not."""
        self._runner.send_message("load_report_request", {})
        deadline = time.monotonic() + REPORT_TIMEOUT_S
        alive = sum(worker.poll() is None for worker in self._workers)
        while len(self._reports) < alive and time.monotonic() < deadline:
            gevent.sleep(0.02)
        return list(self._reports.values())

    def quit(self) -> None:
        self._runner.quit()
        for worker in self._workers:
            if worker.stdin is not None:
                worker.stdin.close()
        deadline = time.monotonic() + REPORT_TIMEOUT_S
        for worker in self._workers:
            while worker.poll() is None and time.monotonic() < deadline:
                gevent.sleep(0.02)
            if worker.poll() is None:
                worker.kill()
            worker.wait()

    def _on_state(self, msg: Any, **_rest: Any) -> None:
        self._states[msg.node_id] = LoadState.model_validate(msg.data)

    def _on_report(self, msg: Any, **_rest: Any) -> None:
        self._reports[msg.node_id] = LoadReport.model_validate(msg.data)


def run_worker(plan: Plan, port: int, stdin_closed: Any) -> None:
    """The body of a worker process. `stdin_closed()` tells when the master is gone."""
    environment = make_environment(plan)
    runner = environment.create_worker_runner(LOOPBACK, port)
    process = LoadProcess(plan, environment)
    context = process.context
    runner.register_message("load_begin", lambda msg, **_rest: process.begin(Phases(**msg.data)))
    runner.register_message(
        "load_stop_sending", lambda msg, **_rest: context.stop_sending(msg.data["drain_deadline_ns"])
    )
    runner.register_message("load_stop_receiving", lambda **_rest: context.receiving_stopped.set())

    def report(**_rest: Any) -> None:
        process.fold(everything=True)
        runner.send_message("load_report", process.report().model_dump())

    runner.register_message("load_report_request", report)
    next_tell_s = 0.0
    while not stdin_closed():
        process.fold()
        if time.monotonic() >= next_tell_s:
            next_tell_s = time.monotonic() + TELL_INTERVAL_S / 2
            runner.send_message("load_state", process.state().model_dump())
        gevent.sleep(LOOK_S)
    context.stop_sending(time.monotonic_ns())
    context.receiving_stopped.set()
    runner.quit()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port

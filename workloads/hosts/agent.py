"""`python -m workloads --agent`: a load host's end of the link. Started by `harness worker`, which it never outlives.

It presents itself to whatever master is there, answers questions for its clock at once, starts the share of each cell
as a process of its own, and hands over the run log from its spool. Everything heavy is in other processes, so that the
answers for the clock do not wait. Shown by tests/workloads/test_workloads_hosts.py.

Stdin: one line of configuration, then answers of `harness worker`. Stdout: what it says to `harness worker`.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gevent
from locust.env import Environment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.wire.addresses import format_address
from workloads.hosts import wire
from workloads.hosts.depot_process import DepotProcess
from workloads.hosts.keys import key_of
from workloads.hosts.link import AgentRunner, use_curve
from workloads.hosts.spool import Spool, SpoolError
from workloads.model import Plan, Share

HELLO_S: Final = 2.0
TICK_S: Final = 0.01
SILENT_S: Final = 60.0  # a cell whose master was not heard of for so long is stopped; its run log stays
REGISTER_S: Final = 5.0
QUIET_END_S: Final = 15.0
LINES_MAX: Final = 10_000  # of a share that nobody reads
OUT_S: Final = 180.0  # for a broker to start, and for a load process beyond its phases; seconds on an idle host
EXIT_REFUSED: Final = 3
_SHARE: Final = ("--share",)


class AgentConfig(BaseModel):
    """What `harness worker` tells its agent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master_host: str
    master_port: int = Field(ge=1, le=65_535)
    key: dict[str, str]
    name: wire.Name
    version: str
    spool: Path
    access: dict[str, str] = Field(default_factory=dict)  # --client-config: what the cluster asks of its clients
    runtimes: dict[str, dict[str, str]]  # of the clients that work here
    store: str = ""  # --store: where run logs are put instead of sending them over the link


class _Share:
    """A process `python -m workloads --share` or, to measure a ceiling, `python -m workloads`."""

    def __init__(self, mode: tuple[str, ...]) -> None:
        self._on_line: Callable[[dict[str, Any]], None] = _ignore
        self._lines: deque[bytes] = deque(maxlen=LINES_MAX)
        command = [sys.executable, "-m", "workloads", *mode]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def begin(self, plan: Plan, on_line: Callable[[dict[str, Any]], None]) -> None:
        self._on_line = on_line
        self.say(plan.model_dump(mode="json"))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    def say(self, document: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(document, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()

    def step(self) -> None:
        while self._lines:
            with contextlib.suppress(ValueError):
                self._on_line(json.loads(self._lines.popleft()))

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        """Let it finish its files; after a while, make it end."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        deadline_s = time.monotonic() + QUIET_END_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            gevent.sleep(0.02)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def _ignore(_line: dict[str, Any]) -> None:
    """Of a share that has no plan yet."""


class Agent:
    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._spool = Spool(config.spool)
        self._depot = DepotProcess(config.store, config.spool, config.name, self._spool, self._say)
        self._share: _Share | None = None
        self._standby: _Share | None = _Share(_SHARE)  # its imports take a second of CPU: while nothing is measured
        self._cell: wire.OfCell | None = None
        self._is_ending = False
        self._heard_s = time.monotonic()
        self._next_hello_s = 0.0
        self._next_register_s = time.monotonic() + REGISTER_S
        self._run_id = ""
        self._answers: deque[dict[str, Any]] = deque(maxlen=100)  # of `harness worker`
        self._certifying: gevent.Greenlet | None = None
        self._exit: int | None = None
        use_curve(key_of(config.key))
        self._is_connected = False
        threading.Thread(target=self._read_answers, daemon=True).start()
        self._say(f"waiting for a master at {format_address(config.master_host, config.master_port)}")
        environment: Any = Environment(user_classes=[])
        self._runner = self._connected(environment)

    def _connected(self, environment: Any) -> AgentRunner:
        """A master may come much later: as long as it takes."""
        while True:
            with contextlib.suppress(ConnectionError, RecursionError):
                runner = AgentRunner(environment, self._config.master_host, self._config.master_port, self._on_message)
                environment.runner = runner
                self._is_connected = True
                return runner

    def run(self) -> int:
        while self._exit is None:
            self._step()
            gevent.sleep(TICK_S)
        self._end_share()
        if self._standby is not None:
            self._standby.end()
        self._depot.close()
        return self._exit

    def _step(self) -> None:
        now_s = time.monotonic()
        if self._share is not None:
            self._share.step()
            code = self._share.exit_code
            if code is not None and not self._is_ending:
                self._problem(f"its load process ended with exit code {code}")
                self._share = None
                self._depot.share_ended()
        if now_s >= self._next_hello_s:
            self._next_hello_s = now_s + HELLO_S
            self._tell(wire.HELLO, self._hello())
        if now_s - self._heard_s > REGISTER_S and now_s >= self._next_register_s:
            self._next_register_s = now_s + REGISTER_S
            self._runner.register()
        if self._share is not None and now_s - self._heard_s > SILENT_S:
            self._say(f"the master was silent for {SILENT_S:.0f} s: the cell was stopped, its run log is kept")
            self._end_share()

    def _hello(self) -> wire.Hello:
        return wire.Hello(
            name=self._config.name,
            version=self._config.version,
            python=platform.python_version(),
            cores=len(os.sched_getaffinity(0)),
            clients=tuple(sorted(self._config.runtimes)),
            cell="" if self._cell is None or self._share is None else self._cell.cell_id,
        )

    # --- what the master says ---------------------------------------------------------------------------------------

    def _on_message(self, _client_id: str, kind: str, data: Any) -> None:
        received_ns = time.monotonic_ns()
        if kind == wire.CLOCK:
            self._answer_clock(data, received_ns)
            return
        self._heard_s = time.monotonic()
        try:
            self._take(kind, data)
        except ValidationError as error:
            self._problem(f"a message of its master was refused: {wire.words_of(error)}")
        except (OSError, SpoolError) as error:
            self._problem(str(error))

    def _answer_clock(self, data: Any, received_ns: int) -> None:
        number = data.get("number") if isinstance(data, dict) else None
        if isinstance(number, int) and 0 <= number <= 2**53:
            self._heard_s = time.monotonic()
            answer = {"number": number, "received_ns": received_ns, "sent_ns": time.monotonic_ns()}
            self._runner.tell(wire.CLOCK, answer)

    def _take(self, kind: str, data: Any) -> None:
        match kind:
            case wire.WELCOME:
                self._on_welcome(wire.Welcome.model_validate(data))
            case wire.REFUSED:
                self._say(wire.Refused.model_validate(data).reason)
                self._exit = EXIT_REFUSED
            case wire.PLAN:
                self._on_plan(wire.SharePlan.model_validate(data))
            case wire.BEGIN:
                self._command("begin", phases=wire.BeginAt.model_validate(data).model_dump())
            case wire.STOP_SENDING:
                self._command("stop_sending", **wire.StopSending.model_validate(data).model_dump())
            case wire.STOP_RECEIVING:
                self._command("stop_receiving")
            case wire.ASK_REPORT:
                self._command("report")
            case wire.END:
                gevent.spawn(self._end_share)
            case wire.FILES:
                cell = wire.OfCell.model_validate(data)
                is_running = self._share is not None and cell == self._cell
                self._tell(wire.FILES, self._depot.mark(self._spool.files(cell, is_running=is_running)))
            case wire.CHUNK:
                self._tell(wire.CHUNK, self._spool.chunk(wire.AskChunk.model_validate(data)))
            case wire.FORGET:
                cell = wire.OfCell.model_validate(data)
                self._spool.forget(cell)
                self._tell(wire.FILES, self._spool.files(cell, is_running=False))
            case wire.CERTIFY:
                self._on_certify(wire.Certify.model_validate(data))

    def _on_welcome(self, welcome: wire.Welcome) -> None:
        problem = wire.version_problem(self._config.name, self._config.version, welcome.version)
        if problem:
            self._say(problem)
            self._exit = EXIT_REFUSED
        elif welcome.run_id != self._run_id:
            self._run_id = welcome.run_id
            self._say(f"taken by {welcome.run_id}")
            gevent.spawn(self._end_share)

    def _on_plan(self, plan: wire.SharePlan) -> None:
        cell = wire.OfCell(run_id=plan.run_id, cell_id=plan.cell_id)
        if self._share is not None and cell == self._cell:
            return  # it was asked again, because the answer was late
        if self._share is not None or self._is_ending:
            return  # the one before still ends; the master asks again
        _print({"ask": "release"})
        self._cell = cell
        full = self._full_plan(plan, self._spool.prepare(cell))
        self._depot.begin(cell, plan.store)
        self._share, self._standby = self._standby or _Share(_SHARE), None
        self._share.begin(full, self._on_share_line)

    def _full_plan(self, plan: wire.SharePlan, run_dir: Path) -> Plan:
        """ValueError if the client does not work here."""
        if plan.client not in self._config.runtimes:
            raise SpoolError(f"client {plan.client} is not installed on load host {self._config.name}")
        return Plan(
            run_dir=run_dir,
            cell_id=plan.cell_id,
            t0_monotonic_ns=plan.t0_monotonic_ns,
            harness_t0_ns=plan.harness_t0_ns,
            client=plan.client,
            bootstrap_servers=plan.bootstrap_servers,
            topic=plan.topic,
            partitions=plan.partitions,
            properties={**self._config.access, **plan.properties},
            consumer_properties=self._config.access,
            workload=plan.workload,
            seed=plan.seed,
            log_append_time=plan.log_append_time,
            runtime=self._config.runtimes[plan.client],
            share=Share(producers=plan.share.producers, consumers=plan.share.consumers),
        )

    def _command(self, do: str, **more: Any) -> None:
        if self._share is not None:
            self._share.say({"do": do, **more})

    def _on_share_line(self, line: dict[str, Any]) -> None:
        cell_id = "" if self._cell is None else self._cell.cell_id
        if line.get("kind") == "state":
            self._runner.tell(wire.STATE, {"cell_id": cell_id, "done": line["done"], "state": line["state"]})
        elif line.get("kind") == "report":
            self._runner.tell(wire.REPORT, {"cell_id": cell_id, "reports": line["reports"]})
        elif line.get("kind") == "problem":
            self._problem(str(line.get("message")))

    def _end_share(self) -> None:
        share = self._share
        if share is None or self._is_ending:
            return
        self._is_ending = True
        try:
            share.end()
        finally:
            self._share = None
            self._is_ending = False
            self._depot.share_ended()
        if self._standby is None and self._exit is None:
            self._standby = _Share(_SHARE)

    # --- its ceiling ------------------------------------------------------------------------------------------------

    def _on_certify(self, ask: wire.Certify) -> None:
        if self._certifying is None or self._certifying.dead:
            self._certifying = gevent.spawn(self._certify, ask)

    def _certify(self, ask: wire.Certify) -> None:
        """Its load processes against a broker on its own loopback that stores nothing."""
        topic = f"ceiling-{ask.number}"
        cell = wire.OfCell(run_id=ask.plan.run_id, cell_id=topic)
        try:
            answer = self._ask_worker({"ask": "broker", "topic": topic, "partitions": ask.plan.partitions})
            plan = self._full_plan(ask.plan, self._spool.prepare(cell)).model_copy(
                update={
                    "cell_id": topic, "topic": topic, "bootstrap_servers": answer["bootstrap_servers"],
                    "properties": dict(ask.plan.properties), "consumer_properties": {},
                    "t0_monotonic_ns": time.monotonic_ns(), "harness_t0_ns": None,
                }
            )  # fmt: skip
            ceiling = self._measured(ask.number, plan)
        except (SpoolError, OSError, ValidationError, KeyError, TimeoutError) as error:
            ceiling = wire.Ceiling(number=ask.number, records_per_s=0.0, why=str(error)[:500] or type(error).__name__)
        finally:
            self._spool.forget(cell)
        self._tell(wire.CEILING, ceiling)

    def _measured(self, number: int, plan: Plan) -> wire.Ceiling:
        found: dict[str, Any] = {}
        began: dict[str, int] = {}

        def on_line(line: dict[str, Any]) -> None:
            if line.get("event") == "phase":
                began[str(line["phase"])] = int(line["t_us"])
            elif line.get("event") in ("done", "error"):
                found.setdefault("end", line)

        workload = plan.workload
        load = _Share(())
        load.begin(plan, on_line)
        limit_s = (workload.warmup_ms + workload.measure_ms + workload.drain_ms) / 1000 + OUT_S
        deadline_s = time.monotonic() + limit_s
        try:
            while "end" not in found and load.exit_code is None and time.monotonic() < deadline_s:
                load.step()
                gevent.sleep(TICK_S)
            load.step()
        finally:
            load.end()
        end = found.get("end", {})
        health = end.get("health") or {}
        measured = (health.get("stages") or {}).get("intended_to_ack")
        seconds = (began.get("drain", 0) - began.get("measure", 0)) / 1e6
        if not measured or seconds <= 0:
            raise TimeoutError(str(end.get("message") or "nothing was acknowledged in the measured window"))
        return wire.Ceiling(
            number=number,
            records_per_s=round(measured["n"] / seconds, 1),
            cpu_share_by_process=tuple(health.get("cpu_share_by_process") or ()),
        )

    def _ask_worker(self, question: dict[str, Any]) -> dict[str, Any]:
        self._answers.clear()
        _print(question)
        deadline_s = time.monotonic() + OUT_S
        while not self._answers:
            if time.monotonic() > deadline_s:
                raise TimeoutError("no broker for the ceiling could be started")
            gevent.sleep(TICK_S)
        answer = self._answers.popleft()
        if "problem" in answer:
            raise SpoolError(str(answer["problem"]))
        return answer

    def _read_answers(self) -> None:
        for line in sys.stdin:
            self._answers.append(json.loads(line))
        self._exit = 0  # `harness worker` has ended
        if not self._is_connected:  # the main thread waits inside of Locust, for a master
            os._exit(0)

    # --- saying -----------------------------------------------------------------------------------------------------

    def _tell(self, kind: str, message: BaseModel) -> None:
        self._runner.tell(kind, message.model_dump(mode="python"))

    def _problem(self, text: str) -> None:
        cell_id = "" if self._cell is None else self._cell.cell_id
        self._say(text)
        self._tell(wire.PROBLEM, wire.Problem(cell_id=cell_id, message=text[: wire.PROBLEM_CHARACTERS_MAX]))

    def _say(self, text: str) -> None:
        _print({"say": text})


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def run_agent(line: str) -> int:
    return Agent(AgentConfig.model_validate_json(line)).run()

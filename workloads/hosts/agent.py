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
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

import gevent
from locust.env import Environment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.door.addresses import format_address
from workloads.hosts import wire
from workloads.hosts.codec import LOAD_MASTER_SAYS, WireError, decode
from workloads.hosts.depot_process import DepotProcess
from workloads.hosts.keys import key_of
from workloads.hosts.link import AgentRunner, use_curve
from workloads.hosts.may_connect import refusal
from workloads.hosts.share_process import ShareProcess
from workloads.hosts.spool import Spool, SpoolError
from workloads.model import Plan, Share

HELLO_S: Final = 2.0
TICK_S: Final = 0.01
SILENT_S: Final = 60.0  # a cell whose master was not heard of for so long is stopped; its run log stays
REGISTER_S: Final = 5.0
# A broker starts within it, and a load process ends within it after its phases. It counts seconds of an idle host.
OUT_S: Final = 180.0
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
    may_connect: tuple[str, ...] = ()  # --may-connect: where clients may log in with that; empty: nobody has said
    runtimes: dict[str, dict[str, str]]  # The key is a client that works here.
    store: str = ""  # --store: where run logs are put instead of sending them over the link


class Agent:
    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._spool = Spool(config.spool)
        self._depot = DepotProcess(config.store, config.spool, config.name, self._spool, self._say)
        self._share: ShareProcess | None = None
        # Its imports take a second of CPU: while nothing is measured.
        self._standby: ShareProcess | None = ShareProcess(_SHARE)
        self._cell: wire.OfCell | None = None
        self._is_ending = False
        self._heard_s = time.monotonic()
        self._next_hello_s = 0.0
        self._next_register_s = time.monotonic() + REGISTER_S
        self._run_id = ""
        self._answers: deque[dict[str, Any]] = deque(maxlen=100)  # They are those of `harness worker`.
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
                host, port = self._config.master_host, self._config.master_port
                runner = AgentRunner(environment, host, port, self._on_message, LOAD_MASTER_SAYS)
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
            self._runner.tell(self._hello())
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
        try:
            message = decode(kind, data, LOAD_MASTER_SAYS)
        except WireError as error:
            if kind == wire.ClockQuestion.KIND:
                raise  # to the log of the link: there is nothing to answer
            self._heard_s = time.monotonic()
            self._problem(f"a message of its master was refused: {error}")
            return
        self._heard_s = time.monotonic()
        if isinstance(message, wire.ClockQuestion):
            self._runner.tell(
                wire.ClockAnswer(number=message.number, received_ns=received_ns, sent_ns=time.monotonic_ns())
            )
            return
        try:
            self._take(message)
        except ValidationError as error:
            self._problem(f"a message of its master was refused: {wire.words_of(error)}")
        except (OSError, SpoolError) as error:
            self._problem(str(error))

    def _take(self, message: wire.Message) -> None:
        match message:
            case wire.Welcome():
                self._on_welcome(message)
            case wire.Refused():
                self._say(message.reason)
                self._exit = EXIT_REFUSED
            case wire.SharePlan():
                self._on_plan(message)
            case wire.BeginAt():
                self._command("begin", phases=message.model_dump())
            case wire.StopSending():
                self._command("stop_sending", **message.model_dump())
            case wire.StopReceiving():
                self._command("stop_receiving")
            case wire.AskReport():
                self._command("report")
            case wire.End():
                gevent.spawn(self._end_share)
            case wire.AskFiles():
                is_running = self._share is not None and message.cell == self._cell
                self._runner.tell(self._depot.mark(self._spool.files(message.cell, is_running=is_running)))
            case wire.AskChunk():
                self._runner.tell(self._spool.chunk(message))
            case wire.Forget():
                self._spool.forget(message.cell)
                self._runner.tell(self._spool.files(message.cell, is_running=False))
            case wire.Certify():
                self._on_certify(message)

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
        may_connect = self._config.may_connect
        if may_connect and (problem := refusal(self._config.name, plan.bootstrap_servers, may_connect)):
            raise SpoolError(problem)
        _print({"ask": "release"})
        self._cell = cell
        full = self._full_plan(plan, self._spool.prepare(cell))
        self._depot.begin(cell, plan.store)
        self._share, self._standby = self._standby or ShareProcess(_SHARE), None
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
        try:
            match line.get("kind"):
                case "state":
                    self._runner.tell(wire.StateTold(cell_id=cell_id, done=line["done"], state=line["state"]))
                case "report":
                    self._runner.tell(wire.ReportTold(cell_id=cell_id, reports=line["reports"]))
                case "problem":
                    self._problem(str(line.get("message")))
        except ValidationError as error:
            self._problem(f"its load process said what cannot be passed on: {wire.words_of(error)}")

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
            self._standby = ShareProcess(_SHARE)

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
        self._runner.tell(ceiling)

    def _measured(self, number: int, plan: Plan) -> wire.Ceiling:
        found: dict[str, Any] = {}
        began: dict[str, int] = {}

        def on_line(line: dict[str, Any]) -> None:
            if line.get("event") == "phase":
                began[str(line["phase"])] = int(line["t_us"])
            elif line.get("event") in ("done", "error"):
                found.setdefault("end", line)

        workload = plan.workload
        load = ShareProcess(())
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

    def _problem(self, text: str) -> None:
        cell_id = "" if self._cell is None else self._cell.cell_id
        self._say(text)
        self._runner.tell(wire.Problem(cell_id=cell_id, message=text[: wire.PROBLEM_CHARACTERS_MAX]))

    def _say(self, text: str) -> None:
        _print({"say": text})


def _print(document: dict[str, Any]) -> None:
    """If `harness worker` has ended, nobody reads it. The share must still end with all of its files."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()


def run_agent(line: str) -> int:
    return Agent(AgentConfig.model_validate_json(line)).run()

"""`python -m workloads --hub`: the harness's end of the link to load hosts, for a whole run.

It is Locust's master, runs the cells one after another with the same conductor as a load on this host, asks the hosts
for their clocks all along, and writes what it gathers into the run directory. One line of configuration on stdin, then
commands; events on stdout, as those of any load process. It ends when its stdin does.
Shown by tests/workloads/test_workloads_hosts.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import gevent
from locust.env import Environment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runlog.files.paths import events_path
from runlog.quality.clock_bound import ClockBoundError, no_bound
from runlog.records.hosts import HostState, LoadHostRecord
from runlog.records.lines import STATS, RecordWriter
from runlog.records.load import CeilingsTold, HostCeiling, HostsTold, LoadError, LoadEvent, Ready
from workloads.conductor import Conductor
from workloads.fleet import FleetError
from workloads.hosts import wire
from workloads.hosts.codec import LOAD_HOST_SAYS, WireError, decode
from workloads.hosts.hosts_fleet import HostsFleet
from workloads.hosts.keys import key_of
from workloads.hosts.late import LateGathering
from workloads.hosts.link import HubRunner, LinkError, use_curve
from workloads.hosts.registry import Host, Registry
from workloads.hosts.spread import spread
from workloads.model import Plan
from workloads.readiness import LoadFailed

CLOCK_S: Final = 0.25
AFTER_CELL_ROUNDS: Final = 8  # questions for the clock once a cell is over
AFTER_CELL_S: Final = 0.6
TICK_S: Final = 0.02
FORGET_S: Final = 4.0  # The hosts say within it that they have forgotten a cell. Else it stays there.
FORGET_AGAIN_S: Final = 1.0
CEILING_S: Final = 420.0  # both limits of a host (agent.py), and some more
HOST_MESSAGES_PER_S_MAX: Final = 2_000  # One host may send no more. What is beyond is left out.

Emit = Callable[[LoadEvent], None]


class HubConfig(BaseModel):
    """What the harness tells its hub."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen_host: str
    listen_port: int = Field(ge=1, le=65_535)
    key: dict[str, str]
    version: str
    run_id: wire.Place
    t0_monotonic_ns: int
    store: wire.StoreToken = ""


class Hub:
    def __init__(self, config: HubConfig, emit: Emit) -> None:
        self._config, self._emit = config, emit
        self._commands: deque[dict[str, Any]] = deque()
        self._fleet: HostsFleet | None = None
        # What the hosts may forget when the harness says so; all of one cell.
        self._gathered: list[HostsFleet | LateGathering] = []
        self._late: LateGathering | None = None
        self._unforgotten: set[str] = set()
        self._is_stopping = False
        self._conductor: Conductor | None = None
        self._ceilings: dict[tuple[str, int], wire.Ceiling] = {}
        self._certified = 0
        self._is_over = False
        self._counts: dict[str, tuple[int, int]] = {}  # client -> (second, messages in it)
        use_curve(key_of(config.key))
        self._environment: Any = Environment(user_classes=[])
        self._runner = HubRunner(
            self._environment, config.listen_host, config.listen_port, self._on_message, LOAD_HOST_SAYS
        )
        self._environment.runner = self._runner
        self._registry = Registry(run_id=config.run_id, version=config.version, tell=self._runner.tell)
        self._registry.t0_monotonic_ns = config.t0_monotonic_ns

    def run(self) -> None:
        threading.Thread(target=self._read_commands, daemon=True).start()
        gevent.spawn(self._ask_clocks)
        self._emit(Ready())
        while not self._is_over:
            while self._commands and not self._is_over:
                self._carry_out(self._commands.popleft())
            gevent.sleep(TICK_S)
        self._runner.quit()

    def request_stop(self) -> None:
        self._is_stopping = True
        if self._conductor is not None:
            self._conductor.request_stop()

    def _read_commands(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "stop":  # while a cell runs, nobody takes commands
                self.request_stop()
            else:
                self._commands.append(command)
        self.request_stop()
        self._commands.append({"do": "end"})

    def _ask_clocks(self) -> None:
        while True:
            self._registry.ask_clocks()
            gevent.sleep(CLOCK_S)

    def _carry_out(self, command: dict[str, Any]) -> None:
        match command["do"]:
            case "hosts":
                self._emit(self._present())
            case "cell":
                self._run_cell(command["plan"])
            case "certify":
                self._certify(command["plan"])
            case "gather":
                self._gather(Path(command["run_dir"]), command["cell_id"], command["hosts"])
            case "forget":
                self._forget(frozenset(command.get("but", ())))
            case "end":
                self._is_over = True

    def _present(self) -> HostsTold:
        """Who is there now, each with what is known of its clock."""
        hosts = []
        for host in self._registry.alive():
            try:
                now_ns = time.monotonic_ns()
                bound = host.clock(now_ns)
                clock = bound.over(now_ns, now_ns, used_offset_ns=round(bound.at(now_ns).offset_ns))
            except ClockBoundError as error:
                clock = no_bound(str(error))
            hosts.append(
                LoadHostRecord(
                    name=host.name,
                    state=HostState.DONE,
                    version=host.hello.version,
                    cores=host.hello.cores,
                    clock=clock,
                )
            )
        return HostsTold(hosts=tuple(hosts), refused=tuple(sorted(self._registry.refused.values())))

    # --- a cell -------------------------------------------------------------------------------------------------------

    def _run_cell(self, document: dict[str, Any]) -> None:
        """Always ends with `hosts`."""
        records: tuple[LoadHostRecord, ...] = ()
        try:
            plan = Plan.model_validate(document)
            if not self._registry.alive():
                raise FleetError("no load host is there")
            with RecordWriter(events_path(plan.run_dir, plan.cell_id, "stats"), STATS) as stats:
                self._registry.on_sample = stats.append
                try:
                    records = self._conduct(plan)
                finally:
                    self._registry.on_sample = lambda _sample: None
        except ValidationError as error:
            self._emit(LoadError(message=f"load hosts do not take this cell: {wire.words_of(error)}"))
        except (LoadFailed, FleetError, ClockBoundError) as error:
            self._emit(LoadError(message=str(error)))
        except Exception as error:  # a defect: whoever started us must learn why, and the next cell can still be tried
            self._emit(LoadError(message=f"{type(error).__name__}: {error}"))
        finally:
            self._emit(HostsTold(hosts=records))

    def _conduct(self, plan: Plan) -> tuple[LoadHostRecord, ...]:
        fleet = HostsFleet(
            plan,
            registry=self._registry,
            tell=self._runner.tell,
            run_id=self._config.run_id,
            environment=self._environment,
            store=self._config.store,
        )
        self._fleet, self._conductor = fleet, Conductor(plan, fleet, self._emit)
        self._emit(HostsTold(hosts=fleet.beginning(), is_beginning=True))
        try:
            self._conductor.run()
        except (LoadFailed, FleetError) as error:
            self._emit(LoadError(message=str(error)))
        finally:
            self._conductor = None
        for _ in range(AFTER_CELL_ROUNDS):
            self._registry.ask_clocks()
            gevent.sleep(AFTER_CELL_S / AFTER_CELL_ROUNDS)
        records = fleet.records()
        self._fleet, self._gathered = None, [fleet]
        return records

    def _forget(self, but: frozenset[str]) -> None:
        """The harness has made the last cell's run log its own, but that of these hosts. Before, a harness that dies
        must find it at the hosts."""
        if not self._gathered:
            return
        whole = set[str]().union(*(each.whole() for each in self._gathered))
        self._unforgotten = ({host.name for host in self._registry.alive()} & whole) - but
        cell, self._gathered = self._gathered[0].cell, []
        forget = wire.Forget(run_id=cell.run_id, cell_id=cell.cell_id)
        deadline_s, next_s = time.monotonic() + FORGET_S, 0.0
        while self._unforgotten and time.monotonic() < deadline_s:
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + FORGET_AGAIN_S
                for host in self._registry.alive():
                    if host.name in self._unforgotten:
                        self._runner.tell(host.client_id, forget)
            gevent.sleep(TICK_S)

    # --- a cell of a harness that died, or what a store does not give back --------------------------------------------

    def _gather(self, run_dir: Path, cell_id: str, names: Sequence[str]) -> None:
        """Always ends with `hosts`."""
        cell = wire.OfCell(run_id=self._config.run_id, cell_id=cell_id)
        self._late = LateGathering(run_dir, cell, names, registry=self._registry, tell=self._runner.tell)
        self._gathered = [*(each for each in self._gathered if each.cell == cell), self._late]
        self._is_stopping = False  # that was said to the cell before; who wants this to stop says it all along
        try:
            self._late.run(lambda: self._is_stopping)
            self._emit(HostsTold(hosts=self._late.records()))
        finally:
            self._late = None

    # --- ceilings -----------------------------------------------------------------------------------------------------

    def _certify(self, document: dict[str, Any]) -> None:
        """Every host measures the share that it would have of this plan, at the same time as the others."""
        found: list[HostCeiling] = []
        try:
            plan = Plan.model_validate(document)
            hosts = {host.name: host for host in self._registry.alive()}
            shares = spread(plan.workload, sorted(hosts))
            self._certified += 1
            number = self._certified
            for name, share in shares.items():
                ask = wire.Certify(number=number, plan=self._own_ceiling(plan, share))
                self._runner.tell(hosts[name].client_id, ask)
            deadline_s = time.monotonic() + CEILING_S
            while time.monotonic() < deadline_s and not all((name, number) in self._ceilings for name in shares):
                gevent.sleep(TICK_S)
            for name in shares:
                ceiling = self._ceilings.get((name, number))
                found.append(
                    HostCeiling(host=name, why="gave no answer in time")
                    if ceiling is None
                    else HostCeiling(
                        host=name,
                        records_per_s=ceiling.records_per_s,
                        cpu_share_by_process=ceiling.cpu_share_by_process,
                        why=ceiling.why,
                    )
                )
        except (ValidationError, ValueError) as error:
            text = wire.words_of(error) if isinstance(error, ValidationError) else str(error)
            found = [HostCeiling(host="", why=text)]
        self._emit(CeilingsTold(ceilings=tuple(found)))

    def _own_ceiling(self, plan: Plan, share: wire.ShareOfHost) -> wire.SharePlan:
        return wire.SharePlan.of(plan, run_id=self._config.run_id, share=share, t0_monotonic_ns=0, harness_t0_ns=0)

    # --- what hosts say -----------------------------------------------------------------------------------------------

    def _on_message(self, client_id: str, kind: str, data: Any) -> None:
        received_ns = time.monotonic_ns()
        if self._is_flooding(client_id, received_ns):
            return
        host = self._registry.of_client(client_id)
        if host is None and kind != wire.Hello.KIND:
            return  # it has not presented itself, or was refused
        try:
            message = decode(kind, data, LOAD_HOST_SAYS)
        except WireError as error:
            if kind != wire.Hello.KIND:
                raise  # to the log of the link: only this message is lost
            self._registry.on_wrong_hello(client_id, error)
            return
        if isinstance(message, wire.Hello):
            self._registry.on_hello(client_id, message)
        elif host is not None:
            self._take(host, message, received_ns)

    def _take(self, host: Host, message: wire.Message, received_ns: int) -> None:
        match message:
            case wire.ClockAnswer():
                self._registry.on_clock(host, message, received_ns)
            case wire.Ceiling():
                self._on_ceiling(host, message)
            case wire.FilesOfCell() if self._unforgotten:
                if not message.files:
                    self._unforgotten.discard(host.name)
            case _ if self._fleet is not None:
                self._fleet.on_message(host, message)
            case _ if self._late is not None:
                self._late.on_message(host, message)

    def _on_ceiling(self, host: Host, ceiling: wire.Ceiling) -> None:
        if ceiling.number == self._certified:
            self._ceilings[host.name, ceiling.number] = ceiling

    def _is_flooding(self, client_id: str, now_ns: int) -> bool:
        second = now_ns // 1_000_000_000
        before, count = self._counts.get(client_id, (second, 0))
        count = count + 1 if before == second else 1
        if client_id not in self._counts and len(self._counts) >= 16 * wire.HOSTS_MAX:
            self._counts.clear()
        self._counts[client_id] = (second, count)
        return count > HOST_MESSAGES_PER_S_MAX


def run_hub(line: str, emit: Emit) -> int:
    try:
        hub = Hub(HubConfig.model_validate_json(line), emit)
    except (LinkError, ValidationError) as error:
        emit(LoadError(message=str(error)))
        return 1
    hub.run()
    return 0

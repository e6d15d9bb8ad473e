"""Faults on other hosts: the hub process of a run, which fault hosts are there, and one ask after another to them.

The hub (`python -m workloads --fault-hub`) has the link. An ask names a broker id and an action. The answer says
whether it was done, and if it was not, whether that is certain. Shown by tests/harness/test_harness_fault_hosts.py.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from broker.door.addresses import format_address
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.process_identity import ProcessIdentity
from chaos.toxiproxy.states import ProxyState, ToxicState
from harness import VERSION
from harness.clusters.broker_process import ManagedProcess, spawn
from harness.clusters.hosts.host_answers import HostAnswer, HostClock, HostFaultError, RequestPiece
from harness.clusters.hosts.host_links import HostProxy
from harness.errors import EnvironmentFault
from harness.run.hosts.load_hosts import LoadHostsRequest
from workloads.hosts.fault_wire import Answer, ClockTold, HostsThere, HostThere, ProcessSeen, RequestsSeen, Told

WAIT_S: Final = 300.0  # Fault hosts have this time to come.
READY_S: Final = 60.0
LOOK_S: Final = 30.0
STOP_S: Final = 10.0
SILENT_S: Final = 10.0  # a host that was not heard of for so long is not waited for
# Until the answer is there: what the host's own limits are at most, and some more (chaos/fault_host/permits.py).
ACTION_S: Final[Mapping[str, float]] = {
    "look": 15.0, "kill": 60.0, "pause": 30.0, "resume": 30.0, "logs": 60.0, "terminate": 300.0, "start": 300.0,
    "requests_begin": 60.0, "requests_piece": 30.0, "requests_end": 120.0, "requests_forget": 30.0,
    "proxy_state": 15.0, "proxy_cut": 30.0, "proxy_join": 30.0, "toxic_add": 30.0, "toxic_remove": 30.0, "probe": 45.0,
}  # fmt: skip
_COMMAND: Final = (sys.executable, "-m", "workloads", "--fault-hub")
_AGAIN_S: Final = 0.5
PIECE_BYTES_MAX: Final = 2 << 20  # A piece of a record of requests has no more.


class FaultHosts:
    """The hub of one run. Safe to share between threads. `start` waits until all fault hosts are there."""

    def __init__(self, request: LoadHostsRequest, run_id: str, stderr_path: Path, t0_monotonic_ns: int) -> None:
        self._request, self._t0_ns = request, t0_monotonic_ns
        self._process: ManagedProcess = spawn("hub of fault hosts", _COMMAND, stderr_path=stderr_path, pipes=True)
        self._changed = threading.Condition()
        self._is_ready = False
        self._problem = ""
        self._there: HostsThere | None = None
        self._told: dict[int, Told] = {}
        self._clocks: dict[int, ClockTold] = {}
        self._wanted: set[int] = set()
        self._number = 0
        self._host_of: dict[int, str] = {}  # broker id -> name of its host
        self._proxies: tuple[HostProxy, ...] = ()
        self._writing = threading.Lock()
        threading.Thread(target=self._read, name="fault-hub", daemon=True).start()
        self._say(
            {
                "listen_host": request.listen_host, "listen_port": request.listen_port, "key": request.key.document(),
                "version": VERSION, "run_id": run_id, "t0_monotonic_ns": t0_monotonic_ns,
            }
        )  # fmt: skip

    def start(self, should_stop: Callable[[], bool], say: Callable[[str], None]) -> None:
        """EnvironmentFault if they do not come, with what kept them away as far as it is known."""
        if not self._wait(lambda: self._is_ready, READY_S):
            raise EnvironmentFault(f"the hub of the fault hosts did not start: {self._process.stderr_tail(6)}")
        deadline_s, told = time.monotonic() + WAIT_S, ""
        where = format_address(self._request.listen_host, self._request.listen_port)
        while not should_stop():
            there = self.look()
            alive = [host for host in there.hosts if host.silent_s < SILENT_S]
            if len(alive) >= self._request.count and all(not host.clock_problem for host in alive):
                self._host_of = {offer.broker: host.hello.name for host in alive for offer in host.hello.brokers}
                self._proxies = tuple(proxy for host in alive for proxy in host_proxies(host))
                say("fault hosts: " + "; ".join(map(fault_host_line, alive)))
                return
            line = f"waiting for fault hosts: {len(alive)} of {self._request.count}"
            line += "".join(f"; {reason}" for reason in there.refused)
            if line != told:
                told = line
                say(line)
            if time.monotonic() > deadline_s:
                raise EnvironmentFault(
                    f"{line}, at {where} within {WAIT_S:.0f} s; start on each broker's host: "
                    f"harness worker --key worker.key --master {where} --allow-faults FILE"
                )
            time.sleep(_AGAIN_S)

    def look(self) -> HostsThere:
        """Who is there now."""
        with self._changed:
            self._there = None
        self._say({"do": "hosts"})
        if not self._wait(lambda: self._there is not None, LOOK_S):
            raise EnvironmentFault("the hub of the fault hosts gave no answer")
        assert self._there is not None
        return self._there

    def allowed(self) -> Mapping[int, frozenset[str]]:
        """What may be done, by broker id; `logs` if the log of a dead leader can be read."""
        return {
            offer.broker: frozenset(offer.allow) | ({"logs"} if offer.has_logs else frozenset())
            for host in self.look().hosts
            for offer in host.hello.brokers
        }

    def host_of(self, broker_id: int) -> str:
        return self._host_of.get(broker_id, "?")

    def proxies(self) -> Sequence[HostProxy]:
        return self._proxies

    def act(self, action: str, broker_id: int, *, topic: str = "", partitions: int = 0) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""
        name = self._host_of.get(broker_id)
        if name is None:
            raise HostFaultError(f"no fault host has broker {broker_id}", is_certain=True)
        ask = {"action": action, "broker": broker_id, "topic": topic, "partitions": partitions}
        return self._ask(name, ask, f"{action} of broker {broker_id}")

    def act_on_proxy(
        self,
        action: str,
        proxy: HostProxy,
        toxic: Mapping[str, object] | None = None,
        probe: Mapping[str, object] | None = None,
    ) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""
        ask = {"action": action, "proxy": proxy.name, "toxic": toxic, "probe": probe}
        return self._ask(proxy.host, ask, f"{action} of proxy {proxy.name}")

    def act_on_requests(self, action: str, host: str, *, topics: Sequence[str] = (), offset: int = 0) -> HostAnswer:
        """HostFaultError: it was not done, or nobody knows."""
        ask = {"action": action, "topics": topics, "offset": offset}
        return self._ask(host, ask, f"{action} of the record of requests")

    def clock_over(self, host: str, first_us: int, last_us: int, *, offset_ns: int | None = None) -> HostClock:
        """How to convert its times of that span of the run; `offset_ns`: how they are converted. EnvironmentFault if
        the hub does not answer."""
        with self._changed:
            self._number += 1
            number = self._number
            self._wanted.add(number)
        first_ns, last_ns = (self._t0_ns + us * 1000 for us in (first_us, last_us))
        try:
            ask = {"number": number, "host": host, "first_ns": first_ns, "last_ns": last_ns, "offset_ns": offset_ns}
            self._say({"do": "clock", "ask": ask})
            if not self._wait(lambda: number in self._clocks, LOOK_S):
                raise EnvironmentFault("the hub of the fault hosts gave no answer")
            told = self._clocks.pop(number)
        finally:
            with self._changed:
                self._wanted.discard(number)
        return HostClock(offset_ns=told.offset_ns, error_us=told.error_us, problem=told.problem)

    def _ask(self, name: str, ask: Mapping[str, object], what: str) -> HostAnswer:
        asked_ns = time.monotonic_ns()
        with self._changed:
            self._number += 1
            number = self._number
            self._wanted.add(number)
        try:
            self._say({"do": "ask", "host": name, "ask": {"number": number, **ask}})
            self._await_answer(number, name, what, ACTION_S[str(ask["action"])])
            told = self._told[number]
        finally:
            with self._changed:
                self._wanted.discard(number)
                self._told.pop(number, None)
        if not told.answer.is_done:
            problem = told.answer.problem or f"fault host {name} did not do it"
            raise HostFaultError(problem, is_certain=not told.answer.is_unknown)
        return _host_answer(told, asked_ns - self._t0_ns, time.monotonic_ns() - self._t0_ns)

    def _await_answer(self, number: int, name: str, what: str, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        while not self._wait(lambda: number in self._told, 2.0):
            silent_s = next((host.silent_s for host in self.look().hosts if host.hello.name == name), 0.0)
            is_over = time.monotonic() > deadline_s
            if not is_over and silent_s < SILENT_S:
                continue
            self._say({"do": "drop", "number": number})
            why = f"was not heard of for {silent_s:.0f} s" if not is_over else f"gave no answer within {within_s:g} s"
            raise HostFaultError(
                f"fault host {name} {why}: whether {what} was done is not known; what is broken there heals by itself",
                is_certain=False,
            )

    def stop(self) -> None:
        stdin = self._process.popen.stdin
        if stdin is not None and not stdin.closed:
            with self._writing, contextlib.suppress(OSError):
                stdin.close()
        self._process.wait(STOP_S)
        self._process.stop(STOP_S)

    # --- the hub's lines --------------------------------------------------------------------------------------------

    def _say(self, document: Mapping[str, Any]) -> None:
        stdin = self._process.popen.stdin
        assert stdin is not None
        try:
            with self._writing:
                stdin.write(json.dumps(document).encode() + b"\n")
                stdin.flush()
        except (OSError, ValueError) as error:  # ValueError: closed by us
            raise EnvironmentFault(f"the hub of the fault hosts has ended: {self._why()}") from error

    def _why(self) -> str:
        return self._problem or self._process.stderr_tail(6) or f"exit code {self._process.exit_code()}"

    def _wait(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """EnvironmentFault if the hub has ended."""
        with self._changed:
            found = self._changed.wait_for(lambda: is_so() or bool(self._problem), timeout_s)
            if self._problem and not is_so():
                raise EnvironmentFault(f"the hub of the fault hosts: {self._problem}")
            return found

    def _read(self) -> None:
        stdout = self._process.popen.stdout
        assert stdout is not None
        for line in stdout:
            with self._changed:
                try:
                    self._take(json.loads(line))
                except (ValueError, ValidationError) as error:
                    self._problem = self._problem or f"said something else than expected: {error}"
                self._changed.notify_all()
        with self._changed:
            self._problem = self._problem or "it has ended"
            self._changed.notify_all()

    def _take(self, line: dict[str, Any]) -> None:
        match line.get("event"):
            case "ready":
                self._is_ready = True
            case "error":
                self._problem = str(line.get("message"))
            case "hosts":
                self._there = HostsThere.model_validate(line)
            case "clock":
                clock = ClockTold.model_validate(line)
                if clock.number in self._wanted:
                    self._clocks[clock.number] = clock
            case "answer":
                told = Told.model_validate(line)
                if told.answer.number in self._wanted:
                    self._told[told.answer.number] = told


def host_proxies(host: HostThere) -> tuple[HostProxy, ...]:
    hello = host.hello
    return tuple(
        HostProxy(
            host=hello.name, name=offer.name, links=frozenset(offer.links), allow=frozenset(offer.allow),
            listen=offer.listen, upstream=offer.upstream, is_tls=offer.is_tls, has_requests=offer.has_requests,
            server=hello.proxy_server,
        )
        for offer in hello.proxies
    )  # fmt: skip


def fault_host_line(host: HostThere) -> str:
    """A fault host in words: what may be done there, how far its clock is off."""
    brokers = (
        f"broker {offer.broker}: {' '.join(offer.allow) or 'nothing'}{'' if offer.has_logs else ' (no logs)'}"
        for offer in host.hello.brokers
    )
    links: dict[tuple[str, ...], list[str]] = {}  # The key is what may be done to them.
    for offer in host.hello.proxies:
        links.setdefault(tuple(offer.allow), []).extend(offer.links)
    proxies = (f"proxies for {' '.join(those)}: {' '.join(allow)}" for allow, those in links.items())
    recorded = [link for offer in host.hello.proxies if offer.has_requests for link in offer.links]
    records = [f"records requests of {' '.join(recorded)}"] if recorded else []
    offers = ", ".join((*brokers, *proxies, *records))
    clock = (
        f"clock: {host.clock_problem}"
        if host.clock_problem
        else f"clock {host.clock_offset_us / 1e3:+,.3f} ms, within {host.clock_error_us / 1e3:.3f} ms"
    )
    return f"{host.hello.name}: version {host.hello.version}, {offers}, {clock}"


def _host_answer(told: Told, asked_ns: int, answered_ns: int) -> HostAnswer:
    answer: Answer = told.answer
    return HostAnswer(
        host=told.host,
        asked_us=asked_ns // 1000,
        answered_us=answered_ns // 1000,
        from_us=told.from_us,
        to_us=told.to_us,
        clock_error_us=told.clock_error_us,
        clock_problem=told.clock_problem,
        running=None if answer.running is None else _identity(answer.running),
        states={_identity(seen): seen.state for seen in answer.processes},
        epochs=answer.epochs,
        proxy=_proxy_state(answer),
        probe=_probe(answer),
        requests=None if answer.requests is None else _piece(answer.requests),
    )


def _proxy_state(answer: Answer) -> ProxyState | None:
    if answer.proxy is None:
        return None
    toxics = tuple(
        ToxicState(
            name=each.name,
            type=each.type,
            stream=each.stream,
            toxicity=1.0,
            attributes=dict(each.attributes),
            counters=dict(each.counters),
        )
        for each in answer.proxy.toxics
    )
    # Where it is stands in the list of its host, which is told once, in the hello.
    return ProxyState(name="", listen="", upstream="", is_enabled=answer.proxy.is_enabled, toxics=toxics)


def _probe(answer: Answer) -> LinkProbe | LoadProbe | None:
    seen = answer.probe
    if seen is None:
        return None
    if seen.size_bytes:
        return LoadProbe(outcome=seen.outcome, size_bytes=seen.size_bytes, elapsed_us=seen.elapsed_us)
    return LinkProbe(outcome=seen.outcome, elapsed_us=seen.elapsed_us)


def _piece(seen: RequestsSeen) -> RequestPiece:
    """HostFaultError if it is no piece: it is what another host sent."""
    try:
        unpack = zlib.decompressobj()
        data = unpack.decompress(base64.b64decode(seen.data, validate=True), PIECE_BYTES_MAX) if seen.data else b""
        if unpack.unconsumed_tail:
            raise ValueError(f"larger than {PIECE_BYTES_MAX} bytes")
    except (ValueError, zlib.error) as error:
        raise HostFaultError(f"a piece of a record of requests cannot be read: {error}", is_certain=True) from error
    return RequestPiece(data=data, size_bytes=seen.size_bytes, sha256=seen.sha256, problem=seen.problem)


def _identity(seen: ProcessSeen) -> ProcessIdentity:
    return ProcessIdentity(pid=seen.pid, start_ticks=seen.start_ticks)

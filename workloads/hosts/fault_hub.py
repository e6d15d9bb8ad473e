"""`python -m workloads --fault-hub`: the harness's end of the link to fault hosts, for a whole run.

It knows who is there, asks for their clocks all along, says each ask once a second until it is answered, and converts
the times of answers to the harness's clock. One line of configuration on stdin, then commands; lines of JSON on stdout.
It ends when its stdin does. Shown by tests/workloads/test_workloads_fault_hosts.py.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, Final

import gevent
from locust.env import Environment
from pydantic import BaseModel, ValidationError

from runlog.quality.clock_bound import ClockBoundError
from runlog.records.stats import ClockSample
from workloads.hosts import fault_wire, wire
from workloads.hosts.codec import FAULT_HOST_SAYS, WireError, decode
from workloads.hosts.keys import key_of
from workloads.hosts.link import HubRunner, LinkError, use_curve
from workloads.hosts.registry import ALIVE_S, PENDING_MAX, REFUSED_MAX
from workloads.hosts.round_trips import RoundTrips

CLOCK_S: Final = 0.25
TICK_S: Final = 0.005
AGAIN_S: Final = 1.0
BEGIN_S: Final = 5.0  # an ask that comes later is not begun: its harness has given up by then
ASKS_MAX: Final = 256  # under way
NEVER_NS: Final = 2**62
SAMPLES_MAX: Final = 4_000  # a quarter of an hour; the oldest go first
MESSAGES_PER_S_MAX: Final = 500  # One host may send no more. What is beyond is left out.


@dataclass(slots=True, kw_only=True)
class _Host:
    client_id: str
    hello: fault_wire.FaultHello
    heard_s: float
    samples: RoundTrips = field(default_factory=lambda: RoundTrips(SAMPLES_MAX))
    pending: OrderedDict[int, int] = field(default_factory=OrderedDict)  # number of a question -> when it was sent
    second: int = 0
    messages: int = 0  # in it

    def silent_s(self) -> float:
        return time.monotonic() - self.heard_s


@dataclass(slots=True, kw_only=True)
class _Asked:
    host: str
    ask: fault_wire.Ask
    next_s: float = 0.0
    since_ns: int = field(default_factory=time.monotonic_ns)  # the times of the answer are later


class FaultHub:
    def __init__(self, config: fault_wire.FaultHubConfig) -> None:
        self._config = config
        self._hosts: dict[str, _Host] = {}  # The key is the name of the host.
        self._refused: dict[str, str] = {}
        self._asked: dict[int, _Asked] = {}
        self._postponed: deque[tuple[float, str, fault_wire.Wanted]] = deque(maxlen=ASKS_MAX)  # until when, host, what
        self._commands: deque[dict[str, Any]] = deque()
        self._number = 0
        self._is_over = False
        use_curve(key_of(config.key))
        environment: Any = Environment(user_classes=[])
        self._runner = HubRunner(environment, config.listen_host, config.listen_port, self._on_message, FAULT_HOST_SAYS)
        environment.runner = self._runner

    def run(self) -> None:
        threading.Thread(target=self._read_commands, daemon=True).start()
        _print({"event": "ready"})
        next_clock_s = 0.0
        while not self._is_over:
            while self._commands:
                self._carry_out(self._commands.popleft())
            now_s = time.monotonic()
            if now_s >= next_clock_s:
                next_clock_s = now_s + CLOCK_S
                self._ask_clocks()
            for _ in range(len(self._postponed)):
                self._ask(*self._postponed.popleft())
            self._say_again(now_s)
            gevent.sleep(TICK_S)
        self._runner.quit()

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self._commands.append(json.loads(line))
        self._commands.append({"do": "end"})

    def _carry_out(self, command: dict[str, Any]) -> None:
        match command["do"]:
            case "hosts":
                _tell(self._present())
            case "ask":
                wanted = fault_wire.Wanted.model_validate(command["ask"])
                self._ask(time.monotonic() + BEGIN_S, command["host"], wanted)
            case "clock":
                _tell(self._clock(fault_wire.AskClock.model_validate(command["ask"])))
            case "drop":
                self._asked.pop(command["number"], None)
            case "end":
                self._is_over = True

    def _ask(self, until_s: float, name: str, wanted: fault_wire.Wanted) -> None:
        """A host that is not there, or has just come and has no clock yet, is waited for until `until_s`."""
        host = self._hosts.get(name)
        if (host is None or not host.samples) and time.monotonic() < until_s:
            self._postponed.append((until_s, name, wanted))
            return
        try:
            if host is None:
                raise ClockBoundError("it is not there")
            begin_until_ns = _begin_until_ns(host, wanted.action)
        except ClockBoundError as error:
            problem = f"fault host {name}: {error}"
            answer = fault_wire.Answer(number=wanted.number, run_id=self._config.run_id, is_done=False, problem=problem)
            _tell(fault_wire.Told(host=name, answer=answer, clock_problem=str(error)))
            return
        ask = fault_wire.Ask(run_id=self._config.run_id, begin_until_ns=begin_until_ns, **wanted.model_dump())
        if len(self._asked) >= ASKS_MAX:  # those that nobody waits for any more
            del self._asked[min(self._asked)]
        self._asked[ask.number] = _Asked(host=name, ask=ask)

    def _clock(self, ask: fault_wire.AskClock) -> fault_wire.ClockTold:
        host = self._hosts.get(ask.host)
        try:
            bound = (RoundTrips(1) if host is None else host.samples).bound(ask.first_ns)
            middle_ns, offset_ns = (ask.first_ns + ask.last_ns) // 2, ask.offset_ns
            offset_ns = round(bound.at(middle_ns).offset_ns) if offset_ns is None else offset_ns
            error_us = bound.over(ask.first_ns, ask.last_ns, used_offset_ns=offset_ns).error_us
        except ClockBoundError as error:
            return fault_wire.ClockTold(number=ask.number, problem=str(error))
        return fault_wire.ClockTold(number=ask.number, offset_ns=offset_ns, error_us=error_us)

    def _say_again(self, now_s: float) -> None:
        for asked in self._asked.values():
            host = self._hosts.get(asked.host)
            if host is not None and now_s >= asked.next_s:
                asked.next_s = now_s + AGAIN_S
                self._runner.tell(host.client_id, asked.ask)

    def _present(self) -> fault_wire.HostsThere:
        found = []
        for name, host in sorted(self._hosts.items()):
            there = fault_wire.HostThere(hello=host.hello, silent_s=round(host.silent_s(), 3))
            try:
                now_ns = time.monotonic_ns()
                bound = host.samples.bound(now_ns).at(now_ns)
                there = there.model_copy(
                    update={"clock_offset_us": bound.offset_ns / 1e3, "clock_error_us": bound.error_ns / 1e3}
                )
            except ClockBoundError as error:
                there = there.model_copy(update={"clock_problem": str(error)})
            assert name == host.hello.name
            found.append(there)
        return fault_wire.HostsThere(hosts=tuple(found), refused=tuple(sorted(self._refused.values())))

    # --- what hosts say -----------------------------------------------------------------------------------------------

    def _on_message(self, client_id: str, kind: str, data: Any) -> None:
        received_ns = time.monotonic_ns()
        host = next((each for each in self._hosts.values() if each.client_id == client_id), None)
        is_hello = kind == fault_wire.FaultHello.KIND
        if not is_hello and (host is None or _is_flooding(host, received_ns)):
            return
        try:
            message = decode(kind, data, FAULT_HOST_SAYS)
        except WireError as error:
            if not is_hello:
                raise  # to the log of the link: only this message is lost
            self._refuse(client_id, "?", f"a fault host presents itself in a wrong way: {error}")
            return
        match message:
            case fault_wire.FaultHello():
                self._on_hello(client_id, message)
            case wire.ClockAnswer() if host is not None:
                self._on_clock(host, message, received_ns)
            case fault_wire.Answer() if host is not None:
                self._on_answer(host, message)

    def _on_hello(self, client_id: str, hello: fault_wire.FaultHello) -> None:
        problem = wire.version_problem(hello.name, hello.version, self._config.version, kind="fault host")
        known = self._hosts.get(hello.name)
        if not problem and known is not None and known.client_id != client_id:
            if known.silent_s() < ALIVE_S:  # it may be the same host, started anew: it will ask again
                self._note(hello.name, f"two fault hosts are called {hello.name}: give each its own --name")
                return
            known = None
        if not problem and known is None and len(self._hosts) >= wire.HOSTS_MAX and hello.name not in self._hosts:
            problem = f"there are {wire.HOSTS_MAX} fault hosts already"
        if not problem:
            theirs = _offered(hello)
            for other in self._hosts.values():
                both = theirs & _offered(other.hello)
                if other.hello.name != hello.name and both and other.silent_s() < ALIVE_S:
                    problem = f"fault hosts {other.hello.name} and {hello.name} both say that they have {min(both)}"
        if problem:
            self._refuse(client_id, hello.name, problem)
            return
        if known is None:
            known = self._hosts[hello.name] = _Host(client_id=client_id, hello=hello, heard_s=time.monotonic())
            self._refused.pop(hello.name, None)
        known.hello, known.heard_s = hello, time.monotonic()
        self._runner.tell(client_id, wire.Welcome(run_id=self._config.run_id, version=self._config.version))

    def _refuse(self, client_id: str, name: str, reason: str) -> None:
        self._note(name, reason)
        self._runner.tell(client_id, wire.Refused(reason=reason))

    def _note(self, name: str, reason: str) -> None:
        if len(self._refused) < REFUSED_MAX:
            self._refused[name] = reason

    def _ask_clocks(self) -> None:
        for host in self._hosts.values():
            self._number += 1
            host.pending[self._number] = time.monotonic_ns()
            if len(host.pending) > PENDING_MAX:
                host.pending.popitem(last=False)
            self._runner.tell(host.client_id, wire.ClockQuestion(number=self._number))

    def _on_clock(self, host: _Host, answer: wire.ClockAnswer, received_ns: int) -> None:
        sent_ns = host.pending.pop(answer.number, None)
        if sent_ns is None:
            return  # it was not asked
        host.heard_s = time.monotonic()
        host.samples.append(
            ClockSample(
                t_us=(received_ns - self._config.t0_monotonic_ns) // 1000,
                source=host.hello.name,
                sent_ns=sent_ns,
                host_received_ns=answer.received_ns,
                host_sent_ns=answer.sent_ns,
                received_ns=received_ns,
            )
        )

    def _on_answer(self, host: _Host, answer: fault_wire.Answer) -> None:
        """What nobody has asked, or asked another host, is left out."""
        asked = self._asked.get(answer.number)
        if asked is None or asked.host != host.hello.name or answer.run_id != self._config.run_id:
            return
        del self._asked[answer.number]
        told = fault_wire.Told(host=host.hello.name, answer=answer)
        try:
            bound = host.samples.bound(asked.since_ns).at(time.monotonic_ns())
        except ClockBoundError as error:
            _tell(told.model_copy(update={"clock_problem": str(error)}))
            return
        offset_ns = round(bound.offset_ns) + self._config.t0_monotonic_ns
        times = {
            "from_us": (answer.from_ns - offset_ns) // 1000, "to_us": (answer.to_ns - offset_ns) // 1000,
            "clock_error_us": round(bound.error_ns / 1e3, 3) + 1.0,  # times are whole microseconds
        }  # fmt: skip
        _tell(told.model_copy(update=times))


def _offered(hello: fault_wire.FaultHello) -> frozenset[str]:
    """What only one host can have."""
    brokers = (f"broker {offer.broker}" for offer in hello.brokers)
    links = (f"link {link}" for offer in hello.proxies for link in offer.links)
    return frozenset((*brokers, *links))


def _begin_until_ns(host: _Host, action: fault_wire.Action) -> int:
    """By the host's clock. ClockBoundError for what breaks something, if that clock cannot be held against ours (it was
    set, or the host was suspended). What mends may always come late."""
    try:
        now_ns = time.monotonic_ns()
        bound = host.samples.bound(now_ns).at(now_ns)
    except ClockBoundError:
        if action in fault_wire.BREAKS:
            raise
        return NEVER_NS
    return time.monotonic_ns() + round(bound.offset_ns + bound.error_ns + BEGIN_S * 1e9)


def _is_flooding(host: _Host, now_ns: int) -> bool:
    second = now_ns // 1_000_000_000
    host.messages = host.messages + 1 if host.second == second else 1
    host.second = second
    return host.messages > MESSAGES_PER_S_MAX


def _tell(message: BaseModel) -> None:
    _print(message.model_dump(mode="json"))


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def run_fault_hub(line: str) -> int:
    try:
        hub = FaultHub(fault_wire.FaultHubConfig.model_validate_json(line))
    except (LinkError, ValidationError) as error:
        _print({"event": "error", "message": str(error)})
        return 1
    hub.run()
    return 0

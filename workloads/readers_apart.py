"""Readers in a process of their own, beside the one with the producers.

In one process, producers and readers take turns with one interpreter lock. Then a reader that unpacks a poll holds up
the thread that notes acknowledgements, and the p99 is the client's own. So a load of one process is two: this module
divides it, and both halves look like one fleet. The second process is a fork of the first from before any thread was
started, so it costs a few milliseconds. It is told and asked by lines of JSON over a pair of sockets, and ends when
they close: none outlives the process that made it. Shown by tests/workloads/test_workloads_readers_apart.py.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from dataclasses import asdict
from typing import Any, Final

import gevent
import gevent.os
from gevent.socket import wait_read

from workloads.affinity import keep_to_one_core
from workloads.context import Phases
from workloads.fleet import REPORT_TIMEOUT_S, Fleet, LocalFleet, WorkerFleet
from workloads.load_process import LOOK_S
from workloads.model import Plan, Share
from workloads.reports import LoadReport, LoadState, merge_states

STATE_TIMEOUT_S: Final = 0.2
ANSWER_TIMEOUT_S: Final = 20.0  # to the questions at the end, which wait for all that was read
_BYTES: Final = 1 << 16
Json = dict[str, Any]  # a line between the two processes


def fleet_of(plan: Plan, core: int = 0) -> Fleet:
    """The users of a plan. Those of one process are kept to the core with this number, if their client is pure Python.
    Call it before threads are started. PayloadError if the records cannot be made.

    Locust's own page shows one process: with `web_port` the readers stay beside the producers.
    """
    if plan.processes_here > 1:
        return WorkerFleet(plan)
    if not plan.producers_here or not plan.consumers_here or plan.web_port is not None:
        keep_to_one_core(plan.client, core)
        return LocalFleet(plan)
    readers = _ReaderProcess(_part(plan, Share(consumers=plan.consumers_here)), core + 1)
    try:
        keep_to_one_core(plan.client, core)
        return ApartFleet(LocalFleet(_part(plan, Share(producers=plan.producers_here))), readers)
    except BaseException:
        readers.quit()
        raise


def _part(plan: Plan, share: Share) -> Plan:
    return plan.model_copy(update={"share": share})


class ApartFleet:
    """Producers here, readers there."""

    def __init__(self, producers: LocalFleet, readers: _ReaderProcess) -> None:
        self._producers, self._readers = producers, readers
        self.environment: Any = producers.environment
        self.start_delay_ms = producers.start_delay_ms

    def start_users(self) -> None:
        self._readers.tell("start_users")
        self._producers.start_users()

    def begin(self, phases: Phases) -> None:
        self._readers.tell("begin", phases=asdict(phases))
        self._producers.begin(phases)

    def stop_sending(self, drain_deadline_ns: int) -> None:
        self._readers.tell("stop_sending", drain_deadline_ns=drain_deadline_ns)
        self._producers.stop_sending(drain_deadline_ns)

    def stop_receiving(self) -> None:
        self._readers.tell("stop_receiving")
        self._producers.stop_receiving()

    def state(self) -> LoadState:
        return merge_states([self._producers.state(), self._readers.state()])

    def settle(self) -> None:
        self._readers.ask("settle")
        self._producers.settle()

    def reports(self) -> list[LoadReport]:
        """The report of readers that died is missing, but their rows are not."""
        theirs = self._readers.ask("report")
        return [*self._producers.reports(), *([] if theirs is None else [LoadReport.model_validate(theirs)])]

    def quit(self) -> None:
        self._readers.quit()
        self._producers.quit()


class _ReaderProcess:
    """The end of the process that made it. `problem` says that it is dead, or that it does not answer: then it is told
    and asked no more."""

    def __init__(self, plan: Plan, core: int) -> None:
        own, theirs = socket.socketpair()
        self._socket, self._rest, self.problem = own, b"", ""
        self._asked: set[str] = set()  # what it was asked and has not answered
        self._last_state = merge_states(())
        self._pid: int = gevent.os.fork_gevent()
        if self._pid == 0:
            own.close()
            _be_the_readers(plan, core, theirs)
        theirs.close()

    def tell(self, do: str, **more: Any) -> None:
        if self.problem:
            return
        try:
            self._socket.sendall(json.dumps({"do": do, **more}).encode() + b"\n")
        except OSError as error:
            self._fail(f"it cannot be told: {error}")

    def state(self) -> LoadState:
        """The last one that it told, if it is too busy to tell another at once: the course of the load does not wait
        for it. After its end it reads no more."""
        told = self._ask("state", STATE_TIMEOUT_S)
        if told is not None:
            self._last_state = LoadState.model_validate(told)
        if not self.problem:
            return self._last_state
        return self._last_state.model_copy(update={"ready": 0, "consuming": 0, "errors": (self.problem,)})

    def ask(self, do: str) -> Json | None:
        """None if it is dead or does not answer."""
        answer = self._ask(do, ANSWER_TIMEOUT_S)
        if answer is None:
            self._fail(f"it did not answer within {ANSWER_TIMEOUT_S:.0f} s")
        return answer

    def _ask(self, do: str, timeout_s: float) -> Json | None:
        if do not in self._asked:
            self._asked.add(do)
            self.tell(do)
        deadline_s = time.monotonic() + timeout_s
        while not self.problem:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                answer: Json = json.loads(line)
                self._asked.discard(answer["of"])
                if answer["of"] == do:
                    told: Json = answer["is"]
                    return told
                continue
            try:
                left_s = max(0.0, deadline_s - time.monotonic())
                wait_read(self._socket.fileno(), timeout=left_s, timeout_exc=TimeoutError())
                received = self._socket.recv(_BYTES)
            except TimeoutError:
                return None
            except OSError as error:
                self._fail(f"it does not answer: {error}")
                return None
            if not received:
                self._fail("it ended early")
            self._rest += received
        return None

    def _fail(self, what: str) -> None:
        self.problem = self.problem or f"the process of the readers: {what}"

    def quit(self) -> None:
        self._socket.close()
        deadline_s = time.monotonic() + REPORT_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._is_gone():
                return
            gevent.sleep(LOOK_S)
        os.kill(self._pid, signal.SIGKILL)
        while not self._is_gone():
            gevent.sleep(LOOK_S)

    def _is_gone(self) -> bool:
        try:
            return os.waitpid(self._pid, os.WNOHANG)[0] != 0
        except ChildProcessError:
            return True


def _be_the_readers(plan: Plan, core: int, parent: socket.socket) -> None:
    """The body of the reader process; it never returns."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # they reach the whole group; our parent decides
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)  # the events on stdout are our parent's
        keep_to_one_core(plan.client, core)
        _answer(LocalFleet(plan), parent)
        code = 0
    except BaseException as error:  # the process entry: our parent tells that it ended, stderr says why
        sys.stderr.write(f"the process of the readers: {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def _answer(fleet: LocalFleet, parent: socket.socket) -> None:
    """Until the parent closes its end."""
    rest = b""
    while True:
        try:
            wait_read(parent.fileno(), timeout=LOOK_S, timeout_exc=TimeoutError())
        except TimeoutError:
            fleet.state()  # takes in what was logged
            continue
        received = parent.recv(_BYTES)
        if not received:
            break
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            told = json.loads(line)
            answer = _carry_out(fleet, told)
            if answer is not None:
                parent.sendall(json.dumps({"of": told["do"], "is": answer}).encode() + b"\n")
    fleet.stop_sending(time.monotonic_ns())
    fleet.stop_receiving()
    fleet.quit()


def _carry_out(fleet: LocalFleet, told: Json) -> Json | None:
    """The answer to a question; None after an order."""
    match told["do"]:
        case "start_users":
            fleet.start_users()
        case "begin":
            fleet.begin(Phases(**told["phases"]))
        case "stop_sending":
            fleet.stop_sending(int(told["drain_deadline_ns"]))
        case "stop_receiving":
            fleet.stop_receiving()
        case "settle":
            fleet.settle()
            return {}
        case "report":
            return fleet.reports()[0].model_dump(mode="json")
        case "state":
            return fleet.state().model_dump(mode="json")
        case other:
            raise AssertionError(f"no such order: {other}")
    return None

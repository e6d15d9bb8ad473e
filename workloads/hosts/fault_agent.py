"""`python -m workloads --fault-agent`: a fault host's end of the link. Started by `harness worker … --allow-faults`.

It only carries messages, and checks them. What is done with a broker is decided and done by the process that started
it, which has no socket. It tells that process each half second whether the master was heard of: when it says nothing
any more, the brokers are healed. Shown by tests/workloads/test_workloads_fault_hosts.py.

Stdin: one line of configuration, then answers. Stdout: asks, and who took this host.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from typing import Any, Final

import gevent
from locust.env import Environment

from broker.door.addresses import format_address
from workloads.hosts import fault_wire, wire
from workloads.hosts.codec import FAULT_MASTER_SAYS, WireError, decode
from workloads.hosts.keys import key_of
from workloads.hosts.link import AgentRunner, use_curve

HELLO_S: Final = 1.0
HEARD_S: Final = 0.5
TICK_S: Final = 0.01
REGISTER_S: Final = 5.0
ASKS_MAX: Final = 256  # that are answered from memory when they are asked again
EXIT_REFUSED: Final = 3


class FaultAgent:
    def __init__(self, config: fault_wire.FaultAgentConfig) -> None:
        self._config = config
        self._run_id = ""
        self._answers: OrderedDict[tuple[str, int], fault_wire.Answer | None] = OrderedDict()  # None: it is being done
        self._lines: deque[dict[str, Any]] = deque(maxlen=ASKS_MAX)
        self._heard_s = float("-inf")  # never
        self._next_hello_s = self._next_heard_s = 0.0
        self._next_register_s = time.monotonic() + REGISTER_S
        self._exit: int | None = None
        self._is_connected = False
        use_curve(key_of(config.key))
        threading.Thread(target=self._read_lines, daemon=True).start()
        _print({"say": f"waiting for a master at {format_address(config.master_host, config.master_port)}"})
        environment: Any = Environment(user_classes=[])
        self._runner = self._connected(environment)

    def _connected(self, environment: Any) -> AgentRunner:
        """A master may come much later: as long as it takes."""
        while True:
            with contextlib.suppress(ConnectionError, RecursionError):
                config = self._config
                runner = AgentRunner(
                    environment, config.master_host, config.master_port, self._on_message, FAULT_MASTER_SAYS
                )
                environment.runner = runner
                self._is_connected = True
                return runner

    def run(self) -> int:
        while self._exit is None:
            self._step(time.monotonic())
            gevent.sleep(TICK_S)
        return self._exit

    def _step(self, now_s: float) -> None:
        while self._lines:
            self._take_answer(self._lines.popleft())
        if now_s >= self._next_hello_s:
            self._next_hello_s = now_s + HELLO_S
            self._runner.tell(self._config.hello)
        if now_s >= self._next_heard_s:
            self._next_heard_s = now_s + HEARD_S
            if now_s - self._heard_s < 2 * HEARD_S:
                _print({"heard": True})
        if now_s - self._heard_s > REGISTER_S and now_s >= self._next_register_s:
            self._next_register_s = now_s + REGISTER_S
            self._runner.register()

    # --- what the master says ---------------------------------------------------------------------------------------

    def _on_message(self, _client_id: str, kind: str, data: Any) -> None:
        received_ns = time.monotonic_ns()
        try:
            message = decode(kind, data, FAULT_MASTER_SAYS)
        except WireError as error:
            if kind == wire.ClockQuestion.KIND:
                raise  # to the log of the link: there is nothing to answer
            _print({"say": f"a message of the master was refused: {error}"})
            answer = fault_wire.refused_ask(data, f"{self._config.hello.name} does not take such a message: {error}")
            if kind == fault_wire.Ask.KIND and answer is not None:
                self._runner.tell(answer)
            return
        match message:
            case wire.ClockQuestion():
                self._heard_s = time.monotonic()
                self._runner.tell(
                    wire.ClockAnswer(number=message.number, received_ns=received_ns, sent_ns=time.monotonic_ns())
                )
            case wire.Welcome():
                self._on_welcome(message)
            case wire.Refused():
                _print({"say": message.reason})
                self._exit = EXIT_REFUSED
            case fault_wire.Ask():
                self._on_ask(message)

    def _on_welcome(self, welcome: wire.Welcome) -> None:
        hello = self._config.hello
        if problem := wire.version_problem(hello.name, hello.version, welcome.version, kind="fault host"):
            _print({"say": problem})
            self._exit = EXIT_REFUSED
        elif welcome.run_id != self._run_id:
            self._run_id = welcome.run_id
            _print({"say": f"taken by {welcome.run_id}"})
            _print({"run": welcome.run_id})

    def _on_ask(self, ask: fault_wire.Ask) -> None:
        """Asked again, it is answered again and not done again."""
        key = (ask.run_id, ask.number)
        if key in self._answers:
            if (answer := self._answers[key]) is not None:
                self._runner.tell(answer)
            return
        if ask.run_id != self._run_id:
            return  # it has not welcomed this host yet, or is another one than the one that has
        if time.monotonic_ns() > ask.begin_until_ns:
            # It lay in a queue while the link was cut. Whoever asked has given up, and nobody would undo it.
            late = fault_wire.Answer(
                number=ask.number, run_id=ask.run_id, is_done=False, problem="it came too late, and was not begun"
            )
            self._runner.tell(late)
            return
        self._answers[key] = None
        while len(self._answers) > ASKS_MAX:
            self._answers.popitem(last=False)
        _print({"ask": ask.model_dump()})

    def _take_answer(self, line: dict[str, Any]) -> None:
        answer = fault_wire.Answer.model_validate(line)
        key = (answer.run_id, answer.number)
        if answer.requests is not None and answer.requests.data:
            self._answers.pop(key, None)  # large, and it can be read again
        elif key in self._answers:
            self._answers[key] = answer
        self._runner.tell(answer)

    def _read_lines(self) -> None:
        for line in sys.stdin:
            self._lines.append(json.loads(line))
        self._exit = 0  # `harness worker` has ended
        if not self._is_connected:  # the main thread waits inside of Locust, for a master
            os._exit(0)


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def run_fault_agent(line: str) -> int:
    return FaultAgent(fault_wire.FaultAgentConfig.model_validate_json(line)).run()

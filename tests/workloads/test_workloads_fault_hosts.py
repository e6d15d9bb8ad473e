"""The link to fault hosts: a hub and agents as `harness` starts them. The test stands in for whoever acts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.clusters.ports import free_port
from tests.patience import wait_until
from tests.workloads.load_hosts import VERSION, Event, Part, keys
from workloads.hosts.fault_wire import Ask, FaultHello, refused_ask
from workloads.hosts.keys import LinkKey

GOOD: Event = {"number": 1, "run_id": "run-1", "action": "kill", "broker": 1, "begin_until_ns": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"action": "exec"}, {"broker": "x"}, {"broker": -1}, {"number": 0}, {"run_id": "../x"}, {"pid": 1},
        {"command": ["sh"]}, {"path": "/etc"}, {"signal": 9}, {"topic": "../x"}, {"topic": "a" * 250},
        {"partitions": 1_001}, {"begin_until_ns": 2**70},
    ],
)  # fmt: skip
def test_an_ask_has_a_broker_and_an_action_and_nothing_else(change: Event) -> None:
    assert Ask.model_validate(GOOD).action == "kill"
    with pytest.raises(ValidationError):
        Ask.model_validate(GOOD | change)


TOXIC: Event = {"name": "t", "type": "latency", "stream": "downstream", "attributes": {"latency": 5}}
OF_PROXY: Event = {"number": 1, "run_id": "run-1", "action": "proxy_cut", "proxy": "to-1", "begin_until_ns": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"broker": 1}, {"proxy": "127.0.0.1:1"}, {"proxy": "../x"}, {"proxy": None}, {"listen": "127.0.0.1:1"},
        {"upstream": "127.0.0.1:1"}, {"action": "kill"}, {"toxic": TOXIC}, {"action": "toxic_add"},
        {"action": "toxic_add", "toxic": TOXIC | {"url": "http://x"}},
        {"action": "toxic_add", "toxic": TOXIC | {"attributes": {"latency": -1}}},
        {"action": "toxic_add", "toxic": TOXIC | {"attributes": {"latency": "x"}}},
        {"action": "toxic_add", "toxic": TOXIC | {"type": "kafka_hide_topic", "attributes": {"topic": "a/b"}}},
        {"action": "toxic_add", "toxic": TOXIC | {"type": "kafka_hide_topic", "attributes": {"partition": -2}}},
        {"topics": ["t"]}, {"action": "requests_begin"}, {"action": "requests_end"},
        {"action": "toxic_add", "toxic": TOXIC | {"name": "a/b"}}, {"action": "probe"},
        {"action": "probe", "probe": {"timeout_ms": 1, "address": "127.0.0.1:1"}},
        {"action": "probe", "probe": {"timeout_ms": 10**9}},
    ],
)  # fmt: skip
def test_an_ask_about_a_proxy_has_its_name_and_no_address(change: Event) -> None:
    assert Ask.model_validate(OF_PROXY).who == "proxy to-1"
    assert Ask.model_validate(OF_PROXY | {"action": "toxic_add", "toxic": TOXIC}).toxic is not None
    of_kafka = TOXIC | {"type": "kafka_hide_topic", "attributes": {"topic": "", "partition": -1}}
    assert Ask.model_validate(OF_PROXY | {"action": "toxic_add", "toxic": of_kafka}).toxic is not None
    with pytest.raises(ValidationError):
        Ask.model_validate(OF_PROXY | change)


@pytest.mark.parametrize(
    "change",
    [
        {"topics": []}, {"topics": ["../x"]}, {"topics": ["t"] * 65}, {"broker": 1}, {"proxy": "to-1"},
        {"action": "requests_end"}, {"action": "requests_piece", "topics": [], "offset": -1}, {"path": "/etc"},
    ],
)  # fmt: skip
def test_an_ask_about_a_record_of_requests_names_topics_and_nothing_else(change: Event) -> None:
    begin = {"number": 1, "run_id": "run-1", "action": "requests_begin", "topics": ["t"], "begin_until_ns": 0}
    assert Ask.model_validate(begin).who == "the record of requests"
    with pytest.raises(ValidationError):
        Ask.model_validate(begin | change)


@pytest.mark.parametrize(
    "data", [None, 7, [], {}, {"number": 1}, {"number": True, "run_id": "a"}, {"number": 0, "run_id": "a"}]
)
def test_what_cannot_be_answered_is_not(data: Any) -> None:
    assert refused_ask(data, "no") is None


def test_the_answer_to_a_wrong_ask_is_bounded() -> None:
    answer = refused_ask({"number": 5, "run_id": "run-1"}, "x" * 100_000)
    assert answer is not None
    assert (answer.number, answer.is_refused, len(answer.problem)) == (5, True, 2_000)


def test_a_host_without_brokers_is_none() -> None:
    with pytest.raises(ValidationError):
        FaultHello.model_validate({"name": "a", "version": "1", "brokers": []})


class Side:
    """A hub, and agents that are told what to answer."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.master, self.worker = keys()
        self.parts: list[Part] = []
        self.hub = self._part("--fault-hub", self._hub_config(self.master), "hub")
        assert self.hub.next() == {"event": "ready"}

    def _hub_config(self, key: LinkKey) -> Event:
        return {
            "listen_host": "127.0.0.1", "listen_port": self.port, "key": key.document(), "version": VERSION,
            "run_id": "run-1", "t0_monotonic_ns": time.monotonic_ns(),
        }  # fmt: skip

    def _part(self, mode: str, config: Event, name: str) -> Part:
        self.parts.append(Part(mode, config, self.directory / f"{name}.stderr"))
        return self.parts[-1]

    def agent(self, name: str, *brokers: int, version: str = VERSION, **more: Any) -> Part:
        offers = [{"broker": broker, "allow": ["kill"], "has_logs": True} for broker in brokers]
        config = {
            "master_host": "127.0.0.1", "master_port": self.port, "key": self.worker.document(),
            "hello": {"name": name, "version": version, "brokers": offers, **more},
        }  # fmt: skip
        return self._part("--fault-agent", config, name)

    def hosts(self) -> Event:
        self.hub.say({"do": "hosts"})
        return self.hub.next_of("hosts")

    def wait_hosts(self, *names: str) -> None:
        def are_there() -> bool:
            found = self.hosts()["hosts"]
            return {host["hello"]["name"] for host in found} == set(names) and not any(
                host["clock_problem"] for host in found
            )

        wait_until(are_there, f"fault hosts {names}")

    def ask(self, host: str, number: int, **more: Any) -> None:
        ask = {"number": number, "action": "kill", "broker": 1, **more}
        self.hub.say({"do": "ask", "host": host, "ask": ask})

    def close(self) -> None:
        for part in self.parts:
            part.close()


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    found = Side(tmp_path)
    yield found
    found.close()


def next_with(agent: Part, key: str) -> Any:
    while key not in (line := agent.next()):
        pass
    return line[key]


def answer_to(ask: Event, **more: Any) -> Event:
    return {"number": ask["number"], "run_id": ask["run_id"], "is_done": True, **more}


@pytest.mark.slow
def test_an_ask_is_done_once_and_its_times_are_converted(side: Side) -> None:
    agent = side.agent("a", 1)
    assert next_with(agent, "run") == "run-1"
    side.wait_hosts("a")
    side.ask("a", 1)
    ask = next_with(agent, "ask")
    assert (ask["action"], ask["broker"]) == ("kill", 1)
    # The hub says it again each second. Nobody acts on it again, and nobody has answered: the worker is busy.
    began_s = time.monotonic()
    heard = 0
    while time.monotonic() - began_s < 3.5 or heard < 2:
        line = agent.next()
        assert "ask" not in line
        heard += "heard" in line
    # Otherwise the loop has no end: whoever acts hears that the master is there.
    now_ns = time.monotonic_ns()
    agent.say(answer_to(ask, from_ns=now_ns - 2_000_000, to_ns=now_ns))
    told = side.hub.next_of("answer")
    assert told["host"] == "a"
    assert told["answer"]["is_done"]
    assert abs(told["to_us"] - told["from_us"] - 2_000) <= 1
    assert told["clock_error_us"] > 0


@pytest.mark.slow
def test_an_answer_that_nobody_asked_for_is_left_out(side: Side) -> None:
    one, other = side.agent("a", 1), side.agent("b", 2)
    side.wait_hosts("a", "b")
    side.ask("a", 7)
    ask = next_with(one, "ask")
    other.say(answer_to(ask))  # not who was asked
    one.say(answer_to({**ask, "number": 8}))  # not what was asked
    one.say(answer_to(ask, problem="the right one"))
    assert side.hub.next_of("answer")["answer"]["problem"] == "the right one"
    side.ask("nobody", 9)
    assert side.hub.next_of("answer")["answer"]["problem"] == "fault host nobody: it is not there"


@pytest.mark.slow
def test_hosts_that_cannot_be_told_apart_are_refused_by_name(side: Side) -> None:
    proxy = {"name": "p", "links": ["internal-2-1"], "allow": ["cut"], "listen": "a:1", "upstream": "b:1"}
    side.agent("a", 1, 2, proxies=[proxy])
    side.wait_hosts("a")
    side.agent("b", 2)
    side.agent("d", proxies=[proxy])
    old = side.agent("c", 3, version="0.0.1")

    def refused() -> str:
        return " ".join(side.hosts()["refused"])

    wait_until(lambda: "both say that they have broker 2" in refused(), "b is refused")
    told = "fault hosts a and d both say that they have link internal-2-1"
    wait_until(lambda: told in refused(), "d is refused")
    wait_until(lambda: "fault host c has version 0.0.1" in refused(), "c is refused")
    assert "both need the same" in next_said(old, "both need the same")
    assert old.process.wait(timeout=60) == 3
    side.wait_hosts("a")


def next_said(agent: Part, words: str) -> str:
    while words not in (line := str(next_with(agent, "say"))):
        pass
    return line

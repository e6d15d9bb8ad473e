"""`chaos.toxiproxy.kafka.turns`: a toxic that waits for another one, on whichever proxy that acts."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from chaos.faults.base import FaultSpec
from chaos.faults.kafka_toxics import SPECS
from chaos.toxiproxy.api import Api
from chaos.toxiproxy.inputs import Strictness
from chaos.toxiproxy.kafka.turns import Turns, names_of
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.toxic import Toxic
from tests.chaos.kafka_wire import Wire, request, toxic


def named(name: str, kind: str, **attributes: Any) -> Toxic:
    made = toxic(kind, **attributes)
    made.name = name
    return made


def lost(**attributes: Any) -> Toxic:
    return named("lost", "kafka_close_connection", **attributes)


def refused(**attributes: Any) -> Toxic:
    return named("refused", "kafka_refuse_request", error_code=27, followers=0, after="lost", **attributes)


def two_wires(first: list[Toxic], second: list[Toxic]) -> tuple[Wire, Wire]:
    """Of two proxies of one server."""
    one, two = Wire(first), Wire(second)
    two.settings.turns = one.settings.turns
    return one, two


def ask(wire: Wire, number: int) -> bool:
    """Whether this request reaches the broker."""
    before = len(wire.to_broker)
    wire.send(request(number))
    wire.pass_ms(0)
    return len(wire.to_broker) > before


def test_it_neither_acts_nor_counts_before_the_other_one_has_acted() -> None:
    waiting = refused(skip=1)
    one, two = two_wires([lost(skip=1)], [waiting])
    assert [ask(two, number) for number in range(3)] == [True] * 3
    assert ask(one, 10), "the first one lets one pass"
    assert ask(two, 3)
    assert waiting.counters == {}
    assert not ask(one, 11)
    assert [ask(two, number) for number in range(4, 8)] == [True, False, True, True]
    assert waiting.counters == {"matched": 4, "acted": 1}


def test_the_request_that_the_other_one_meets_first_is_not_its_own() -> None:
    """Both are there for Heartbeat. What the first one does is decided when the request comes, before refusals are."""
    waiting = refused(count=0)
    wire = Wire([named("lost", "kafka_delay_response", delay_ms=50), waiting])
    assert ask(wire, 1)
    assert waiting.counters == {}
    assert not ask(wire, 2)


def test_requests_that_come_right_behind_are_its_own() -> None:
    """Several are in flight: they come in one piece, and nobody outside could place a toxic between them."""
    waiting = refused(count=2)
    one = Wire([named("lost", "kafka_delay_response", delay_ms=50), waiting])
    one.send(request(1), request(2), request(3), request(4))
    one.pass_ms(0)
    assert one.to_broker == request(1) + request(4)
    assert waiting.counters == {"matched": 3, "acted": 2}


def test_what_could_not_act_has_not_acted() -> None:
    """An answer of this version has no place for the error, so there is no fault yet that anything could follow."""
    refusing = named("lost", "kafka_refuse_request", api="DescribeLogDirs", followers=0)
    waiting = refused()
    wire = Wire([refusing, waiting])
    wire.send(request(1, "DescribeLogDirs", 1))
    assert refusing.counters == {"matched": 1, "acted": 0, "no_place": 1}
    assert ask(wire, 2)
    assert waiting.counters == {}


def test_a_name_is_forgotten_when_nobody_has_it_or_waits_for_it() -> None:
    turns, first, waiting = Turns(), lost(), refused()
    for each in (first, waiting):
        turns.hold(names_of(each))
    turns.note(first)
    turns.drop(names_of(first))
    assert turns.has_come(waiting, [])
    turns.drop(names_of(waiting))
    assert not turns.has_come(waiting, [])
    turns.take_back(first)  # its answer came when it was gone
    turns.hold(names_of(first))
    turns.note(first)
    assert turns.has_come(waiting, [])


# --- the server's API -------------------------------------------------------------------------------------------------


class Server:
    """With two proxies that listen nowhere."""

    def __init__(self) -> None:
        self._api = Api(wire_log=WireLog(None), rng=random.Random(1), strictness=Strictness.STRICT)
        for name in ("one", "two"):
            self.call("POST", "/proxies", name=name, listen="127.0.0.1:0", upstream="127.0.0.1:1", enabled=False)

    def call(self, method: str, path: str, **body: Any) -> None:
        answer = asyncio.run(self._api.handle(method, path, json.dumps(body).encode()))
        assert answer.status < 300, answer.content()

    def add(self, proxy: str, one: Toxic) -> None:
        shown = {**one.to_json()}
        shown.pop("counters")
        self.call("POST", f"/proxies/{proxy}/toxics", **shown)

    def wire(self, proxy: str) -> Wire:
        """A connection of this proxy."""
        made = Wire([])
        made.settings = made.tap._settings = made.tap._decisions._settings = self._api._proxies[proxy].kafka
        return made


@pytest.mark.parametrize(("gone", "method"), [("/proxies/one/toxics/lost", "DELETE"), ("/proxies/one", "DELETE")])
@pytest.mark.parametrize("has_acted", [True, False])
def test_it_goes_on_when_the_other_one_is_removed_if_that_one_had_acted(
    gone: str, method: str, has_acted: bool
) -> None:
    server = Server()
    server.add("one", lost())
    server.add("two", refused(count=0))
    one, two = server.wire("one"), server.wire("two")
    assert ask(two, 1)
    if has_acted:
        assert not ask(one, 2)
    server.call(method, gone)
    assert ask(two, 3) is not has_acted
    # Another one of that name, and nobody waits for the old one any more.
    server.call("DELETE", "/proxies/two/toxics/refused")
    server.add("two", lost(skip=1))
    server.add("two", refused(count=0))
    assert ask(server.wire("two"), 4)


def test_another_name_to_wait_for_can_be_given_while_it_is_there() -> None:
    server = Server()
    server.add("one", lost())
    server.add("two", refused(count=0))
    assert not ask(server.wire("one"), 1)
    attributes = {"attributes": {"after": "another"}}
    server.call("POST", "/proxies/two/toxics/refused", **attributes)
    assert ask(server.wire("two"), 2)
    server.call("POST", "/proxies/two/toxics/refused", attributes={"after": "lost"})
    assert not ask(server.wire("two"), 3)


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_scenario_names_steps_and_no_toxics(spec: FaultSpec) -> None:
    assert "after" not in spec.parameters
    assert "count" in spec.parameters

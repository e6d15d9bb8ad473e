"""Requests that get no answer, or one of the proxy's own: before the work, after it, never. No sockets, no clocks."""

from __future__ import annotations

import pytest

from broker.wire import codec
from chaos.toxiproxy.kafka import exchange
from chaos.toxiproxy.kafka.apis import API_KEYS
from tests.chaos.kafka_samples import VERSIONS
from tests.chaos.kafka_wire import Wire, request, response, toxic

HEARTBEAT = API_KEYS["Heartbeat"]
REBALANCE = 27


def test_a_refused_request_is_answered_in_its_turn_and_never_forwarded() -> None:
    wire = Wire([toxic("kafka_refuse_request", error_code=REBALANCE, skip=1)])
    wire.send(request(1), request(2), request(3))
    wire.pass_ms(0)
    assert wire.to_broker == request(1) + request(3)
    assert wire.to_client == b""  # the answer to 1 comes first
    wire.answer(response(3)[:0] + response(1))
    assert wire.to_client[: len(response(1))] == response(1)
    correlation_id, message = codec.decode_response(HEARTBEAT, 4, wire.to_client[len(response(1)) + 4 :])
    assert (correlation_id, int(message.error_code)) == (2, REBALANCE)
    wire.answer(response(3))
    assert wire.to_client.endswith(response(3))


@pytest.mark.parametrize("api", sorted(API_KEYS))
def test_every_api_is_refused_once_and_then_forwarded(api: str) -> None:
    version = 3 if api in ("DescribeLogDirs", "Produce") else 1 if api in ("SaslHandshake", "ShareFetch") else None
    version = version or max(number for each, _, number in VERSIONS if each == api)
    wire = Wire([toxic("kafka_refuse_request", api=api, followers=0)])
    wire.send(request(1, api, version))
    wire.pass_ms(0)
    assert (wire.to_broker, wire.to_client[4:8]) == (b"", (1).to_bytes(4, "big"))
    wire.send(request(2, api, version))
    assert wire.to_broker == request(2, api, version)


def test_a_request_without_a_place_for_an_error_passes_and_is_counted() -> None:
    refusing = toxic("kafka_refuse_request", api="DescribeLogDirs")
    wire = Wire([refusing])
    wire.send(request(1, "DescribeLogDirs", 1))
    assert wire.to_broker == request(1, "DescribeLogDirs", 1)
    assert refusing.counters == {"matched": 1, "acted": 0, "no_place": 1}


def test_a_request_that_is_never_worked_on_holds_back_the_later_ones_until_it_is_healed() -> None:
    silent = toxic("kafka_silence", skip=1)
    wire = Wire([silent])
    wire.send(request(1), request(2), request(3), request(4)[:9])
    wire.send(request(4)[9:])
    wire.answer(response(1))
    wire.pass_ms(3_600_000)
    assert (wire.to_broker, wire.to_client, wire.ended) == (request(1), response(1), [])
    wire.heal()
    assert wire.to_broker == request(1) + request(2) + request(3) + request(4)
    wire.answer(response(2), response(3), response(4))
    assert wire.to_client == response(1) + response(2) + response(3) + response(4)
    assert silent.counters == {"matched": 2, "acted": 1}


def test_a_response_that_is_kept_back_holds_back_the_later_ones_until_it_is_healed() -> None:
    wire = Wire([toxic("kafka_silence", when="after", skip=1)])
    wire.send(request(1), request(2), request(3))
    assert wire.to_broker == request(1) + request(2) + request(3)
    wire.answer(response(1), response(2), response(3))
    wire.pass_ms(3_600_000)
    assert wire.to_client == response(1)
    wire.heal()
    assert wire.to_client == response(1) + response(2) + response(3)


def test_a_silence_that_is_healed_before_the_answer_comes_holds_nothing_back() -> None:
    wire = Wire([toxic("kafka_silence", when="after")])
    wire.send(request(1))
    wire.heal()
    wire.answer(response(1))
    assert wire.to_client == response(1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_silence_ends_after_its_time(when: str) -> None:
    wire = Wire([toxic("kafka_silence", when=when, silence_ms=500)])
    wire.send(request(1))
    if when == "after":
        wire.answer(response(1))
    wire.pass_ms(499)
    assert wire.to_client == b""
    wire.pass_ms(1)
    assert wire.to_broker == request(1)
    wire.answer(b"" if when == "after" else response(1))
    assert wire.to_client == response(1)
    wire.send(request(2))  # only once
    wire.answer(response(2))
    assert wire.to_client.endswith(response(2))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_silence_can_end_with_its_connection(when: str) -> None:
    wire = Wire([toxic("kafka_silence", when=when, at_heal="close")])
    wire.send(request(1), request(2))
    wire.answer(response(1) if when == "after" else b"")
    wire.heal()
    assert wire.ended == ["both"]
    assert wire.to_client == b""
    assert wire.to_broker == (b"" if when == "before" else request(1) + request(2))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_silence_can_stay_for_good_and_then_keeps_nothing(when: str) -> None:
    wire = Wire([toxic("kafka_silence", when=when, at_heal="stay")])
    wire.send(request(1), request(2))
    wire.answer(response(1) if when == "after" else b"")
    wire.heal()
    for number in range(3, 100):
        wire.send(request(number))
        wire.answer(response(number) if when == "after" else b"")
    wire.pass_ms(3_600_000)
    assert (wire.to_client, wire.ended) == (b"", [])
    assert (b"" if when == "before" else request(99)) == wire.to_broker[-len(request(99)) :]
    assert wire.tap._stall is None or not wire.tap._stall.later
    assert all(each.response is None for each in wire.tap._outstanding._exchanges)


def test_what_a_silence_holds_back_is_bounded_and_then_the_peer_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "HELD_BYTES_MAX", 100)
    monkeypatch.setattr("chaos.toxiproxy.kafka.tap.HELD_BYTES_MAX", 100)
    before = Wire([toxic("kafka_silence")])
    after = Wire([toxic("kafka_silence", when="after")])
    for number in range(1, 20):
        before.send(request(number))
        after.send(request(number))
        after.answer(response(number))
    assert not before.is_client_read
    assert not after.is_broker_read
    assert after.to_client == b""  # a delay would end here, a silence does not
    before.heal()
    after.heal()
    assert before.is_client_read
    assert after.is_broker_read
    assert before.to_broker == b"".join(map(request, range(1, 20)))
    assert after.to_client == b"".join(map(response, range(1, 20)))


def test_each_request_of_a_silence_without_limit_is_silent_anew() -> None:
    wire = Wire([toxic("kafka_silence", count=0, silence_ms=100)])
    wire.send(request(1), request(2))
    for done in (1, 2):
        wire.pass_ms(100)
        assert wire.to_broker == b"".join(map(request, range(1, done + 1)))


def test_a_connection_is_closed_before_the_work() -> None:
    wire = Wire([toxic("kafka_close_connection", skip=1)])
    wire.send(request(1), request(2), request(3))
    wire.send(request(4))
    assert wire.to_broker == request(1)
    assert wire.ended == ["client"]
    wire.answer(response(1))
    assert wire.ended == ["client", "broker"]  # not before the first request was answered
    assert wire.to_client == b""


def test_a_connection_without_open_requests_is_closed_at_once() -> None:
    wire = Wire([toxic("kafka_close_connection")])
    wire.send(request(1))
    wire.pass_ms(0)
    assert (wire.to_broker, wire.ended) == (b"", ["client", "broker"])


def test_a_connection_is_closed_after_the_work_whatever_the_answer_is() -> None:
    wire = Wire([toxic("kafka_close_connection", api="Produce", when="after", skip=1)])
    wire.send(request(1, "Produce", 9), request(2, "Produce", 9))
    failed = response(2, "Produce", 9)
    wire.answer(response(1, "Produce", 9), failed)
    assert wire.to_broker == request(1, "Produce", 9) + request(2, "Produce", 9)
    assert wire.to_client == response(1, "Produce", 9)
    assert wire.ended[:1] == ["client"]


def test_a_toxic_of_one_group_leaves_the_others_alone() -> None:
    wire = Wire([toxic("kafka_silence", group="other")])
    wire.send(request(1))
    assert wire.to_broker == request(1)
    wire = Wire([toxic("kafka_silence", group="group_id-0")])
    wire.send(request(1))
    assert wire.to_broker == b""

"""The Kafka toxics over real sockets, between a test's client and a tiny fake broker; the wire log they leave."""

from __future__ import annotations

import itertools
import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire import codec
from chaos.toxiproxy.calls import InvalidRequest
from chaos.toxiproxy.lookup import RunningServer, start_embedded
from chaos.toxiproxy.states import ProxySpec

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

pytestmark = pytest.mark.slow  # real processes
NUMBERS = itertools.count(1)  # of proxies
HOLD_MS_MAX = 60_000  # no test waits for it: longer than a busy host takes to send what ends the hold


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def wire_server(directory: Path) -> Iterator[RunningServer]:
    """One for all tests. Each has a proxy of its own in it, and sees the lines of that one."""
    server = start_embedded(wire_log=directory / "wire.jsonl", log_path=directory / "log.txt")
    yield server
    server.stop()
    assert "Traceback" not in (directory / "log.txt").read_text()


@pytest.fixture
def wire(directory, kafka):
    def lines(count: int) -> list[dict]:
        deadline = time.monotonic() + 60
        while True:
            path = directory / "wire.jsonl"
            whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # the last line may be half there
            found = [line for line in map(json.loads, whole.splitlines()) if line["proxy"].startswith(kafka.proxy)]
            if len(found) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    return lines


@pytest.fixture
def kafka(upstream_factory):
    fake = kf.FakeKafka()
    fake.address = upstream_factory(fake.serve).address
    fake.proxy = f"client-{next(NUMBERS)}-"
    return fake


@pytest.fixture
def toxiproxy(wire_server, kafka):
    client = wire_server.client()
    kafka.listen = client.create(ProxySpec(name=kafka.proxy, upstream=kafka.address)).listen
    yield client
    client.delete(kafka.proxy)
    client.close()


def connect(kafka) -> socket.socket:
    host, _, port = kafka.listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answer(connection: socket.socket, version: int = 9) -> tuple[int, int, int]:
    """(correlation id, error code, base offset) of the next Produce response."""
    correlation_id, message = codec.decode_response(0, version, kf.read_frame(connection))
    partition = message.responses[0].partition_responses[0]
    return correlation_id, int(partition.error_code), int(partition.base_offset)


def test_dropped_response_was_appended_and_the_client_is_cut_off(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_drop_response", {"skip": 1, "count": 1})
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1, crc=11))
        assert answer(connection) == (1, 0, 0)
        connection.sendall(kf.produce_frame(9, 2, crc=12))
        assert kf.read_frame(connection) == b""  # the end, not a reset
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 3, crc=12))
        assert answer(connection) == (3, 0, 6)
    assert kafka.appended == [(1, 0, 0), (2, 0, 3), (3, 0, 6)]
    assert [(e["crc"], e["attempt"], e["outcome"], e["base_offset"], e["error_code"]) for e in wire(3)] == [
        (11, 1, "delivered", 0, 0),
        (12, 1, "dropped", 3, 0),
        (12, 2, "delivered", 6, 0),
    ]
    assert toxiproxy.toxic(kafka.proxy, "kafka_drop_response_downstream").counters == {"matched": 3, "acted": 1}


def test_all_outstanding_responses_of_a_cut_connection_are_recorded_as_dropped(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_drop_response", {"count": 1})
    kafka.gate.clear()
    with connect(kafka) as connection:
        for i in range(1, 5):
            connection.sendall(kf.produce_frame(9, i, crc=20 + i))
        kafka.wait_appended(4)  # so all four are outstanding
        kafka.gate.set()
        assert kf.read_frame(connection) == b""
        connection.sendall(kf.produce_frame(9, 9, crc=29))  # after the cut: the broker must never see it
        lines = wire(4)
        time.sleep(0.2)
    assert [(e["crc"], e["outcome"], e["base_offset"]) for e in lines] == [
        (21, "dropped", 0),
        (22, "dropped", 3),
        (23, "dropped", 6),
        (24, "dropped", 9),
    ]
    assert [entry[0] for entry in kafka.appended] == [1, 2, 3, 4]


def test_refused_request_is_never_forwarded_and_comes_behind_its_follower(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"skip": 1, "hold_ms_max": HOLD_MS_MAX})
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1, crc=31) + kf.produce_frame(9, 2, crc=32))
        assert answer(connection) == (1, 0, 0)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)  # held: without a follower the retry would overtake nobody
        connection.settimeout(60)
        connection.sendall(kf.produce_frame(9, 3, crc=33))
        assert answer(connection) == (2, 6, -1)
        connection.sendall(kf.produce_frame(9, 4, crc=32))
        assert answer(connection) == (3, 0, 3)
        assert answer(connection) == (4, 0, 6)
    assert [entry[0] for entry in kafka.appended] == [1, 3, 4]
    lines = {(e["crc"], e["attempt"]): e for e in wire(4)}
    assert (lines[32, 1]["outcome"], lines[32, 1]["error_code"], lines[32, 1]["forwarded"]) == ("refused", 6, False)
    assert lines[32, 1]["followers"] == 1
    assert lines[32, 2]["outcome"] == "delivered"
    assert lines[32, 1]["mono_ns"] < lines[33, 1]["mono_ns"] < lines[32, 2]["mono_ns"]
    assert lines[33, 1]["base_offset"] < lines[32, 2]["base_offset"]


def test_responses_keep_their_order_behind_a_held_refusal(toxiproxy, kafka):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"followers": 3, "hold_ms_max": HOLD_MS_MAX})
    with connect(kafka) as connection:
        for i in range(1, 4):
            connection.sendall(kf.produce_frame(9, i))
        kafka.wait_appended(2)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)  # 2 and 3 are answered, but 1 comes first
        connection.settimeout(60)
        connection.sendall(kf.produce_frame(9, 4))
        assert [answer(connection)[0] for _ in range(4)] == [1, 2, 3, 4]


def test_refusal_without_followers_comes_after_the_longest_hold(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"hold_ms_max": 150})
    with connect(kafka) as connection:
        start = time.monotonic()
        connection.sendall(kf.produce_frame(9, 1))
        assert answer(connection)[1] == 6
        assert 0.12 < time.monotonic() - start < 20
    (line,) = wire(1)
    assert line["followers"] == 0
    assert line["held_us"] >= 120_000
    assert kafka.appended == []


def test_followers_of_other_partitions_do_not_count(toxiproxy, kafka):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"partition": 0, "hold_ms_max": 400})
    with connect(kafka) as connection:
        start = time.monotonic()
        connection.sendall(kf.produce_frame(9, 1, partitions=(0,)) + kf.produce_frame(9, 2, partitions=(1,)))
        assert answer(connection)[:2] == (1, 6)
        assert time.monotonic() - start > 0.35
        assert answer(connection)[:2] == (2, 0)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_toxics_work_in_every_form_of_the_protocol(toxiproxy, kafka, wire, version):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"topic": kf.TOPIC, "followers": 0, "error_code": 19})
    with connect(kafka) as connection:
        connection.sendall(kf.metadata_frame(1))
        kf.read_frame(connection)
        connection.sendall(kf.produce_frame(version, 2))
        assert answer(connection, version) == (2, 19, -1)
        connection.sendall(kf.produce_frame(version, 3))
        assert answer(connection, version) == (3, 0, 0)
    assert [(line["topic"], line["outcome"]) for line in wire(2)] == [(kf.TOPIC, "refused"), (kf.TOPIC, "delivered")]


def test_toxic_armed_on_an_open_connection_acts_from_the_next_frame(toxiproxy, kafka, wire):
    with connect(kafka) as connection:
        first = kf.produce_frame(9, 1)
        connection.sendall(first[:30])
        time.sleep(0.1)
        toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"skip": 1, "followers": 0})
        connection.sendall(first[30:])
        assert answer(connection)[:2] == (1, 0)
        connection.sendall(kf.produce_frame(9, 2))
        assert answer(connection)[:2] == (2, 6)
        toxiproxy.remove_toxic(kafka.proxy, "kafka_refuse_request_downstream")
        connection.sendall(kf.produce_frame(9, 3))
        assert answer(connection)[:2] == (3, 0)


def test_matching_by_client_skip_every_and_count(toxiproxy, kafka):
    attributes = {"client_id": "me", "skip": 1, "every": 2, "count": 2, "followers": 0}
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", attributes)
    with connect(kafka) as connection:
        errors = []
        for i in range(8):
            connection.sendall(kf.produce_frame(9, 100 + i, client_id="other"))
            assert answer(connection)[1] == 0
            connection.sendall(kf.produce_frame(9, i, client_id="me"))
            errors.append(answer(connection)[1])
    assert errors == [0, 6, 0, 6, 0, 0, 0, 0]


def test_acks_0_is_logged_unanswered_and_neither_refused_nor_dropped(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"followers": 0})
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1, acks=0))
        kafka.wait_appended(1)
    assert [(e["outcome"], e["acks"]) for e in wire(1)] == [("unanswered", 0)]


def test_broker_that_dies_leaves_its_requests_unanswered(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", {"skip": 1000})
    kafka.gate.clear()
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        kafka.wait_appended(1)
        toxiproxy.disable(kafka.proxy)
        assert [(e["outcome"], e["base_offset"]) for e in wire(1)] == [("unanswered", -1)]


def test_latency_behind_a_dropped_response_loses_no_earlier_one(toxiproxy, kafka):
    toxiproxy.add_toxic(kafka.proxy, "latency", {"latency": 150})
    toxiproxy.add_toxic(kafka.proxy, "kafka_drop_response", {"skip": 2})
    with connect(kafka) as connection:
        connection.sendall(b"".join(kf.produce_frame(9, i) for i in (1, 2, 3)))
        assert [answer(connection)[0], answer(connection)[0]] == [1, 2]
        assert kf.read_frame(connection) == b""


def test_a_held_request_reaches_the_broker_after_what_its_client_sent_next(toxiproxy, kafka):
    # The client's next request must come within the hold. A busy host may need longer for that than a short hold.
    for delay_ms in (400, 3_000, 20_000, HOLD_MS_MAX):
        kafka.appended.clear()
        attributes = {"api": "Produce", "skip": 1, "count": 1, "delay_ms": delay_ms}
        toxiproxy.add_toxic(kafka.proxy, "kafka_hold_request", attributes)
        with connect(kafka) as connection:
            connection.sendall(kf.produce_frame(9, 1))
            assert answer(connection)[0] == 1
            sent_s = time.monotonic()
            connection.sendall(kf.produce_frame(9, 2))
            assert kf.read_frame(connection) == b""  # the end: it will send that again
        with connect(kafka) as connection:
            connection.sendall(kf.produce_frame(9, 3))
            assert answer(connection)[0] == 3
        was_in_time = time.monotonic() - sent_s < delay_ms / 1000
        kafka.wait_appended(3)
        assert time.monotonic() - sent_s >= delay_ms / 1000
        deadline = time.monotonic() + 60
        while "answered" not in (counters := toxiproxy.toxics(kafka.proxy)["kafka_hold_request_downstream"].counters):
            assert time.monotonic() < deadline, counters
            time.sleep(0.02)
        assert (counters["acted"], counters["released"], counters["answered"]) == (1, 1, 1)
        if was_in_time:
            break
        toxiproxy.remove_toxic(kafka.proxy, "kafka_hold_request_downstream")
    assert [entry[0] for entry in kafka.appended] == [1, 3, 2]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_silence_lasts_until_it_is_healed_and_then_all_is_answered_in_order(toxiproxy, kafka, when):
    toxiproxy.add_toxic(kafka.proxy, "kafka_silence", {"when": when, "skip": 1})
    with connect(kafka) as connection, connect(kafka) as other:
        for i in (1, 2, 3):
            connection.sendall(kf.produce_frame(9, i))
        assert answer(connection)[0] == 1
        other.sendall(kf.produce_frame(9, 9))
        assert answer(other)[0] == 9  # other connections go on
        if when == "after":
            kafka.wait_appended(4)
        assert [number for number, _, _ in kafka.appended if number in (2, 3)] == ([2, 3] if when == "after" else [])
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(60)
        toxiproxy.remove_toxic(kafka.proxy, "kafka_silence_downstream")
        assert [answer(connection)[0] for _ in range(2)] == [2, 3]
    assert sorted(number for number, _, _ in kafka.appended) == [1, 2, 3, 9]


def test_a_client_that_leaves_a_silence_takes_its_requests_with_it(toxiproxy, kafka, wire):
    toxiproxy.add_toxic(kafka.proxy, "kafka_silence", {})
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1) + kf.produce_frame(9, 2))
    assert [(line["outcome"], line["forwarded"]) for line in wire(1)] == [("unanswered", False)]
    toxiproxy.remove_toxic(kafka.proxy, "kafka_silence_downstream")
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 3))
        assert answer(connection)[0] == 3
    assert [number for number, _, _ in kafka.appended] == [3]


def test_a_closed_connection_is_an_end_and_not_a_reset(toxiproxy, kafka):
    toxiproxy.add_toxic(kafka.proxy, "kafka_close_connection", {"skip": 1})
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        assert answer(connection)[0] == 1
        connection.sendall(kf.produce_frame(9, 2))
        assert kf.read_frame(connection) == b""
    assert [number for number, _, _ in kafka.appended] == [1]


def test_nothing_is_logged_while_nothing_is_armed_and_kafka_log_turns_it_on(wire_server, toxiproxy, kafka, wire):
    with connect(kafka) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        answer(connection)
    assert wire(0) == []
    toxiproxy.create(ProxySpec(name=f"{kafka.proxy}logged", upstream=kafka.address, kafka_log=True))
    host, _, port = toxiproxy.proxy(f"{kafka.proxy}logged").listen.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(kf.produce_frame(9, 1))
        answer(connection)
    assert [line["proxy"] for line in wire(1)] == [f"{kafka.proxy}logged"]


def test_bytes_that_are_not_kafka_pass_an_armed_proxy(wire_server, echo_upstream):
    client = wire_server.client()
    listen = client.create(ProxySpec(name="q", upstream=echo_upstream.address, kafka_log=True)).listen
    host, _, port = listen.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(100) == b"GET / HTTP/1.1\r\n\r\n"
    client.close()


def test_bad_attributes_are_refused(toxiproxy, kafka):
    for attributes in ({"api": "Fetch", "followers": 2}, {"error_code": 0}, {"every": 0}, {"group": "g"}):
        with pytest.raises(InvalidRequest):
            toxiproxy.add_toxic(kafka.proxy, "kafka_refuse_request", attributes)

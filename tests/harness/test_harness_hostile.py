"""Whoever connects to a hostile broker ends within its own bounds, with an error of its own, and dies of nothing."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from broker.door.clients import Consumer, KafkaError, Producer, TopicPartition
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader
from harness.clusters.base import Address
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.log_reader import TopicLogReader
from harness.clusters.requests.probe import BrokerProbe
from tests.harness.hostile_broker import (
    MANNERS,
    Answer,
    HostileBroker,
    Manner,
    claims_billions,
    drips,
    empty_answer,
    giant_frame,
    no_coordinator,
    no_topics,
    silent,
)
from tests.patience import run_command

pytestmark = pytest.mark.slow  # waits out time-outs of real sockets

NOTHING: frozenset[int] = frozenset()
GREETS = frozenset({int(ApiKey.API_VERSIONS)})
TELLS = GREETS | {int(ApiKey.METADATA)}
SLACK_S = 20.0  # of a busy host


@pytest.fixture(autouse=True)
def no_thread_dies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    died: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: died.append(repr(args.exc_value)))
    yield
    assert died == []


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < seconds + SLACK_S


def with_each_manner(check: Callable[[Manner], None]) -> None:
    """All at once, because each waits out time-outs of its own. AssertionError names the manners that failed."""
    with ThreadPoolExecutor(len(MANNERS)) as pool:
        outcomes = {manner.__name__: pool.submit(check, manner) for manner in MANNERS}
    errors = {name: outcome.exception() for name, outcome in outcomes.items()}
    assert {name: repr(error) for name, error in errors.items() if error is not None} == {}


def test_a_probe_gives_an_answer_or_none_in_time() -> None:
    calls: list[Callable[[BrokerProbe], object]] = [
        lambda probe: probe.metadata("t"), lambda probe: probe.topic_id("t"), lambda probe: probe.broker_addresses(),
        lambda probe: probe.epoch_end_offset("t", 0, 1),
        lambda probe: probe.quorum_leader(), lambda probe: probe.group_coordinator("g"),
        lambda probe: probe.end_offset("t", 0),
    ]  # fmt: skip

    def check(manner: Manner) -> None:
        for polite in (NOTHING, GREETS):
            with HostileBroker(manner, polite=polite) as broker:
                for call in calls:
                    address = Address(host="127.0.0.1", port=broker.port)
                    with BrokerProbe(address, timeout_s=0.2) as probe, within(0.4), contextlib.suppress(KafkaError):
                        call(probe)

    with_each_manner(check)


def test_settings_and_the_final_read_meet_nothing_but_their_own_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.requests.log_reader._STALL_TIMEOUT_S", 0.3)
    monkeypatch.setattr("harness.clusters.requests.admin.REQUEST_TIMEOUT_MS", 200 - 1_000)  # it waits a second longer

    def read(manner: Manner, polite: frozenset[int]) -> None:
        with HostileBroker(manner, polite=polite) as broker:
            address = Address(host="127.0.0.1", port=broker.port)
            admin = Admin(lambda: (address,))
            with within(3):
                assert isinstance(admin.topic_config("t"), dict)
            reader = TopicLogReader("t", lambda partition: BrokerProbe(address, timeout_s=0.2))
            with within(3), contextlib.suppress(TimeoutError):
                reader.end_offset(0)
            with within(3), contextlib.suppress(TimeoutError):
                list(reader.batches(0, 10, from_offset=0))

    def check(manner: Manner) -> None:
        for polite in (NOTHING, GREETS):
            read(manner, polite)

    with_each_manner(check)


@pytest.mark.parametrize("polite", [GREETS, TELLS], ids=("greets", "tells"))
def test_the_reference_client_ends_with_its_own_error(polite: frozenset[int]) -> None:
    limits = {"request.timeout.ms": "300", "socket.connection.setup.timeout.ms": "300"}

    def check(manner: Manner) -> None:
        with HostileBroker(manner, polite=polite) as broker:
            at = {"bootstrap.servers": broker.address, **limits}
            with within(1.5):
                producer = Producer({**at, "delivery.timeout.ms": "500", "linger.ms": "0", "max.block.ms": "300"})
                error = producer.send("t", b"x").exception(SLACK_S)
                assert isinstance(error, KafkaError)
                assert "died" not in str(error)
                producer.close(1)
            with within(1.5):
                consumer = Consumer({**at, "auto.offset.reset": "earliest", "default.api.timeout.ms": "400"})
                consumer.assign([TopicPartition("t", 0)])
                with contextlib.suppress(KafkaError):
                    assert not consumer.poll(200)
                consumer.close()

    with_each_manner(check)


@pytest.mark.parametrize(
    "manner", [no_coordinator, no_topics, empty_answer, claims_billions], ids=lambda each: each.__name__
)
def test_a_group_member_goes_on_asking(manner: Manner, caplog: pytest.LogCaptureFixture) -> None:
    """An answer without a coordinator ended the member's thread; after one that could not be decoded it asked no more.
    `poll` may raise a KafkaError, and goes on after it."""
    asked = 0

    def counted(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        nonlocal asked
        asked += 1
        yield from manner(broker, header, message)

    limits = {"request.timeout.ms": "300", "default.api.timeout.ms": "400"}
    with HostileBroker(counted, polite=TELLS) as broker:
        consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", **limits})
        consumer.subscribe(["t"])
        deadline_s = time.monotonic() + 60
        while asked < 5:
            with contextlib.suppress(KafkaError):
                assert not consumer.poll(200)
            assert time.monotonic() < deadline_s, f"only {asked} requests came"
        consumer.close()
    assert "member_thread_died" not in caplog.text


def test_a_client_survives_an_answer_to_its_greeting_that_claims_billions() -> None:
    with HostileBroker(claims_billions) as broker:
        limits = {"delivery.timeout.ms": "500", "request.timeout.ms": "300", "linger.ms": "0", "max.block.ms": "300"}
        producer = Producer({"bootstrap.servers": broker.address, **limits})
        assert isinstance(producer.send("t", b"x").exception(SLACK_S), KafkaError)
        producer.close(1)


SUITE = """
name: hostile
topic: {replication_factor: 1, partitions: 1}
workload: {rate_per_s: 100, record_size_bytes: 100, warmup_ms: 200, measure_ms: 500, drain_ms: 500}
sweep: {baseline: {acks: all}, vary: {linger.ms: [5]}, repetitions: 1}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "manner",
    [drips, *(pytest.param(manner, marks=pytest.mark.long) for manner in (silent, giant_frame))],
    ids=lambda manner: manner.__name__,
)
def test_a_run_on_a_hostile_address_exits_with_3_and_says_where(tmp_path: Path, manner: Manner) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    with HostileBroker(manner) as broker:
        done = run_command(
            [sys.executable, "-m", "harness", "run", str(suite), "--yes", "--cluster", "external",
             "--bootstrap-server", broker.address, "--no-report",
             "--no-certify", "--run-dir", str(tmp_path / "run")],
        )  # fmt: skip
        assert done.returncode == 3, done.stderr[-1500:]
        assert broker.address in done.stderr
        assert "Traceback" not in done.stderr

"""Apache Kafka's Java client in its own JVM: built from source, driven by a real load, refusals by name."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.kafka.jars import ensure_jars, java_command
from runlog.streams.compact import compact_cell
from runlog.streams.schema import RECV, SEND, SendStatus
from tests.workloads.load_process import Load
from tests.workloads.reference_broker import ReferenceBroker
from tests.workloads.test_workloads_fates import outcome_of
from workloads.clients import make_consumer, make_producer
from workloads.clients.java import build
from workloads.clients.protocol import ClientError, ClientSetup, PropertyError

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
SINK: Any = SimpleNamespace(timed=None)  # nothing is sent


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = tmp_path_factory.mktemp("cache")
    built = build.build(ensure_jars(), cache, java_command())
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*.class")}
    assert before
    assert build.build(ensure_jars(), cache, java_command()) == built
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.class")} == before  # built once
    return built


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    running = ReferenceBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


def test_every_record_of_the_java_client_is_acked_logged_once_and_read(
    tmp_path: Path, broker: ReferenceBroker, runtime: dict[str, str]
) -> None:
    broker.create_topics("java", config={"message.timestamp.type": "LogAppendTime"})
    workload = {
        "rate_per_s": 2_000, "record_size_bytes": 200, "consumers": 1, "keys": "uniform",
        "warmup_ms": 1_000, "measure_ms": 1_000, "drain_ms": 60_000,
    }  # fmt: skip
    properties = {"linger.ms": 3, "enable.idempotence": True, "compression.type": "lz4"}
    load = Load(
        tmp_path, broker.address, workload, properties, client="java", topic="java", runtime=runtime,
        log_append_time=True,
    )  # fmt: skip
    assert load.finish() == 0, load.events[-3:]
    assert load.done["effective"]["client"]["client.library"] == build.library_of(runtime["java.classpath"])
    assert re.match(r"kafka-clients \d+\.\d+", build.library_of(runtime["java.classpath"]))
    compact_cell(tmp_path, "c1")
    sent = load.rows(SEND.name)
    assert len(sent) == 4_000
    assert {row["status"] for row in sent} == {SendStatus.ACKED}
    assert all(row["intended_us"] <= row["sent_us"] <= row["acked_us"] for row in sent)
    assert all(row["sent_us"] - 1_000 <= row["appended_us"] <= row["acked_us"] for row in sent)
    places = sorted((row["partition"], row["offset"], row["producer"], row["seq"]) for row in sent)
    received = load.rows(RECV.name)
    assert sorted((row["partition"], row["offset"], row["producer"], row["seq"]) for row in received) == places
    assert all(row["crc_ok"] == 1 and row["appended_us"] <= row["polled_us"] for row in received)
    effective = load.done["effective"]["client"]
    assert (effective["linger.ms"], effective["acks"], effective["batch.size"]) == ("3", "-1", "16384")


def _setup(runtime: dict[str, str], **properties: str) -> ClientSetup:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientSetup(bootstrap_servers="127.0.0.1:1", topics=("t",), properties=named, runtime=runtime)


def test_a_property_that_kafkas_client_does_not_have_or_refuses_is_named(runtime: dict[str, str]) -> None:
    with pytest.raises(PropertyError, match=r"client java cannot set linger.mss: .*did you mean linger\.ms"):
        make_producer("java", _setup(runtime, linger_mss="5"), SINK)
    with pytest.raises(PropertyError, match=r"client java cannot set batch.size: .*x"):
        make_producer("java", _setup(runtime, batch_size="x"), SINK)
    with pytest.raises(PropertyError, match=r"client java cannot set fetch.min.byte: .*did you mean fetch.min.bytes"):
        make_consumer("java", _setup(runtime, fetch_min_byte="1"))


def test_a_closed_client_writes_into_no_file_that_has_got_the_number_of_its_pipe(
    tmp_path: Path, runtime: dict[str, str]
) -> None:
    producer = make_producer("java", _setup(runtime), SINK)
    producer.close(5)
    with contextlib.ExitStack() as files:
        others = [files.enter_context((tmp_path / str(number)).open("wb")) for number in range(8)]
        producer.send("t", b"value", None, 0)
        with pytest.raises(ClientError, match="the client is closed"):
            producer.poll(0)
        producer.close(5)
        assert not any(os.fstat(other.fileno()).st_size for other in others)


def test_without_a_jvm_or_a_compiler_the_error_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"java\.command"):
        make_producer("java", _setup({}), SINK)
    with pytest.raises(build.JavaError, match=r"kafka-clients-\*\.jar"):
        build.build(tmp_path, tmp_path, java_command())


@pytest.mark.long
def test_the_jvm_follows_the_table_of_fates_that_it_is_told_at_start(runtime: dict[str, str]) -> None:
    """It had a table of its own, by which NOT_LEADER_OR_FOLLOWER after an append was a failure."""
    once = {"retries": "0", "acks": "all", "enable.idempotence": "false", "max.request.size": "2000"}
    found = [
        outcome_of("java", plan, once, size=size, runtime=runtime)
        for plan, size in ((lambda number: "late 6", 10), (lambda number: 19, 10), (lambda number: None, 5_000))
    ]
    assert found == [
        (SendStatus.UNKNOWN, True, 1),
        (SendStatus.FAILED, False, 1),
        (SendStatus.FAILED, False, 0),
    ]

"""A full or broken disk of ours never touches the traffic of others: what our proxies cannot write is told, and every
byte passes."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.toxiproxy.kafka import produce
from chaos.toxiproxy.kafka.settings import KafkaSettings
from chaos.toxiproxy.kafka.tap import KafkaTap
from chaos.toxiproxy.kafka.wire_log import WireLog
from chaos.toxiproxy.lookup import start_embedded
from chaos.toxiproxy.states import ProxySpec
from chaos.toxiproxy.toxics import kafka_drop_response, kafka_edit_response, kafka_refuse_request
from harness.clusters.base import Address, BrokerId, ClusterKey, Link
from harness.clusters.factory import build_cluster
from harness.clusters.ports import PortAllocator, free_port
from harness.clusters.proxies import LinkProxies
from harness.run.directory.outcome import Outcome
from harness.run.recording.cell_recording import CellRecording
from runlog.records.holes import HoleKind
from tests.chaos import kafka_frames as kf
from tests.chaos.conftest import Upstream
from tests.chaos.test_chaos_kafka_hostile import Control, toxic_of
from tests.patience import wait_until

FULL = Path("/dev/full")  # every write fails with ENOSPC
CORRELATION_ID = 7


def tap_over(wire_log: WireLog, *toxics: Any) -> KafkaTap:
    found = [toxic_of(module, "Produce", random.Random(1)) for module in toxics]
    settings = KafkaSettings(
        proxy="p", wire_log=wire_log, names=produce.TopicNames(), is_logging_asked=True,
        toxics=[toxic for toxic in found if toxic is not None],
    )  # fmt: skip
    return KafkaTap(settings, 1, Control(), random.Random(1))


def exchanged(tap: KafkaTap, version: int = 9) -> tuple[bytes, bytes]:
    """What the broker and the client got."""
    request = kf.produce_frame(version, CORRELATION_ID)
    answer = kf.produce_response_frame(version, CORRELATION_ID, {0: (0, 5)})
    return tap.forward(request)[-len(request) :], tap.backward(answer)


def test_a_wire_log_on_a_full_disk_stops_and_the_bytes_pass() -> None:
    log = WireLog(FULL)
    tap = tap_over(log)
    for _ in range(3):
        sent, answer = exchanged(tap)
        assert len(sent) > 100
        assert answer == kf.produce_response_frame(9, CORRELATION_ID, {0: (0, 5)})
    assert "No space left on device" in log.problem_after(timeout_s=60)
    assert not log.is_open, "nothing more is decoded for it"
    tap.closed()
    log.close()


def test_what_the_wire_log_cannot_make_of_a_request_stops_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: object, **_named: object) -> object:
        raise RuntimeError("a codec's own error")

    monkeypatch.setattr("chaos.toxiproxy.kafka.wire_log.decode_records", broken)
    log = WireLog(tmp_path / "wire.jsonl")
    tap = tap_over(log)
    assert exchanged(tap)[1] == kf.produce_response_frame(9, CORRELATION_ID, {0: (0, 5)})
    assert "a codec's own error" in log.problem_after(timeout_s=60)
    log.close()


@pytest.mark.parametrize("module", [kafka_refuse_request, kafka_drop_response, kafka_edit_response])
@pytest.mark.parametrize("size_bytes", range(8, 16))
def test_a_request_that_ends_within_its_header_passes(module: Any, size_bytes: int) -> None:
    """The client id was read outside of what forgives nonsense."""
    body = b"\0\0\0\x09\0\0\0\x07\0\x20name"[:size_bytes]
    frame = len(body).to_bytes(4, "big") + body
    assert tap_over(WireLog(None), module).forward(frame) == frame


def test_an_error_of_ours_within_a_toxic_lets_the_frame_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object, **_named: object) -> bytes:
        raise AttributeError("an error of ours")

    monkeypatch.setattr("chaos.toxiproxy.kafka.edits.with_error", broken)
    monkeypatch.setattr("chaos.toxiproxy.kafka.produce.refusal_frame", broken)
    toxic = toxic_of(kafka_edit_response, "Produce", random.Random(1))
    assert toxic is not None
    toxic.attributes |= {"error_code": 3, "topic": ""}
    tap = tap_over(WireLog(None), kafka_refuse_request)
    tap._settings.toxics.append(toxic)
    request = kf.produce_frame(9, CORRELATION_ID)
    assert tap.forward(request) == request
    answer = kf.produce_response_frame(9, CORRELATION_ID, {0: (0, 5)})
    assert tap.backward(answer) == answer


def test_requests_that_wait_for_their_answers_are_not_kept() -> None:
    """Ten thousand of up to 128 MiB each were, for lines that might be written."""
    settings = KafkaSettings(
        proxy="p", wire_log=WireLog(FULL), names=produce.TopicNames(), rewrites={("a", 1): ("b", 2)}
    )
    tap = KafkaTap(settings, 1, Control(), random.Random(1))
    tracemalloc.start()
    try:
        for number in range(100):
            tap.forward(kf.produce_frame(9, number, topic_name="t", client_id="c", payload_bytes=100_000))
        kept_bytes, _peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    settings.wire_log.close()
    assert kept_bytes < 1_000_000


Starter = Callable[[Sequence[str], Mapping[str, str], Path | None], "subprocess.Popen[bytes]"]


def with_stderr(kind: str) -> Starter:
    def start(command: Sequence[str], environment: Mapping[str, str], _log: Path | None) -> subprocess.Popen[bytes]:
        merged = {**os.environ, **environment}
        if kind == "closed":
            shell = ["/bin/sh", "-c", 'exec "$@" 2>&- >&-', "sh", *command]
            return subprocess.Popen(shell, stdin=subprocess.DEVNULL, env=merged, start_new_session=True)
        if kind == "full disk":
            with FULL.open("wb") as full:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=full, stderr=full, env=merged, start_new_session=True
                )
        reading, writing = os.pipe()
        if kind == "pipe that nobody reads":
            os.set_blocking(writing, False)
            for size in (65536, 1):
                while True:
                    try:
                        os.write(writing, b"x" * size)
                    except BlockingIOError:
                        break
            os.set_blocking(writing, True)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=writing, env=merged, start_new_session=True
        )
        os.close(writing)
        if kind == "broken pipe":
            os.close(reading)
        else:
            UNREAD.append(reading)
        return process

    return start


UNREAD: list[int] = []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["closed", "full disk", "broken pipe", "pipe that nobody reads"])
def test_a_server_that_cannot_tell_its_errors_serves_on(kind: str, echo_upstream: Upstream) -> None:
    """A failed dial is told on stderr. The client of it kept an open connection that nobody served."""
    server = start_embedded(starter=with_stderr(kind))
    client = server.client()
    try:
        refused = client.create(
            ProxySpec(name="refused", upstream=echo_upstream.address, upstream_tls={"server_name": "localhost"})
        )
        passing = client.create(ProxySpec(name="passing", upstream=echo_upstream.address))
        for _ in range(3):
            with connected(refused.listen) as connection:
                connection.sendall(b"ping")
                assert connection.recv(4) == b""
            with connected(passing.listen) as connection:
                connection.sendall(b"ping")
                assert connection.recv(4) == b"ping"
    finally:
        client.close()
        server.stop()
        while UNREAD:
            os.close(UNREAD.pop())


def connected(listen: str) -> socket.socket:
    host, _, port = listen.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=120)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", path], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")  # needs root
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.slow
def test_a_producer_through_the_proxy_notices_nothing_of_our_full_disk(tmp_path: Path, small_disk: Path) -> None:
    """Five of five sends timed out, and their records were in the log twice."""
    key = ClusterKey(engine="reference", proxied=False, brokers=1, settings=())
    cluster = build_cluster(key, tmp_path / "cluster", proxy_choice="embedded", lease=None, seed=0)
    told = tmp_path / "told.txt"
    server, client = None, None
    try:
        cluster.start()
        server = start_embedded(wire_log=small_disk / "wire.jsonl", log_path=told)
        client = server.client()
        broker = cluster.bootstrap_servers
        port = free_port()
        client.create(
            ProxySpec(
                name="clients", upstream=broker, listen=f"127.0.0.1:{port}", kafka_log=True,
                kafka_addresses={broker: f"127.0.0.1:{port}"},
            )
        )  # fmt: skip
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(timeout=120)
        assert client.request_log_problem() == ""
        (small_disk / "somebody-else").write_bytes(bytes(60 << 10))
        errors: list[object] = []
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0, "message.timeout.ms": 60_000})
        for number in range(SENDS):
            producer.produce("orders", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
            producer.flush(120)
            assert errors == [None] * (number + 1)
        assert consumed(broker, SENDS) == [b"%d" % number for number in range(SENDS)]
        assert "No space left on device" in client.request_log_problem()
        assert told.read_text().count("event=wire_log_stopped") == 1
        assert "Traceback" not in told.read_text()
    finally:
        if client is not None:
            client.close()
        if server is not None:
            server.stop()
        cluster.stop()


SENDS = 50


def consumed(broker: str, count: int) -> list[bytes]:
    """All that the log holds, in its order, read past the proxy."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "g", "auto.offset.reset": "earliest"})
    partition = TopicPartition("orders", 0, 0)
    consumer.assign([partition])
    found: list[bytes] = []
    try:
        _low, end = consumer.get_watermark_offsets(partition, timeout=120)
        wait_until(
            lambda: (
                found.extend(each.value() for each in consumer.consume(count, 1.0) if not each.error())
                or consumer.position([partition])[0].offset >= end
            ),
            "the whole log",
        )
    finally:
        consumer.close()
    return found


@pytest.mark.slow
def test_a_cell_whose_proxies_could_not_write_down_requests_has_a_hole(tmp_path: Path, upstream_factory: Any) -> None:
    directory = tmp_path / "proxies"
    directory.mkdir()
    (directory / "wire.jsonl").symlink_to(FULL)
    ports = PortAllocator()
    proxies = LinkProxies("embedded", directory=directory, lease=None, seed=0, ports=ports, logs_all_produce=True)
    host, _, port = upstream_factory(kf.FakeKafka().serve).address.rpartition(":")
    link = Link(
        kind="client", source=None, target=BrokerId(1), listen=Address(host="127.0.0.1", port=ports.take()),
        upstream=Address(host=host, port=int(port)),
    )  # fmt: skip
    proxies.open((link,))
    try:
        assert proxies.wire_log_problem() == ""
        with connected(str(link.listen)) as connection:
            connection.sendall(kf.produce_frame(9, CORRELATION_ID))
            assert kf.read_frame(connection)
        outcome = Outcome(started_us=0)
        recording = CellRecording.__new__(CellRecording)  # of the recorders only this one is meant
        recording._planned = SimpleNamespace(kind="chaos")  # type: ignore[assignment]
        recording._cluster = proxies  # type: ignore[assignment]
        recording._ask_wire_log(outcome)
    finally:
        proxies.close()
    assert outcome.record.holes is not None
    assert [(hole.kind, "No space left" in hole.what) for hole in outcome.record.holes] == [(HoleKind.REQUESTS, True)]

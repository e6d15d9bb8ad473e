"""`/metrics` of the embedded server is that of the original after the same traffic: names, labels, numbers, form."""

from __future__ import annotations

import http.client
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chaos.toxiproxy.lookup import RunningServer, find_binary, start_embedded, start_real
from chaos.toxiproxy.metrics import ProxyMetrics, Route, Traffic, go_float
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.ports import free_port

WAIT_S = 60
OPTIONS = ["-proxy-metrics"]
REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"), (7.0, "7"), (100000.0, "100000"), (999999.0, "999999"), (1e6, "1e+06"), (1234567.0, "1.234567e+06"),
        (123456789012.0, "1.23456789012e+11"), (0.25, "0.25"), (12.5, "12.5"), (0.0001, "0.0001"), (0.00001, "1e-05"),
        (1.5e100, "1.5e+100"), (-2.0, "-2"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_by_go(value: float, text: str) -> None:
    assert go_float(value) == text


def test_bytes_of_connections_that_last_and_of_those_that_ended_add_up() -> None:
    metrics, route = ProxyMetrics(), Route("upstream", "127.0.0.1:1", 'a "b"\\\n', "127.0.0.1:2")
    first, second = Traffic(received_bytes=5, sent_bytes=3), Traffic(received_bytes=10, sent_bytes=10)
    assert list(metrics.lines()) == []
    metrics.begin(route, first)
    metrics.begin(route, second)
    metrics.end(first)
    second.sent_bytes += 1
    labels = r'{direction="upstream",listener="127.0.0.1:1",proxy="a \"b\"\\\n",upstream="127.0.0.1:2"}'
    assert [line for line in metrics.lines() if not line.startswith("#")] == [
        f"toxiproxy_proxy_received_bytes_total{labels} 15",
        f"toxiproxy_proxy_sent_bytes_total{labels} 14",
    ]


@pytest.mark.slow
@pytest.mark.toxiproxy
def test_the_same_traffic_gives_the_same_metrics() -> None:
    binary = find_binary(os.environ.get("HARNESS_TOXIPROXY_SERVER"), [REPOSITORY / ".cache" / "bin"])
    if binary is None:
        pytest.skip("no toxiproxy-server; `make setup` builds it where Go is installed")
    with _echo() as upstream:
        ports = [free_port(), free_port()]
        wanted = _metrics_after_traffic(start_real(binary, options=OPTIONS), upstream, ports)
        found = _metrics_after_traffic(start_embedded(is_strict=False, options=OPTIONS), upstream, ports)
    assert found == wanted
    assert "} 2.345678e+06" in str(found), "large numbers were compared"


@pytest.mark.slow
def test_the_process_says_what_it_uses() -> None:
    server = start_embedded(options=["-runtime-metrics"])
    try:
        _, _, text = _metrics(server)
        values = dict(line.split(" ") for line in text.splitlines() if line.startswith("process_"))
        assert server.process is not None
        assert float(values["process_open_fds"]) < float(values["process_max_fds"])
        assert 1e6 < float(values["process_resident_memory_bytes"]) < float(values["process_virtual_memory_bytes"])
        assert 0 < float(values["process_cpu_seconds_total"]) < WAIT_S
        started_s = Path(f"/proc/{server.process.pid}").stat().st_mtime
        assert abs(float(values["process_start_time_seconds"]) - started_s) < WAIT_S
    finally:
        server.stop()


@pytest.mark.slow
def test_one_direction_may_end_while_the_other_goes_on() -> None:
    """The original closes both. Here the rest of an answer still comes, and all of it is counted."""
    server, size = start_embedded(options=OPTIONS), 1_000_000
    client = server.client()
    try:
        with _echo() as upstream:
            _, _, port = client.create(ProxySpec(name="p", upstream=upstream)).listen.rpartition(":")
            _round_trip(int(port), size, ends_first=True)
        _until(lambda: len(re.findall(r"\} 1e\+06$", _metrics(server)[2], re.MULTILINE)) == 4)
    finally:
        client.close()
        server.stop()


def _metrics_after_traffic(server: RunningServer, upstream: str, ports: list[int]) -> list[object]:
    """Of two proxies: what is answered before any traffic, after it, and to a POST."""
    seen: list[object] = []
    client = server.client()
    try:
        seen.append(_metrics(server))
        for name, port in zip(['with "quotes"', "plain"], ports, strict=True):
            client.create(ProxySpec(name=name, listen=f"127.0.0.1:{port}", upstream=upstream))
        _round_trip(ports[0], 1_111_111)
        _round_trip(ports[0], 1_234_567)
        _round_trip(ports[1], 10)
        counts = re.compile(r"^toxiproxy_.*\} (\S+)$", re.MULTILINE)
        # The original counts a connection when it has ended.
        _until(lambda: sum(map(float, counts.findall(_metrics(server)[2]))) == 4 * (1_111_111 + 1_234_567 + 10))
        seen += [_metrics(server), _metrics(server, method="POST")]
    finally:
        client.close()
        server.stop()
    return seen


def _metrics(server: RunningServer, method: str = "GET") -> tuple[int, str | None, str]:
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=WAIT_S)
    try:
        connection.request(method, "/metrics")
        answer = connection.getresponse()
        assert re.fullmatch("[a-v0-9]{20}", answer.getheader("X-Toxiproxy-Request-Id") or "")
        return answer.status, answer.getheader("Content-Type"), answer.read().decode()
    finally:
        connection.close()


def _round_trip(port: int, size: int, *, ends_first: bool = False) -> None:
    def send() -> None:
        connection.sendall(b"x" * size)
        if ends_first:
            connection.shutdown(socket.SHUT_WR)

    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        sender = threading.Thread(target=send)
        sender.start()
        left = size
        while left:  # to the end, because the original closes both directions with the first one
            data = connection.recv(1 << 16)
            assert data, f"{left} of {size} bytes did not come back"
            left -= len(data)
        sender.join(WAIT_S)


@contextmanager
def _echo() -> Iterator[str]:
    """Sends back what comes, and closes after the peer's end."""

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def _until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "the counts did not come"
        time.sleep(0.02)

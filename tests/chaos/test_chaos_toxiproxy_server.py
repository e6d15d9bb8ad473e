"""What only the embedded server does, and what hostile input must not do to it; the client's own errors."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests

from chaos.toxiproxy import lookup
from chaos.toxiproxy.calls import InvalidRequest, Unreachable
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.listening import may_listen
from chaos.toxiproxy.lookup import ServerUnavailable, find_binary, start_embedded, start_real, use_server
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.ports import free_port

pytestmark = pytest.mark.slow  # real processes


@pytest.fixture
def client(embedded_server):
    client = embedded_server.client()
    yield client
    client.reset()
    for name in client.proxies():
        client.delete(name)
    client.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def exchange(url: str, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port_of(url)), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size and (part := connection.recv(size - len(received))):
        received += part
    return received


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"x\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /version HTTP/2.0\r\n\r\n", 400),
        (b"GET version HTTP/1.1\r\n\r\n", 400),
        (b"BREW /version HTTP/1.1\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /version HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /proxies HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /proxies HTTP/1.1\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", 413),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400),
        (b"POST /proxies HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 30 + b"\r\n", 431),
        (b"GET /version HTTP/1.1\r\nx: " + b"a" * 200_000 + b"\r\n\r\n", 431),
    ],
)
def test_hostile_requests_get_an_answer_and_the_server_lives(client, data, status):
    received = exchange(client.url, data)
    assert received.startswith(b"HTTP/1.1 %d " % status), received[:200]
    body = json.loads(received.partition(b"\r\n\r\n")[2])
    assert body["status"] == status
    assert client.version()


def test_a_caller_that_waits_to_be_told_may_send_its_body(client):
    """As curl does before a body of more than a megabyte."""
    with socket.create_connection(("127.0.0.1", port_of(client.url)), timeout=60) as connection:
        connection.sendall(b"POST /populate HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert connection.recv(1024) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"[]")
        assert connection.recv(1024).startswith(b"HTTP/1.1 201 Created\r\n")


@pytest.mark.parametrize(
    ("type_name", "attributes"),
    [
        ("slicer", {}),
        ("slicer", {"average_size": 2, "size_variation": 9}),
        ("latency", {"latency": -1, "jitter": -1}),
        ("slow_close", {"delay": -1}),
        ("timeout", {"timeout": (1 << 63) - 1}),
        ("limit_data", {"bytes": (1 << 63) - 1}),
    ],
)
def test_without_strict_what_kills_toxiproxy_does_no_harm(drop_in_server, echo_upstream, type_name, attributes):
    url = drop_in_server.url
    body = {"name": "p", "listen": "127.0.0.1:0", "upstream": echo_upstream.address}
    try:
        listen = requests.post(f"{url}/proxies", json=body, timeout=60).json()["listen"]
        with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60) as connection:
            connection.sendall(b"before")
            assert receive(connection, 6) == b"before"
            asked = {"type": type_name, "attributes": attributes}
            assert requests.post(f"{url}/proxies/p/toxics", json=asked, timeout=60).status_code == 200
            if type_name != "timeout":
                connection.sendall(b"after")
                assert receive(connection, 5) == b"after"
    finally:
        assert requests.delete(f"{url}/proxies/p", timeout=60).status_code == 204


def test_the_options_of_the_original_and_its_config_file(tmp_path, echo_upstream):
    config = tmp_path / "proxies.json"
    config.write_text(json.dumps([{"name": "p", "listen": "127.0.0.1:0", "upstream": echo_upstream.address}]))
    command = [sys.executable, "-m", "chaos.toxiproxy.server", "-host", "127.0.0.1", "-port", "0"]
    with subprocess.Popen([*command, "-config", str(config)], stderr=subprocess.PIPE, text=True) as server:
        try:
            port = re.search(r"port=(\d+)", server.stderr.readline())[1]
            listen = requests.get(f"http://127.0.0.1:{port}/proxies/p", timeout=60).json()["listen"]
            assert exchange(listen, b"hi") == b"hi"
        finally:
            server.terminate()


def test_a_request_that_never_ends_is_no_answer_but_does_no_harm(client):
    assert exchange(client.url, b"POST /proxies HTTP/1.1\r\nContent-Length: 50\r\n\r\n{") == b""
    assert client.version()


@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, '{"name": 5}', '{"name": "x", "upstream": "nowhere"}', '{"name": "x", "upstream": "a:99999"}',
     '{"name": "x", "upstream": "a:1", "listen": "b"}', '{"name": "x", "upstream": "a:1", "enabled": "yes"}',
     '{"name": "' + "x" * 5000 + '", "upstream": "a:1"}', "null", "1", '{"name": "..", "upstream": "a:1"}',
     '"text"', "\x00", '{"name": "x", "upstream": "a:١"}'],
)  # fmt: skip
def test_hostile_bodies_are_400_and_make_no_proxy(client, body):
    answer = requests.post(client.url + "/proxies", data=body.encode(), timeout=60)
    assert answer.status_code == 400
    assert client.proxies() == {}


@pytest.mark.parametrize(
    ("type_name", "attributes"),
    [
        ("slicer", {}),
        ("slicer", {"average_size": 0}),
        ("slicer", {"average_size": 5, "size_variation": 6}),
        ("bandwidth", {"rate": -1}),
        ("latency", {"latency": -1}),
        ("latency", {"latency": 1 << 70}),
        ("latency", {"latency": True}),
    ],
)
def test_values_that_kill_toxiproxy_are_400(client, echo_upstream, type_name, attributes):
    client.create(ProxySpec(name="p", upstream=echo_upstream.address))
    with pytest.raises(InvalidRequest):
        client.add_toxic("p", type_name, attributes)
    assert client.toxics("p") == {}


def test_unknown_attribute_is_400_even_if_sent(client, echo_upstream):
    client.create(ProxySpec(name="p", upstream=echo_upstream.address))
    body = {"type": "latency", "attributes": {"latancy": 5}}
    answer = requests.post(client.url + "/proxies/p/toxics", json=body, timeout=60)
    assert answer.status_code == 400
    assert "did you mean 'latency'" in answer.json()["error"]


@pytest.mark.parametrize("name", ["a/b", "ü ?#%", "..."])
def test_names_with_any_sign_can_be_reached(client, echo_upstream, name):
    client.create(ProxySpec(name=name, upstream=echo_upstream.address))
    client.add_toxic(name, "latency", {"latency": 1}, name=name)
    assert client.toxic(name, name).attributes["latency"] == 1
    client.remove_toxic(name, name)
    client.disable(name)
    client.delete(name)
    assert client.proxies() == {}


def test_half_closed_connection_still_answers(client, upstream_factory):
    def answer_after_the_end(connection):
        received = b""
        while part := connection.recv(100):
            received += part
        connection.sendall(received[::-1])

    listen = client.create(ProxySpec(name="p", upstream=upstream_factory(answer_after_the_end).address)).listen
    client.add_toxic("p", "latency", {"latency": 50})
    with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60) as connection:
        connection.sendall(b"abc")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b"cba"
        assert connection.recv(10) == b""


def test_toxic_changes_do_not_wait_for_a_client_that_does_not_read(client, upstream_factory):
    def flood(connection):
        while True:
            connection.sendall(b"x" * 65536)

    listen = client.create(ProxySpec(name="p", upstream=upstream_factory(flood).address)).listen
    with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60):
        time.sleep(0.3)
        start = time.monotonic()
        client.add_toxic("p", "latency", {"latency": 10})
        client.update_toxic("p", "latency_downstream", {"latency": 20})
        client.remove_toxic("p", "latency_downstream")
        client.disable("p")
        assert time.monotonic() - start < 20


def test_a_client_that_does_not_read_does_not_fill_the_memory(client, embedded_server, upstream_factory):
    sent = 0

    def flood(connection):
        nonlocal sent
        while True:
            sent += connection.send(b"x" * 65536)

    listen = client.create(ProxySpec(name="p", upstream=upstream_factory(flood).address)).listen
    client.add_toxic("p", "bandwidth", {"rate": 0})
    with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60):
        deadline_s, before = time.monotonic() + 60, -1
        while sent != before:
            assert sent < 64 << 20, "the sender must be slowed down to a stop"
            assert time.monotonic() < deadline_s
            before = sent
            time.sleep(0.5)
        assert sent > 0


def test_hanging_upstream_does_not_block_other_clients(client, echo_upstream):
    """A full backlog swallows SYNs: the dial hangs, as to a host that is unplugged."""
    black_hole = socket.socket()
    black_hole.bind(("127.0.0.1", 0))
    black_hole.listen(0)
    address = black_hole.getsockname()
    fillers = [socket.socket() for _ in range(3)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(address)
    listen = client.create(ProxySpec(name="p", upstream=f"127.0.0.1:{address[1]}")).listen
    with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60):
        time.sleep(0.1)
        client.update("p", upstream=echo_upstream.address)
        with socket.create_connection(("127.0.0.1", port_of(client.proxy("p").listen)), timeout=60) as connection:
            connection.sendall(b"hi")
            assert connection.recv(2) == b"hi"
    for filler in [*fillers, black_hole]:
        filler.close()


def connects(listen, timeout_s=0.3):
    try:
        socket.create_connection(("127.0.0.1", port_of(listen)), timeout=timeout_s).close()
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("end_open", [0, 1])
def test_without_accepting_a_connect_hangs_until_the_toxic_is_gone(client, echo_upstream, end_open):
    listen = client.create(ProxySpec(name="p", upstream=echo_upstream.address)).listen
    with socket.create_connection(("127.0.0.1", port_of(listen)), timeout=60) as before:
        before.sendall(b"x")
        assert before.recv(1) == b"x"
        client.add_toxic("p", "no_accept", {"end_open": end_open}, name="deaf")
        assert [connects(listen) for _ in range(3)] == [False] * 3
        if end_open:
            with pytest.raises(ConnectionResetError):
                before.recv(1)
        else:
            before.sendall(b"y")
            assert before.recv(1) == b"y"
    late = threading.Timer(0.3, lambda: client.remove_toxic("p", "deaf"))
    late.start()
    assert connects(listen, timeout_s=60)  # its SYN, sent again
    late.join()
    assert exchange(listen, b"again") == b"again"


def test_a_proxy_that_does_not_accept_can_be_disabled_and_reset(client, echo_upstream):
    listen = client.create(ProxySpec(name="p", upstream=echo_upstream.address)).listen
    client.add_toxic("p", "no_accept", {}, name="deaf")
    client.disable("p")
    with pytest.raises(ConnectionRefusedError):
        connects(listen)
    client.enable("p")
    assert not connects(listen)
    client.reset()
    assert exchange(listen, b"again") == b"again"


def test_keep_alive_calls_are_fast(client):
    """Nagle with delayed acknowledgements would cost each call 40 ms. A busy host delays most calls, but not all."""
    for _ in range(20):  # a new connection acknowledges at once
        client.version()
    took_s = []
    for _ in range(60):
        start = time.monotonic()
        client.version()
        took_s.append(time.monotonic() - start)
    assert sorted(took_s)[3] < 0.02


def test_two_servers_in_one_process(client, echo_upstream):
    other_server = start_embedded()
    other = other_server.client()
    try:
        client.create(ProxySpec(name="here", upstream=echo_upstream.address))
        other.create(ProxySpec(name="there", upstream=echo_upstream.address))
        assert (list(client.proxies()), list(other.proxies())) == (["here"], ["there"])
        threads = [
            threading.Thread(target=c.create, args=(ProxySpec(name=f"t{i}", upstream=echo_upstream.address),))
            for i in range(8)
            for c in (client, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(client.proxies()) == len(other.proxies()) == 9
    finally:
        other.close()
        other_server.stop()


def test_a_server_that_took_the_port_first_is_not_ours(embedded_server, monkeypatch):
    """Two programs may choose the same free port. The one that comes second must not take the other's server for its
    own: it would delete its proxies."""
    ports = [port_of(embedded_server.url), free_port()]
    monkeypatch.setattr(lookup, "_free_port", lambda: ports.pop(0))
    ours = start_embedded()
    try:
        assert ours.url != embedded_server.url
        assert ours.process.poll() is None
    finally:
        ours.stop()


def test_only_the_process_that_listens_on_a_port_is_said_to():
    with socket.create_server(("127.0.0.1", 0)) as server, subprocess.Popen(["sleep", "60"]) as other:
        port = server.getsockname()[1]
        assert may_listen(os.getpid(), port)
        assert not may_listen(other.pid, port)
        other.kill()
        other.wait()
        assert not may_listen(other.pid, port), "it is gone"
    assert not may_listen(os.getpid(), port), "nobody listens any more"


def test_client_ignores_proxy_settings_of_the_environment(client, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert client.version()


def test_no_server_and_silent_server_are_unreachable_within_the_limit():
    with pytest.raises(Unreachable):
        ToxiproxyClient(f"http://127.0.0.1:{free_port()}").version()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        start = time.monotonic()
        with pytest.raises(Unreachable):
            ToxiproxyClient(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_ms=200).proxies()
        assert time.monotonic() - start < 20


def test_lookup_says_what_is_wrong(tmp_path):
    with pytest.raises(ServerUnavailable, match="no Toxiproxy server at"):
        use_server(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ServerUnavailable, match="not an executable file"):
        find_binary(str(tmp_path / "none"))
    broken = tmp_path / "toxiproxy-server"
    broken.write_text("#!/bin/sh\nexit 7\n")
    broken.chmod(0o755)
    assert find_binary(None, [tmp_path]) is not None
    with pytest.raises(ServerUnavailable, match="ended with exit 7"):
        start_real(broken)


def test_stopped_server_leaves_no_process_and_no_port():
    server = start_embedded()
    process = server.process
    assert process is not None
    server.stop()
    assert process.returncode == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port_of(server.url)))

"""Many proxies and many connections: a thousand and five hundred, on either server; and what too few descriptors do."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from chaos.toxiproxy.calls import ToxiproxyError
from chaos.toxiproxy.lookup import start_embedded
from chaos.toxiproxy.states import ProxySpec

pytestmark = pytest.mark.slow
PROXIES, CONNECTIONS, FLOODS = 1_000, 500, 4
MEMORY_KIB_MAX = 64 << 10  # more than before them; the embedded server takes some 3 MiB, the real one 10


@pytest.fixture(
    params=[
        "embedded_server",
        pytest.param("pumped_server", marks=pytest.mark.long),
        pytest.param("real_server", marks=pytest.mark.toxiproxy),
    ]
)
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def descriptors():
    """Both ends of every connection are here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{hard} descriptors allowed, {wanted} needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_kib(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def descriptors_of(process):
    return len(os.listdir(f"/proc/{process.pid}/fd"))


def comes_back(state):
    host, port = state.listen.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"ping")
        return connection.recv(4, socket.MSG_WAITALL) == b"ping"


def wait_until_it_comes_back(state):
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(ConnectionError):
            assert comes_back(state)
            return
        assert time.monotonic() < deadline, f"no connection over {state.name} comes back"
        time.sleep(0.05)


def test_a_thousand_proxies_are_made_by_one_call_and_all_work(server, echo_upstream):
    client = server.client()
    client.version()
    memory, descriptors = resident_kib(server.process), descriptors_of(server.process)
    began = time.monotonic()
    made = client.populate(
        [ProxySpec(name=f"many-{number}", upstream=echo_upstream.address) for number in range(PROXIES)]
    )
    took_s = time.monotonic() - began
    assert len({state.listen for state in made.values()}) == PROXIES
    assert [name for name, state in made.items() if not comes_back(state)] == []
    grown = resident_kib(server.process) - memory
    for name in made:
        client.delete(name)
    assert not [name for name in client.proxies() if name.startswith("many-")]
    deadline = time.monotonic() + 60
    while (left := descriptors_of(server.process)) > descriptors + 1 and time.monotonic() < deadline:
        time.sleep(0.01)  # connections of the round above may still be ending
    client.close()
    print(f"{PROXIES} proxies in {took_s:.2f} s, {grown} KiB more; {descriptors} descriptors before and {left} after")
    assert left <= descriptors + 1  # one of the real server's own poller
    assert grown < MEMORY_KIB_MAX
    assert took_s < 120


def test_five_hundred_connections_at_once_keep_their_bytes_apart(server, echo_upstream, descriptors):
    client = server.client()
    host, port = client.create(ProxySpec(name="crowd", upstream=echo_upstream.address)).listen.rsplit(":", 1)
    try:
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(socket.create_connection((host, int(port)), timeout=60)) for _ in range(CONNECTIONS)
            ]
            for number, connection in enumerate(connections):
                connection.sendall(b"%06d" % number * 100)
            for number, connection in enumerate(connections):
                expected = b"%06d" % number * 100
                received = b""
                while len(received) < len(expected) and (data := connection.recv(4096)):
                    received += data
                assert received == expected
    finally:
        client.delete("crowd")
        client.close()
    assert echo_upstream.errors == []


def test_the_api_answers_while_links_flood(server, upstream_factory):
    """And all links get their share, and a toxic takes effect on them. A busy host delays some calls, but not all."""

    def flood(connection):
        while True:
            connection.sendall(b"x" * 262_144)

    client = server.client()
    host, port = client.create(ProxySpec(name="flood", upstream=upstream_factory(flood).address)).listen.rsplit(":", 1)
    is_over = threading.Event()
    counts = [0] * FLOODS

    def drain(index):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            while not is_over.is_set() and (data := connection.recv(1 << 20)):
                counts[index] += len(data)

    threads = [threading.Thread(target=drain, args=(index,)) for index in range(FLOODS)]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + 60
        while min(counts) < 8 << 20:
            assert time.monotonic() < deadline, f"each of them gets its share: {counts}"
            time.sleep(0.01)
        took_s = []
        for _ in range(20):
            began = time.monotonic()
            client.version()
            took_s.append(time.monotonic() - began)
        assert sorted(took_s)[10] < 1
        client.add_toxic("flood", "bandwidth", {"rate": 0})
        before = None
        while counts != before:
            assert time.monotonic() < deadline, "the toxic takes effect on all of them"
            before = list(counts)
            time.sleep(0.5)
    finally:
        is_over.set()
        client.delete("flood")
        client.close()
        for thread in threads:
            thread.join(60)


def limited_server(tmp_path, soft, hard):
    def spawn(command, environment, log_path):
        with log_path.open("ab") as log:
            return subprocess.Popen(
                ["prlimit", f"--nofile={soft}:{hard}", *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip

    return start_embedded(log_path=tmp_path / "log.txt", starter=spawn)


@pytest.mark.parametrize("hard", [100, 101])  # the listener is what there is no descriptor for, or what accepts
def test_without_descriptors_a_proxy_is_refused_by_name_of_the_limit_and_the_others_go_on(
    hard, tmp_path, echo_upstream
):
    server = limited_server(tmp_path, hard, hard)
    client = server.client()
    try:
        with pytest.raises(ToxiproxyError, match=rf"too many open files: this server may have {hard} \(ulimit -n\)"):
            for number in range(hard):
                client.create(ProxySpec(name=f"p-{number}", upstream=echo_upstream.address))
        made = [client.proxies()[f"p-{order}"] for order in range(number)]
        assert len(client.proxies()) == number, "the one that failed is not there"
        for state in made[:2]:
            client.delete(state.name)
        assert comes_back(made[-1])
        again = client.create(ProxySpec(name="again", upstream=echo_upstream.address))
        wait_until_it_comes_back(again)  # first the server has to close what the connection before it used
    finally:
        client.close()
        server.stop()


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one(tmp_path, echo_upstream):
    server = limited_server(tmp_path, 64, 2_000)
    client = server.client()
    try:
        made = client.populate([ProxySpec(name=f"p-{number}", upstream=echo_upstream.address) for number in range(200)])
        assert comes_back(made["p-199"])
        assert server.process.poll() is None
    finally:
        client.close()
        server.stop()

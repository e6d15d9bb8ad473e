"""Many proxies and many connections: a thousand and five hundred, on either server."""

from __future__ import annotations

import contextlib
import resource
import socket
import time

import pytest

from chaos.toxiproxy.client import ProxySpec

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PROXIES, CONNECTIONS = 1_000, 500


@pytest.fixture(params=["embedded_server", pytest.param("real_server", marks=pytest.mark.toxiproxy)])
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


def test_a_thousand_proxies_are_made_by_one_call_and_all_work(server, echo_upstream):
    client = server.client()
    began = time.monotonic()
    made = client.populate(
        [ProxySpec(name=f"many-{number}", upstream=echo_upstream.address) for number in range(PROXIES)]
    )
    took_s = time.monotonic() - began
    assert len({state.listen for state in made.values()}) == PROXIES
    for number in range(0, PROXIES, 97):
        host, port = made[f"many-{number}"].listen.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(b"ping")
            assert connection.recv(4) == b"ping"
    for name in made:
        client.call("DELETE", f"/proxies/{name}")
    assert not [name for name in client.proxies() if name.startswith("many-")]
    client.close()
    print(f"{PROXIES} proxies in {took_s:.2f} s")
    assert took_s < 20


def test_five_hundred_connections_at_once_keep_their_bytes_apart(server, echo_upstream, descriptors):
    client = server.client()
    host, port = client.create(ProxySpec(name="crowd", upstream=echo_upstream.address)).listen.rsplit(":", 1)
    try:
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(socket.create_connection((host, int(port)), timeout=20)) for _ in range(CONNECTIONS)
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

"""Toxics that overlap come off a proxy so that no server dies of it, and no effect ends early or lasts too long."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.lookup import RunningServer, start_embedded
from chaos.toxiproxy.states import ProxySpec
from tests.chaos.conftest import Upstream, start_real_or_skip

STALL = {"rate": 0}


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.toxiproxy)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """One of its own: it may die."""
    is_embedded = request.param == "embedded"
    started = start_embedded(log_path=tmp_path / "log.txt", seed=7) if is_embedded else start_real_or_skip()
    yield started
    started.stop()


@pytest.fixture
def client(server: RunningServer, echo_upstream: Upstream) -> ToxiproxyClient:
    made = ToxiproxyClient(server.url)
    made.create(ProxySpec(name="p", upstream=echo_upstream.address))
    return made


def names(client: ToxiproxyClient) -> list[str]:
    return [toxic.name for toxic in client.proxy("p").toxics]


@pytest.mark.slow
@pytest.mark.thorough
def test_stalls_that_overlap_on_a_connection_that_ended_leave_the_server_alive(client: ToxiproxyClient) -> None:
    host, _, port = client.proxy("p").listen.rpartition(":")
    gone: list[str] = []
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"ping")
        assert connection.recv(4) == b"ping"
        for name in ("a", "b", "c"):
            client.add_toxic("p", "bandwidth", STALL, stream="upstream", name=name)
        connection.sendall(bytes(100_000))
    for name in ("a", "b", "c"):
        client.retire_toxic("p", name, then=lambda name=name: gone.append(name))  # type: ignore[misc]
    assert gone == ["c", "b", "a"]
    assert names(client) == []
    client.add_toxic("p", "bandwidth", STALL, stream="upstream", name="d")
    assert names(client) == ["d"]


@pytest.mark.slow
@pytest.mark.thorough
def test_a_toxic_stays_as_long_as_a_stall_behind_it_hides_it(client: ToxiproxyClient) -> None:
    client.add_toxic("p", "latency", {"latency": 5_000}, stream="upstream", name="slow")
    client.add_toxic("p", "latency", {"latency": 5_000}, stream="downstream", name="other way")
    client.add_toxic("p", "bandwidth", STALL, stream="upstream", name="stall")
    client.retire_toxic("p", "other way")
    assert names(client) == ["slow", "stall"]  # of the other direction: nothing hides it
    client.retire_toxic("p", "slow")
    assert names(client) == ["slow", "stall"]
    client.retire_toxic("p", "stall")
    assert names(client) == []


@pytest.mark.slow
@pytest.mark.thorough
def test_a_toxic_before_one_that_lets_bytes_pass_goes_at_once(client: ToxiproxyClient) -> None:
    client.add_toxic("p", "latency", {"latency": 5_000}, stream="upstream", name="slow")
    client.add_toxic("p", "bandwidth", {"rate": 100}, stream="upstream", name="narrow")
    client.retire_toxic("p", "slow")
    assert names(client) == ["narrow"]


@pytest.mark.slow
@pytest.mark.thorough
def test_what_never_came_to_be_counts_as_gone(client: ToxiproxyClient) -> None:
    gone: list[str] = []
    client.retire_toxic("p", "nothing", then=lambda: gone.append("nothing"))
    assert gone == ["nothing"]

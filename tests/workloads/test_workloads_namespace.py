"""Namespaces for load hosts do not stand in each other's way, and nothing of them outlives the test."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.workloads.namespace import Namespace, wait_gone, why_not
from tests.workloads.network import Network, why_no_network

pytestmark = pytest.mark.long  # not slow: where they cannot run, CI may skip them

_MAKE_ONE = """
import sys, time
from tests.workloads.namespace import Namespace
made = Namespace()
print(made.device, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if why := why_not():
        pytest.skip(why)


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    made = [Namespace() for _ in range(3)]
    yield made
    for space in made:
        space.close()


@pytest.mark.slow
def test_each_of_several_namespaces_reaches_its_own_link(spaces: list[Namespace]) -> None:
    """Two runs of the tests on one machine once had the same addresses, and the second reached nobody."""
    assert len({space.here for space in spaces}) == len(spaces)
    for space in spaces:
        with socket.create_server((space.here, 0)) as server:
            code = f"import socket; socket.create_connection(({space.here!r}, {server.getsockname()[1]}), 60)"
            subprocess.run([*space.prefix(0), sys.executable, "-c", code], check=True, timeout=120)
            near, (address, _) = server.accept()
            near.close()
            assert address == space.there


@pytest.mark.slow
def test_nothing_is_left_of_the_namespace_of_a_test_that_was_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", _MAKE_ONE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    device = process.stdout.readline().strip()
    assert device, "it made one"
    process.kill()
    process.wait(timeout=60)
    process.stdout.close()
    wait_gone(device)


@pytest.fixture
def network() -> Iterator[Network]:
    if why := why_no_network():
        pytest.skip(why)
    made = Network(["a", "b"], delay_ms=20, jitter_ms=5)
    yield made
    made.close()


_ANSWER = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    print("there", flush=True)
    while True:
        near, _ = server.accept()
        while data := near.recv(65536):
            near.sendall(data)
"""
_ASK = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000), 60) as near:
    began_s = time.monotonic()
    near.sendall(b"x" * 200_000)
    left = 200_000
    while left:
        left -= len(near.recv(65536))
    print(time.monotonic() - began_s)
"""


@pytest.mark.slow
def test_packets_between_hosts_take_their_time_and_none_pass_a_cut(network: Network) -> None:
    server = subprocess.Popen(
        [*network.prefix("b"), sys.executable, "-c", _ANSWER, network.addresses["b"]],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        server.stdout.readline()

        def ask(name: str) -> float:
            command = [*network.prefix(name, 5_000_000), sys.executable, "-c", _ASK, network.addresses["b"]]
            return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)

        assert 0.04 <= ask("a") < 20
        assert 0.04 <= ask("here") < 20
        network.cut("a", "b")
        assert _is_cut(network)
        network.join("a", "b")
        assert ask("a") >= 0.04
    finally:
        server.kill()
        server.communicate()


def _is_cut(network: Network) -> bool:
    """Whether a connection from a to b gets no answer."""
    code = f"import socket; socket.create_connection(({network.addresses['b']!r}, 7000), 2)"
    done = subprocess.run([*network.prefix("a"), sys.executable, "-c", code], capture_output=True, timeout=120)
    return done.returncode != 0

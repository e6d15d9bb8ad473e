"""Namespaces for load hosts do not stand in each other's way, and nothing of them outlives the test."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.workloads.namespace import Namespace, wait_gone, why_not

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


def test_nothing_is_left_of_the_namespace_of_a_test_that_was_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", _MAKE_ONE], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    device = process.stdout.readline().strip()
    assert device, "it made one"
    process.kill()
    process.wait(timeout=60)
    process.stdout.close()
    wait_gone(device)

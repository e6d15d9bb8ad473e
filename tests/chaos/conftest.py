"""Shared by the tests of chaos: an upstream that echoes, and servers to test against."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.toxiproxy.lookup import RunningServer, find_binary, start_embedded, start_real
from tests.chaos.operators import Operator

REPOSITORY = Path(__file__).parents[2]


class Upstream:
    """A TCP server whose connections are each handled by `serve` in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.errors: list[BaseException] = []
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            self._open.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(connection)
            except OSError as error:
                self.errors.append(error)

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            connection.close()


def echo(connection: socket.socket) -> None:
    while data := connection.recv(65536):
        connection.sendall(data)


@pytest.fixture
def echo_upstream() -> Iterator[Upstream]:
    upstream = Upstream(echo)
    yield upstream
    upstream.close()


@pytest.fixture
def upstream_factory() -> Iterator[Callable[[Callable[[socket.socket], None]], Upstream]]:
    made: list[Upstream] = []

    def make(serve: Callable[[socket.socket], None]) -> Upstream:
        made.append(Upstream(serve))
        return made[-1]

    yield make
    for upstream in made:
        upstream.close()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    """Of a host with the brokers 1 and 2."""
    found = Operator(tmp_path)
    found.start(1)
    found.start(2)
    yield found
    found.clean()


@pytest.fixture(scope="session")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp("embedded")
    server = start_embedded(log_path=directory / "log.txt", seed=7)
    yield server
    server.stop()
    assert "Traceback" not in (directory / "log.txt").read_text()


@pytest.fixture(scope="session")
def pumped_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The embedded one, whose links enter the pump after their first chunk."""
    directory = tmp_path_factory.mktemp("pumped")
    server = start_embedded(log_path=directory / "log.txt", seed=7, options=["--pump-after", "1"])
    yield server
    server.stop()
    assert "Traceback" not in (directory / "log.txt").read_text()


@pytest.fixture(scope="session")
def drop_in_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The embedded one, which takes what the original takes."""
    directory = tmp_path_factory.mktemp("drop-in")
    server = start_embedded(log_path=directory / "log.txt", seed=7, is_strict=False)
    yield server
    server.stop()
    assert "Traceback" not in (directory / "log.txt").read_text()


def start_real_or_skip() -> RunningServer:
    binary = find_binary(os.environ.get("HARNESS_TOXIPROXY_SERVER"), [REPOSITORY / ".cache" / "bin"])
    if binary is None:
        pytest.skip("no toxiproxy-server; `make setup` builds it where Go is installed")
    return start_real(binary)


@pytest.fixture(scope="session")
def real_server() -> Iterator[RunningServer]:
    server = start_real_or_skip()
    yield server
    server.stop()

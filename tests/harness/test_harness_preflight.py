"""What cannot work is told before a run has a directory, soon, and with the code that says whose matter it is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cli.environment.preflight import ANSWER_TIMEOUT_S, check_world, unreachable
from harness.cli.main import execute
from harness.clusters import ports
from harness.errors import EnvironmentFault, ExitCode, UsageError

# A second and a half for a connection; the rest is for a host that is busy with other tests.
SOON_S = 6.0


@pytest.fixture
def free_port() -> int:
    return ports.free_port()


@pytest.fixture
def hanging_up() -> Iterator[int]:
    """A server that is no broker: it takes a connection and closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                server.accept()[0].close()
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def _run(tmp_path: Path, *options: str) -> ExitCode:
    arguments = ["run", "smoke", "--no-report", "--run-dir", str(tmp_path / "run"), *options]
    code = ExitCode(execute(arguments))
    assert not (tmp_path / "run").exists(), "a run that cannot begin leaves no directory"
    return code


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("localhost", "expected"),
        ("localhost:", ""),
        ("localhost:99999", "99999"),
        ("localhost:kafka", "kafka"),
        (":9092", "expected host:port"),
        ("a:1,,b:2", ""),
    ],
)
def test_an_address_that_is_none_is_a_usage_error(
    address: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(tmp_path, "--cluster", "external", "--bootstrap-server", address) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--bootstrap-server" in said
    assert told in said


def test_a_port_where_nobody_listens_is_told_soon(
    free_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port}"
    assert _run(tmp_path, "--cluster", "external", "--bootstrap-server", address) == ExitCode.ENVIRONMENT
    assert f"nobody can be reached ({address}: connection refused)" in capsys.readouterr().err


@pytest.mark.thorough
def test_one_address_that_answers_nothing_costs_no_more_than_the_limit() -> None:
    with socket.socket() as full:  # bound, and its queue of connections full: a connection is never taken
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        began = time.monotonic()
        assert unreachable("127.0.0.1", port, 0.3) == "no answer within 0.3 s"
        assert time.monotonic() - began < 60, "the system itself gives up after two minutes"
        for one in waiting:
            one.close()


def test_what_is_no_broker_is_told(hanging_up: int) -> None:
    with pytest.raises(EnvironmentFault, match="does not answer as a Kafka broker; if the cluster asks"):
        _check(bootstrap=f"127.0.0.1:{hanging_up}")


@pytest.mark.slow
def test_who_is_asked_in_the_wrong_protocol_is_told_where_that_stands(hanging_up: int, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\n")
    with pytest.raises(EnvironmentFault, match="it was asked as --client-config says"):
        _check(bootstrap=f"127.0.0.1:{hanging_up}", client_config=path)


@pytest.mark.slow
def test_ports_that_take_a_connection_and_are_silent_are_told_soon() -> None:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]  # the system takes connections, nobody answers
    addresses = ",".join(f"127.0.0.1:{server.getsockname()[1]}" for server in servers)
    deadline = time.monotonic() + 60
    while True:
        began = time.monotonic()
        with pytest.raises(EnvironmentFault, match="does not answer as a Kafka broker"):
            _check(bootstrap=addresses)
        took_s = time.monotonic() - began
        if took_s < SOON_S or time.monotonic() > deadline:  # a busy host delays some, but not all
            break
    assert took_s < SOON_S, "all are asked at once: one after the other would be 9 s"
    assert ANSWER_TIMEOUT_S < 2
    for server in servers:
        server.close()


def _check(*, bootstrap: str, client_config: Path | None = None) -> None:
    check_world(engine="external", clients=[], proxy_choice="auto", bootstrap=bootstrap, client_config=client_config)


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=no-such.pem", "is no file"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=c.properties",
            "no certificate or crl found",
        ),
        ("security.protocol=SSLX", "did you mean 'SSL'"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "sasl.mechanism: GSSAPI is not spoken"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "sasl.jaas.config: is needed"),
        ("security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=no-such.pem", "keystore.location"),
    ],
)
def test_an_access_that_cannot_work_is_a_usage_error(
    properties: str, told: str, tmp_path: Path, hanging_up: int
) -> None:
    path = tmp_path / "c.properties"
    path.write_text(properties + "\n")
    with pytest.raises(UsageError, match=told):
        _check(bootstrap=f"127.0.0.1:{hanging_up}", client_config=path)


def test_a_proxy_server_that_is_not_there_is_told(
    free_port: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{free_port}"
    assert _run(tmp_path, "--toxiproxy", url) == ExitCode.ENVIRONMENT
    assert f"--toxiproxy {url}: connection refused; start toxiproxy-server there" in capsys.readouterr().err


def test_client_java_without_java_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.run.generator.client_runtime import client_runtime

    client_runtime.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert _run(tmp_path, "--client", "java") == ExitCode.ENVIRONMENT
    assert "java" in capsys.readouterr().err.lower()

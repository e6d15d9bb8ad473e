"""One Apache Kafka node as a process, for tests that compare our broker's answers with its."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cluster_helper import PATIENT
from wire_helper import ask

from harness.clusters.kafka.jars import ensure_jars, java_command
from harness.clusters.ports import free_port
from tests.patience import wait_until

START_TIMEOUT_S = 90.0
CLUSTER_ID = "HjP9mNqZTyWYx2iFkqkC8Q"
API_VERSIONS = 18


@contextmanager
def kafka_node(
    directory: Path, settings: Mapping[str, object], controller_port: int | None = None, classes: Path | None = None
) -> Iterator[int]:
    """The port of a running node, broker and controller in one; nothing of it is left afterwards. `classes` is a
    directory with compiled plug-ins."""
    port, controller_port = free_port(), controller_port or free_port()
    properties = {
        "node.id": 1,
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"DIRECT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"DIRECT://127.0.0.1:{port}",
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "DIRECT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": directory / "data",
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        **PATIENT,
        **settings,
    }
    with _running(directory, properties, classes):
        wait_until(lambda: _is_up(port), "Apache Kafka answers", START_TIMEOUT_S)
        yield port


def compiled(source: Path, directory: Path) -> Path:
    """The directory with the classes of a Java source."""
    compiler = [java_command(), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    jars = ":".join(map(str, sorted(ensure_jars().glob("*.jar"))))
    command = [*compiler, "-nowarn", "-d", str(directory), "-cp", jars, str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=START_TIMEOUT_S)
    return directory


def _java(classes: Path | None = None) -> list[str]:
    path = f"{ensure_jars()}/*" if classes is None else f"{ensure_jars()}/*:{classes}"
    # The log cleaner takes 128 MiB in one piece, which a heap of 256 MiB did not always have: then the node ended.
    return [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512m", "-cp", path]


def _format(directory: Path, properties: Mapping[str, object], classes: Path | None = None) -> Path:
    path = directory / "kafka.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    form = [*_java(classes), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
    subprocess.run(form, check=True, capture_output=True, timeout=START_TIMEOUT_S, cwd=directory)
    return path


def _start(directory: Path, path: Path, classes: Path | None = None) -> subprocess.Popen[bytes]:
    with (directory / "kafka.log").open("ab") as log:
        return subprocess.Popen(
            [*_java(classes), "kafka.Kafka", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory
        )


@contextmanager
def _running(directory: Path, properties: Mapping[str, object], classes: Path | None = None) -> Iterator[None]:
    process = _start(directory, _format(directory, properties, classes), classes)
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


def _is_up(port: int) -> bool:
    try:
        ask(port, API_VERSIONS, 0)
    except OSError:
        return False
    return True

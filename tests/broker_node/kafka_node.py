"""One Apache Kafka node as a process, for tests that compare our broker's answers with its."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cluster_helper import free_ports, wait_until
from wire_helper import ask

from harness.clusters.kafka.jars import ensure_jars, java_command

START_TIMEOUT_S = 90.0
CLUSTER_ID = "HjP9mNqZTyWYx2iFkqkC8Q"
API_VERSIONS = 18


@contextmanager
def kafka_node(directory: Path, settings: Mapping[str, object]) -> Iterator[int]:
    """The port of a running node, broker and controller in one; nothing of it is left afterwards."""
    port, controller_port = free_ports(2)
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
        **settings,
    }
    path = directory / "kafka.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    java = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-cp", f"{ensure_jars()}/*"]
    form = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path)]
    subprocess.run(form, check=True, capture_output=True, timeout=START_TIMEOUT_S, cwd=directory)
    with (directory / "kafka.log").open("wb") as log:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(path)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory
        )
    try:
        wait_until(lambda: _is_up(port), "Apache Kafka answers", START_TIMEOUT_S)
        yield port
    finally:
        process.kill()
        process.wait(10)


def _is_up(port: int) -> bool:
    try:
        ask(port, API_VERSIONS, 0)
    except OSError:
        return False
    return True

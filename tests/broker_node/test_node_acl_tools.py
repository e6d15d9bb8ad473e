"""Apache Kafka's own tools for access control lists and users print the same for our broker as for theirs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from same_words import printed_by_both

from harness.clusters.kafka.jars import ensure_jars, java_command

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.kafka]
ACLS, CONFIGS = "org.apache.kafka.tools.AclCommand", "kafka.admin.ConfigCommand"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TIMEOUT_S = 120
USER = ("--entity-type", "users", "--entity-name", "alice")
COMMANDS: tuple[tuple[str, ...], ...] = (
    (ACLS, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "orders", "--transactional-id", "t"),
    (ACLS, "--add", "--allow-principal", "User:bob", "--consumer", "--topic", "or", "--group", "g",
     "--resource-pattern-type", "prefixed"),
    (ACLS, "--add", "--deny-principal", "User:eve", "--deny-host", "10.0.0.9", "--operation", "All", "--cluster"),
    (ACLS, "--list"),
    (ACLS, "--list", "--topic", "orders", "--resource-pattern-type", "match"),
    (ACLS, "--remove", "--force", "--allow-principal", "User:alice", "--operation", "Write", "--topic", "orders"),
    (ACLS, "--list", "--topic", "orders"),
    (CONFIGS, *USER, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]"),
    (CONFIGS, *USER, "--alter", "--add-config", "producer_byte_rate=1000"),
    (CONFIGS, *USER, "--describe"),
    (CONFIGS, *USER, "--alter", "--delete-config", "SCRAM-SHA-256"),
    (CONFIGS, *USER, "--describe"),
)  # fmt: skip


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """(Apache Kafka's, ours)"""
    directory = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    with (
        kafka_node(directory / "kafka", SETTINGS) as theirs,
        Cluster(directory / "ours", brokers=1, settings=SETTINGS) as cluster,
    ):
        cluster.wait_until_all_are_known()
        yield theirs, cluster.ports[1]["DIRECT"]


def printed(port: int, command: tuple[str, ...], directory: Path) -> list[str]:
    """Its lines, sorted: Apache Kafka prints sets."""
    java = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    done = subprocess.run(
        [*java, command[0], "--bootstrap-server", f"127.0.0.1:{port}", *command[1:]],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=directory,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    lines = done.stdout.replace(str(port), "PORT").splitlines()
    return sorted(line.strip() for line in lines if line.strip())


def test_the_tools_print_the_same_for_both(ports: tuple[int, int], tmp_path: Path) -> None:
    for command in COMMANDS:
        theirs, ours = printed_by_both(command, ports, lambda port, command=command: printed(port, command, tmp_path))  # type: ignore[misc]
        assert ours == theirs, command
        assert theirs or not {"--add", "--list"} & set(command), f"{command} prints something"

"""Apache Kafka's own tools for reassignments, elections, brokers' settings and quotas print the same for both brokers.

What differs is named in docs/reference/behaviour.md; here only what is equal. Access control lists and passwords have
a test of their own (test_node_acl_tools.py). All tools run in one JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_node
from same_words import printed_by_both

from broker.controller.features import FEATURES
from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.compatibility.driver import Driver
from tests.compatibility.tools.run import prepare

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
TIMEOUT_S = 120.0
CONFIGS, TOOLS = "kafka.admin.ConfigCommand", "org.apache.kafka.tools."
LEVELS = f"{TOOLS}FeatureCommand"
REASSIGN, ELECT = f"{TOOLS}reassign.ReassignPartitionsCommand", f"{TOOLS}LeaderElectionCommand"
BROKER = ("--entity-type", "brokers", "--entity-name", "1")
USER = ("--entity-type", "users", "--entity-name", "alice")
TOPIC = ("--entity-type", "topics", "--entity-name", "t")
GROUP = ("--entity-type", "groups", "--entity-name", "g")
SESSION = "consumer.session.timeout.ms"
THROTTLE = "leader.replication.throttled.rate=1000000"
# Files that a command names, by what it is given instead.
FILES = {
    "HERE": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]},
    "ELSEWHERE": {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]},
    "NOWHERE": {"version": 1, "partitions": [{"topic": "nope", "partition": 0, "replicas": [1]}]},
    "MOVE": {"version": 1, "topics": [{"topic": "t"}]},
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    (f"{TOOLS}TopicCommand", "--create", "--topic", "t", "--partitions", "2"),
    (f"{TOOLS}ClusterTool", "list-endpoints"),
    (REASSIGN, "--topics-to-move-json-file", "MOVE", "--broker-list", "1", "--generate"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--execute"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--execute", "--throttle", "1000000"),
    (CONFIGS, *TOPIC, "--describe"),
    (CONFIGS, *BROKER, "--describe"),
    (REASSIGN, "--list"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--verify", "--preserve-throttles"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--verify"),
    (CONFIGS, *TOPIC, "--describe"),
    (CONFIGS, *BROKER, "--describe"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--execute", "--additional"),
    (REASSIGN, "--reassignment-json-file", "HERE", "--cancel"),
    (REASSIGN, "--reassignment-json-file", "ELSEWHERE", "--execute"),
    (REASSIGN, "--reassignment-json-file", "NOWHERE", "--execute"),
    (REASSIGN, "--reassignment-json-file", "NOWHERE", "--verify"),
    (ELECT, "--election-type", "preferred", "--topic", "t", "--partition", "0"),
    (ELECT, "--election-type", "unclean", "--topic", "t", "--partition", "0"),
    (ELECT, "--election-type", "preferred", "--all-topic-partitions"),
    (ELECT, "--election-type", "preferred", "--topic", "nope", "--partition", "0"),
    (CONFIGS, *BROKER, "--alter", "--add-config", f"log.cleaner.backoff.ms=20000,{THROTTLE}"),
    (CONFIGS, *BROKER, "--describe"),
    (CONFIGS, *BROKER, "--alter", "--delete-config", "log.cleaner.backoff.ms,leader.replication.throttled.rate"),
    (CONFIGS, *BROKER, "--describe"),  # the next one asks the broker first whether the setting is there
    (CONFIGS, *BROKER, "--alter", "--delete-config", "log.cleaner.backoff.ms"),
    (CONFIGS, *BROKER, "--alter", "--delete-config", "node.id"),
    (CONFIGS, *BROKER, "--alter", "--add-config", "node.id=7"),
    (CONFIGS, "--entity-type", "brokers", "--entity-name", "7", "--describe"),
    (CONFIGS, *USER, "--alter", "--add-config", "producer_byte_rate=1000"),
    (CONFIGS, *USER, "--describe"),
    (CONFIGS, "--entity-type", "users", "--entity-default", "--alter", "--add-config", "consumer_byte_rate=10"),
    (CONFIGS, "--entity-type", "users", "--describe"),
    (CONFIGS, *USER, "--alter", "--add-config", "nonsense=1"),
    (CONFIGS, "--entity-type", "groups", "--entity-name", "g", "--describe"),
    (CONFIGS, "--entity-type", "groups", "--describe"),
    (CONFIGS, *GROUP, "--alter", "--add-config", f"{SESSION}=50000,consumer.heartbeat.interval.ms=6000"),
    (CONFIGS, *GROUP, "--describe"),
    (CONFIGS, *GROUP, "--describe", "--all"),
    (CONFIGS, "--entity-type", "groups", "--describe"),
    (CONFIGS, *GROUP, "--alter", "--add-config", f"{SESSION}=1"),
    (CONFIGS, *GROUP, "--alter", "--add-config", "nonsense=1"),
    (CONFIGS, *GROUP, "--alter", "--delete-config", f"{SESSION},consumer.heartbeat.interval.ms"),
    (CONFIGS, *GROUP, "--describe"),
    (CONFIGS, *GROUP, "--alter", "--delete-config", SESSION),
    (CONFIGS, *BROKER, "--alter", "--add-config", "nonsense=1"),
    (CONFIGS, *BROKER, "--describe"),
    (CONFIGS, *BROKER, "--alter", "--add-config", "log.cleaner.backoff.ms=x"),
    (CONFIGS, *BROKER, "--alter", "--delete-config", "nonsense"),
    (CONFIGS, *TOPIC, "--alter", "--add-config", "retention.ms=-2"),
    (CONFIGS, *TOPIC, "--alter", "--add-config", "cleanup.policy=nope"),
    (LEVELS, "upgrade", "--metadata", "4.3"),
    (LEVELS, "upgrade", "--metadata", "4.2"),
    (LEVELS, "upgrade", "--metadata", "9.9"),
    (LEVELS, "downgrade", "--metadata", "4.2"),
    (LEVELS, "downgrade", "--unsafe", "--metadata", "3.3-IV3"),
    (LEVELS, "disable", "--feature", "metadata.version"),
    (LEVELS, "upgrade", "--feature", "transaction.version=1"),
    (LEVELS, "upgrade", "--feature", "transaction.version=3"),
    (LEVELS, "upgrade", "--feature", "nonsense.version=1"),
    (LEVELS, "upgrade", "--feature", "transaction.version=2", "--feature", "group.version=9"),
    (LEVELS, "downgrade", "--feature", "transaction.version=1", "--dry-run"),
    (LEVELS, "downgrade", "--feature", "transaction.version=1"),
    (LEVELS, "describe"),
    (LEVELS, "upgrade", "--feature", "transaction.version=2"),
    (LEVELS, "downgrade", "--unsafe", "--feature", "group.version=0"),
    (LEVELS, "disable", "--feature", "group.version"),
    (LEVELS, "describe"),
    (LEVELS, "upgrade", "--feature", "group.version=1"),
    (LEVELS, "disable", "--feature", "nonsense"),
)


class Pair:
    """Both brokers, and the JVM that runs a tool on one of them."""

    def __init__(self, driver: Driver, ports: tuple[int, int], directory: Path) -> None:
        self._driver, self._directory = driver, directory
        self.ports = ports  # (Apache Kafka's, ours)

    def printed(self, port: int, command: tuple[str, ...]) -> list[str]:
        """The exit code and the lines, without what a port, a directory, a line of the tool's own code or
        a setting of streams groups (KIP-1071) says."""
        tool, *given = (str(self._directory / each) if each in FILES else each for each in command)
        head = [given.pop(0)] if tool.endswith("ClusterTool") else []
        arguments = [*head, "--bootstrap-server", f"127.0.0.1:{port}", *given]
        found = self._driver.call("run", TIMEOUT_S, tool=tool, arguments=arguments, stdin="")
        text = re.sub(r'"log_dirs":\["[^"]+"\]', '"log_dirs":["DIRECTORY"]', found["out"].replace(str(port), "PORT"))
        text = re.sub(r"Epoch: \d+", "Epoch: EPOCH", text)  # an offset of the metadata log
        text = re.sub(r"(?m)^Feature: (\S+) .*\n", lambda each: each[0] if each[1] in FEATURES else "", text)
        lines = [line.strip() for line in text.splitlines()]
        return [f"exit {found['code']}", *(line for line in lines if line and not line.startswith(("at ", "streams.")))]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours"):
        (directory / name).mkdir()
    for name, content in FILES.items():
        (directory / name).write_text(json.dumps(content))
    with (
        kafka_node(directory / "kafka", {}) as theirs,
        Cluster(directory / "ours", brokers=1) as cluster,
    ):
        cluster.wait_until_all_are_known()
        ours = cluster.ports[1]["DIRECT"]
        driver = Driver(prepare(), f"127.0.0.1:{ours}", directory / "tools.log", {})
        try:
            yield Pair(driver, (theirs, ours), directory)
        finally:
            driver.close()


def test_the_tools_print_the_same_for_both(pair: Pair) -> None:
    different = []
    for command in COMMANDS:
        theirs, ours = printed_by_both(command, pair.ports, lambda port, command=command: pair.printed(port, command))  # type: ignore[misc]
        if theirs != ours:
            different.append((command, theirs, ours))
    assert not different, "\n".join(
        f"{command}\n  kafka {theirs}\n  ours  {ours}" for command, theirs, ours in different
    )


def test_the_id_of_the_cluster_has_the_form_of_apache_kafka(pair: Pair) -> None:
    for port in pair.ports:
        _, line = pair.printed(port, (f"{TOOLS}ClusterTool", "cluster-id"))
        assert re.fullmatch(r"Cluster ID: [A-Za-z0-9_-]{22}", line), line

"""kafka-log-dirs and kafka-reassign-partitions with log directories print the same for both brokers (KIP-113).

Each broker has two log directories, A and B. Which of them a new replica lands in is chance in Apache Kafka, so the
replica is moved before it is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from confluent_kafka import Producer
from kafka_node import kafka_node
from same_words import printed_by_both

from harness.clusters.kafka.jars import has_jars, jar_directory
from tests.compatibility.driver import Driver
from tests.compatibility.tools.run import prepare
from tests.patience import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.skipif(not has_jars(jar_directory()), reason="no Kafka jars: make setup-dev"),
]
TIMEOUT_S = 120.0
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS, CONFIGS = "org.apache.kafka.tools.TopicCommand", "kafka.admin.ConfigCommand"
THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
# Files that a command names: topic and directory of the replica.
FILES = {
    "TO_A": ("t", "DIRECTORY_A"),
    "TO_B": ("t", "DIRECTORY_B"),
    "TO_ANY": ("t", "any"),
    "TO_NOWHERE": ("t", "/no/such/directory"),
    "TO_RELATIVE": ("t", "no/such/directory"),
    "OF_NOBODY": ("nope", "DIRECTORY_A"),
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    (LOG_DIRS, "--describe"),
    (LOG_DIRS, "--describe", "--topic-list", "t"),
    (LOG_DIRS, "--describe", "--topic-list", "nope", "--broker-list", "1"),
    (LOG_DIRS, "--describe", "--broker-list", "1,7"),
    (REASSIGN, "--reassignment-json-file", "TO_A", "--execute"),  # it lies there
    (REASSIGN, "--reassignment-json-file", "TO_A", "--verify"),
    (REASSIGN, "--reassignment-json-file", "TO_B", "--verify"),
    (REASSIGN, "--reassignment-json-file", "TO_ANY", "--execute"),
    (REASSIGN, "--reassignment-json-file", "TO_NOWHERE", "--execute"),
    (REASSIGN, "--reassignment-json-file", "TO_NOWHERE", "--verify"),
    (REASSIGN, "--reassignment-json-file", "TO_RELATIVE", "--execute"),
    (REASSIGN, "--reassignment-json-file", "OF_NOBODY", "--execute"),
    (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe"),
)


class Side:
    """One broker with its two directories."""

    def __init__(self, driver: Driver, port: int, files: Path, directories: tuple[Path, Path]) -> None:
        self._driver, self.port, self._files, self._directories = driver, port, files, directories
        names = dict(zip(("DIRECTORY_A", "DIRECTORY_B"), map(str, directories), strict=True))
        for name, (topic, place) in FILES.items():
            one = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [names.get(place, place)]}
            (files / name).write_text(json.dumps({"version": 1, "partitions": [one]}))

    def printed(self, command: tuple[str, ...]) -> list[str]:
        """The exit code and the lines, without ports and paths, and with the JSON of kafka-log-dirs in order. The words
        of the command may name DIRECTORY_A and DIRECTORY_B."""
        a, b = self._directories
        named = (str(self._files / each) if each in FILES else each for each in command)
        tool, *given = (each.replace("DIRECTORY_A", str(a)).replace("DIRECTORY_B", str(b)) for each in named)
        arguments = ["--bootstrap-server", f"127.0.0.1:{self.port}", *given]
        found = self._driver.call("run", TIMEOUT_S, tool=tool, arguments=arguments, stdin="")
        text = str(found["out"])
        for name, path in zip(("DIRECTORY_A", "DIRECTORY_B"), self._directories, strict=True):
            text = re.sub(re.escape(str(path)) + r"(?![\w-])", name, text)
        text = text.replace(str(self.port), "PORT")
        lines = [_in_order(line.strip()) for line in text.splitlines()]
        return [f"exit {found['code']}", *(line for line in lines if line and not line.startswith("at "))]

    def move(self, name: str, *more: str) -> list[str]:
        """What both steps of a move print, the second when it has ended."""
        began = self.printed((REASSIGN, "--reassignment-json-file", name, "--execute", *more))
        verify = (REASSIGN, "--reassignment-json-file", name, "--verify")
        return began + wait_until(lambda: self._ended(verify), "the move has ended")

    def _ended(self, verify: tuple[str, ...]) -> list[str] | None:
        """None while it goes on. In the moment of the swap Apache Kafka tells neither the copy nor the new place."""
        printed = self.printed(verify)
        goes_on = ("still in progress", "is not being moved")
        return None if any(words in line for line in printed for words in goes_on) else printed


def _in_order(line: str) -> str:
    if not line.startswith('{"brokers"') and not line.startswith('{"version"'):
        return line
    found: dict[str, Any] = json.loads(line)
    for broker in found.get("brokers", ()):
        broker["logDirs"].sort(key=lambda each: each["logDir"])
        for each in broker["logDirs"]:
            each["partitions"].sort(key=lambda one: one["partition"])
    for one in found.get("partitions", ()):
        one["log_dirs"] = ["PLACE" for _ in one["log_dirs"]]  # where it was before is chance
    return json.dumps(found, sort_keys=True)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    directory = tmp_path_factory.mktemp("tools")
    for name in ("kafka", "ours", "kafka-files", "our-files"):
        (directory / name).mkdir()
    of_kafka = (directory / "kafka" / "a", directory / "kafka" / "b")
    with (
        kafka_node(directory / "kafka", {"log.dirs": ",".join(map(str, of_kafka))}) as theirs,
        Cluster(directory / "ours", brokers=1, directories=2) as cluster,
    ):
        cluster.wait_until_all_are_known()
        ours = cluster.ports[1]["DIRECT"]
        first, second = cluster.log_dirs(1)
        driver = Driver(prepare(), f"127.0.0.1:{ours}", directory / "tools.log", {})
        try:
            yield (
                Side(driver, theirs, directory / "kafka-files", of_kafka),
                Side(driver, ours, directory / "our-files", (first, second)),
            )
        finally:
            driver.close()


def fill(port: int) -> None:
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0})
    for number in range(50):
        producer.produce("t", b"x" * 1_000 + b"%05d" % number, partition=0)
        assert producer.flush(60) == 0


def test_the_tools_print_the_same_for_both(sides: tuple[Side, Side]) -> None:
    different: list[tuple[object, list[str], list[str]]] = []

    def compare(what: object, theirs: list[str], ours: list[str]) -> None:
        if theirs != ours:
            different.append((what, theirs, ours))

    create = (TOPICS, "--create", "--topic", "t")
    compare(create, *(side.printed(create) for side in sides))
    for side in sides:
        fill(side.port)
    compare("a move to B", *(side.move("TO_B") for side in sides))
    compare("a throttled move", *(side.move("TO_A", "--replica-alter-log-dirs-throttle", "50000000") for side in sides))
    for command in COMMANDS:
        compare(command, *(side.printed(command) for side in sides))
    assert not different, "\n".join(f"{what}\n  kafka {theirs}\n  ours  {ours}" for what, theirs, ours in different)


def configure(*values: str, name: str = "1") -> tuple[str, ...]:
    who = ("--entity-name", name) if name else ("--entity-default",)
    given = [word for value in values for word in ("--add-config", f"cordoned.log.dirs={value}")]
    return (CONFIGS, "--entity-type", "brokers", *who, "--alter", *(given or ("--delete-config", "cordoned.log.dirs")))


CORDONS: tuple[tuple[str, ...], ...] = (
    configure("/no/such/directory"),
    configure("[DIRECTORY_A,/no/such/directory]"),
    configure("[DIRECTORY_A,DIRECTORY_A]"),
    configure("[*,DIRECTORY_A]"),
    configure("/no/such/directory", name=""),
    configure("DIRECTORY_A"),
    (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe"),
    configure("[DIRECTORY_A,DIRECTORY_B]"),
    (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe"),
    configure("*"),
)
AFTERWARDS: tuple[tuple[str, ...], ...] = (
    (LOG_DIRS, "--describe", "--topic-list", "nope"),
    (REASSIGN, "--reassignment-json-file", "TO_A", "--execute"),
    (TOPICS, "--create", "--topic", "two", "--replication-factor", "2"),
    (TOPICS, "--alter", "--topic", "t", "--partitions", "2"),
    (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"),
)


def test_cordoned_directories_get_no_new_replicas_as_in_apache_kafka(sides: tuple[Side, Side]) -> None:
    """KIP-1066."""
    different: list[tuple[object, list[str], list[str]]] = []

    def compare(command: tuple[str, ...], only: str = "") -> None:
        theirs, ours = printed_by_both(
            command, sides, lambda side: [line for line in side.printed(command) if only in line]
        )
        if theirs != ours:
            different.append((command, theirs, ours))

    for command in CORDONS:
        compare(command)
    create = (TOPICS, "--create", "--topic", "refused")
    for side in sides:
        wait_until(lambda side=side: "log directories cordoned" in str(side.printed(create)), "the controller knows")
    for command in AFTERWARDS:
        compare(command, "cordoned" if "--all" in command else "")
    compare(configure())
    for side in sides:
        assert wait_until(lambda side=side: side.printed((*create[:-1], "again"))[0] == "exit 0", "it is made")
    assert not different, "\n".join(f"{what}\n  kafka {theirs}\n  ours  {ours}" for what, theirs, ours in different)

"""kafka-reassign-partitions, kafka-topics and kafka-leader-election print the same for three brokers of either kind.

Replicas really move here, also throttled, cancelled and replaced on the way (KIP-455, KIP-73). All tools run in one
JVM.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from same_words import printed_by_both

from broker.door.clients import Producer
from harness.clusters.base import ClusterKey, Engine
from harness.clusters.factory import build_cluster
from harness.clusters.kafka.jars import has_jars, jar_directory
from harness.clusters.process_cluster import ProcessCluster
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
TOOLS = "org.apache.kafka.tools."
REASSIGN, TOPICS = f"{TOOLS}reassign.ReassignPartitionsCommand", f"{TOOLS}TopicCommand"
ELECT, CONFIGS = f"{TOOLS}LeaderElectionCommand", "kafka.admin.ConfigCommand"
RECORD_BYTES, RECORDS = 20_000, 100
SLOW = "10000"  # bytes a second: the 2 MB of a partition take longer than all that is asked meanwhile
# Files that a command names: the replicas of each partition.
FILES = {
    "AWAY": {0: [3, 1], 1: [1, 3]},
    "BACK": {0: [1, 2], 1: [2, 3]},
    "ONE": {0: [2]},
    "OTHER": {0: [3, 2], 1: [1, 2]},
    "WIDER": {0: [3, 1, 2], 1: [1, 3, 2]},
    "TWICE": {0: [1, 1]},
    "TO_NOBODY": {0: [1, 9]},
}
DESCRIBE = (TOPICS, "--describe", "--topic", "t")
TOPIC_SETTINGS = (CONFIGS, "--entity-type", "topics", "--entity-name", "t", "--describe")


def reassign(name: str, *more: str) -> tuple[str, ...]:
    return (REASSIGN, "--reassignment-json-file", name, *more)


def elect(*more: str) -> tuple[str, ...]:
    return (ELECT, "--election-type", "preferred", "--topic", "t", "--partition", *more)


# Each is given to both; with UNTIL_DONE until no move goes on any more.
UNTIL_DONE = "until done"
COMMANDS: tuple[tuple[str, ...], ...] = (
    DESCRIBE,
    (REASSIGN, "--list"),
    (REASSIGN, "--topics-to-move-json-file", "MOVE", "--broker-list", "1,9", "--generate"),
    reassign("TWICE", "--execute"),
    reassign("TO_NOBODY", "--execute"),
    reassign("BACK", "--verify"),
    # throttled, looked at, joined by a second one, cancelled
    reassign("AWAY", "--execute", "--throttle", SLOW),
    (REASSIGN, "--list"),
    DESCRIBE,
    TOPIC_SETTINGS,
    *((CONFIGS, "--entity-type", "brokers", "--entity-name", str(broker), "--describe") for broker in (1, 2, 3)),
    reassign("AWAY", "--verify"),
    reassign("ONE", "--execute"),
    (TOPICS, "--describe", "--topic", "t", "--under-replicated-partitions"),
    reassign("AWAY", "--cancel", "--preserve-throttles"),
    (REASSIGN, "--list"),
    TOPIC_SETTINGS,
    reassign("AWAY", "--cancel"),
    TOPIC_SETTINGS,
    DESCRIBE,
    # Replaced on the way. If the new target removed nobody, Apache Kafka would end elsewhere (docs/guide/found.md).
    reassign("AWAY", "--execute", "--throttle", SLOW),
    reassign("OTHER", "--execute", "--additional", "--throttle", "50000000"),
    (UNTIL_DONE, *reassign("OTHER", "--verify")),
    DESCRIBE,
    TOPIC_SETTINGS,
    # whole, and back
    reassign("AWAY", "--execute"),
    (UNTIL_DONE, *reassign("AWAY", "--verify")),
    DESCRIBE,
    elect("0"),
    elect("0"),
    elect("7"),
    DESCRIBE,
    reassign("ONE", "--execute"),
    (UNTIL_DONE, *reassign("ONE", "--verify")),
    DESCRIBE,
    reassign("BACK", "--execute"),
    (UNTIL_DONE, *reassign("BACK", "--verify")),
    (ELECT, "--election-type", "preferred", "--all-topic-partitions"),
    DESCRIBE,
)


class Side:
    def __init__(self, driver: Driver, cluster: ProcessCluster, files: Path) -> None:
        self._driver, self._cluster, self._files = driver, cluster, files

    def printed(self, command: tuple[str, ...]) -> list[str]:
        """The exit code and the lines, without what a port, a directory or an order that means nothing says."""
        tool, *given = (str(self._files / each) if each in (*FILES, "MOVE") else each for each in command)
        arguments = ["--bootstrap-server", self._cluster.bootstrap_servers, *given]
        found = self._driver.call("run", TIMEOUT_S, tool=tool, arguments=arguments, stdin="")
        text = re.sub(r'"log_dirs":\[[^\]]+\]', '"log_dirs":[...]', str(found["out"]))
        text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
        text = re.sub(r"Isr: ([\d,]+)", lambda each: "Isr: " + ",".join(sorted(each[1].split(","))), text)
        lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
        return [f"exit {found['code']}", *(line for line in lines if line and not line.startswith("at "))]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    directory = tmp_path_factory.mktemp("moves")
    for name, replicas in FILES.items():
        parts = [{"topic": "t", "partition": index, "replicas": wanted} for index, wanted in replicas.items()]
        (directory / name).write_text(json.dumps({"version": 1, "partitions": parts}))
    (directory / "MOVE").write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    engines: tuple[Engine, Engine] = ("kafka", "reference")
    clusters = []
    # An automatic election could come between two commands. What the file sets is told, so it is the same for both.
    settings = (("auto.leader.rebalance.enable", "false"), ("unclean.leader.election.enable", "false"))
    for engine in engines:
        key = ClusterKey(engine=engine, proxied=False, brokers=3, settings=settings)
        clusters.append(build_cluster(key, directory / engine, proxy_choice="none", lease=None, seed=0))
    driver = Driver(prepare(), "unused", directory / "tools.log", {})
    try:
        for cluster in clusters:
            cluster.start()
        theirs, ours = (Side(driver, cluster, directory) for cluster in clusters)
        yield theirs, ours
    finally:
        driver.close()
        for cluster in clusters:
            cluster.stop()


def fill(side: Side) -> None:
    with Producer({"bootstrap.servers": side._cluster.bootstrap_servers, "linger.ms": 0, "acks": "all"}) as producer:
        for number in range(2 * RECORDS):
            producer.send("t", bytes(RECORD_BYTES), partition=number % 2).get(60)


def test_moves_between_brokers_print_the_same_for_both(sides: tuple[Side, Side]) -> None:
    create = (TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3")
    theirs, ours = (side.printed(create) for side in sides)
    assert theirs == ours
    for side in sides:
        fill(side)
    different = []
    for command in COMMANDS:
        given = command[1:] if command[0] == UNTIL_DONE else command

        def printed(side: Side, given: tuple[str, ...] = given) -> list[str]:
            return side.printed(given)

        if command[0] == UNTIL_DONE:
            for side in sides:
                wait_until_done(side, given)
        theirs, ours = printed_by_both(given, sides, printed)
        if theirs != ours:
            different.append(f"{command}\n  kafka {theirs}\n  ours  {ours}")
    assert not different, "\n".join(different)


def test_a_move_that_a_wider_one_replaces(sides: tuple[Side, Side]) -> None:
    """Apache Kafka 4.3.1 removes the replicas that the first move would have removed, although they are wanted again
    (docs/guide/found.md)."""
    ended = []
    for side in sides:
        for command in (
            (TOPICS, "--delete", "--topic", "t", "--if-exists"),
            (TOPICS, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3"),
        ):
            wait_until(lambda side=side, command=command: side.printed(command)[0] == "exit 0", "t is new")  # type: ignore[misc]
        fill(side)
        assert side.printed(reassign("AWAY", "--execute", "--throttle", SLOW))[0] == "exit 0"
        assert side.printed(reassign("WIDER", "--execute", "--additional", "--throttle", "50000000"))[0] == "exit 0"
        wait_until_done(side, reassign("WIDER", "--verify"))
        ended.append(side.printed(reassign("WIDER", "--verify"))[2:4])
    theirs, ours = ended
    completed = ["Reassignment of partition t-0 is completed.", "Reassignment of partition t-1 is completed."]
    lost = [
        "There is no active reassignment of partition t-0, but replica set is 3,1 rather than 3,1,2.",
        "There is no active reassignment of partition t-1, but replica set is 1,3 rather than 1,3,2.",
    ]
    assert [line in each for line, each in zip(theirs, zip(lost, completed, strict=True), strict=True)] == [True, True]
    assert set(theirs) & set(lost), "on a busy host the first move of one of them may end before it is replaced"
    assert ours == completed


def wait_until_done(side: Side, verify: tuple[str, ...]) -> None:
    """With the throttles left as they are, so that both sides are then asked for the same."""
    wait_until(
        lambda: not any("in progress" in line for line in side.printed((*verify, "--preserve-throttles"))),
        "the moves have ended",
        TIMEOUT_S,
    )

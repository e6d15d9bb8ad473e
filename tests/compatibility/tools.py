"""Kafka's own command line tools from its jars, each tried against the brokers: what it printed is what is judged.

All run in one JVM (drivers/java/Tools.java), since starting one takes seconds. Shown by the table that they make.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from harness.clusters.kafka.jars import VERSION, ensure_jars, java_command
from tests.broker_node.cluster_helper import wait_until
from tests.compatibility.clients import CannotPrepare, compiled
from tests.compatibility.driver import Driver, NoAnswer
from tests.compatibility.trial import NOT_IMPLEMENTED, Cell, Trial
from tests.compatibility.world import WAIT_S, World

NAME = "Kafka's tools"
TOOL_TIMEOUT_S = 240.0


class ToolFailure(Exception):
    """Exit code and the end of what was printed."""


class Toolbox:
    """`run` gives what a tool printed; `--bootstrap-server` is put before its other arguments."""

    def __init__(self, driver: Driver, world: World) -> None:
        self._driver = driver
        self.world = world

    def run(self, tool: str, *arguments: object, server: str = "--bootstrap-server", stdin: str = "") -> str:
        name = tool if tool.startswith(("kafka.", "org.")) else f"org.apache.kafka.tools.{tool}"
        given = [server, self.world.bootstrap, *map(str, arguments)]
        found = self._driver.call("run", TOOL_TIMEOUT_S, tool=name, arguments=given, stdin=stdin)
        if found["code"]:
            raise ToolFailure(f"exit {found['code']}: {found['out'][-400:].strip()}")
        return str(found["out"])

    def file(self, name: str, text: str) -> Path:
        path = self.world.directory / name
        path.write_text(text)
        return path

    def topic_of(self, count: int, partitions: int = 1) -> str:
        topic = self.world.topic(partitions)
        self.run("VerifiableProducer", "--topic", topic, "--max-messages", count)
        return topic


Attempt: TypeAlias = Callable[[Toolbox], None]


def _topics(box: Toolbox) -> None:
    topic = box.world.name("made")
    box.run("TopicCommand", "--create", "--topic", topic, "--partitions", 2, "--config", "cleanup.policy=compact")
    box.run("TopicCommand", "--alter", "--topic", topic, "--partitions", 3)
    found = box.run("TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 3" in found
    assert "cleanup.policy=compact" in found
    assert topic in box.run("TopicCommand", "--list")
    box.run("TopicCommand", "--delete", "--topic", topic)
    wait_until(lambda: topic not in box.world.topics(), "the topic's end", WAIT_S)


def _configs(box: Toolbox) -> None:
    of_topic = ("--entity-type", "topics", "--entity-name", box.world.topic())
    box.run("kafka.admin.ConfigCommand", *of_topic, "--alter", "--add-config", "retention.ms=777000")
    assert "retention.ms=777000" in box.run("kafka.admin.ConfigCommand", *of_topic, "--describe")
    client = ("--entity-type", "clients", "--entity-name", box.world.name())
    box.run("kafka.admin.ConfigCommand", *client, "--alter", "--add-config", "producer_byte_rate=300000")
    assert "producer_byte_rate=300000.0" in box.run("kafka.admin.ConfigCommand", *client, "--describe")


def _consumer_groups(box: Toolbox) -> None:
    tool, topic, group = "consumer.group.ConsumerGroupCommand", box.topic_of(20), box.world.name("g")
    box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 20)
    found = box.run(tool, "--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+20\s+20\s+0", found), found
    assert group in box.run(tool, "--list")
    box.run(tool, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 5, "--execute")
    assert re.search(rf"{topic}\s+0\s+5\s+20\s+15", box.run(tool, "--describe", "--group", group))
    assert "Empty" in box.run(tool, "--describe", "--group", group, "--state")
    box.run(tool, "--delete-offsets", "--group", group, "--topic", topic)
    box.run(tool, "--delete", "--group", group)
    assert group not in box.run(tool, "--list").split()


def _groups(box: Toolbox) -> None:
    topic, group = box.topic_of(1), box.world.name("g")
    box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 1)
    assert re.search(rf"{group}\s+Classic\s+consumer", box.run("GroupsCommand", "--list"))


def _get_offsets(box: Toolbox) -> None:
    topic = box.topic_of(7)
    assert f"{topic}:0:7" in box.run("GetOffsetShell", "--topic", topic)
    assert f"{topic}:0:0" in box.run("GetOffsetShell", "--topic", topic, "--time", "earliest")


def _delete_records(box: Toolbox) -> None:
    topic = box.topic_of(9)
    what = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}
    found = box.run("DeleteRecordsCommand", "--offset-json-file", box.file("delete.json", json.dumps(what)))
    assert "low_watermark: 4" in found
    assert box.world.log_start(topic) == 4


def _leader_election(box: Toolbox) -> None:
    topic = box.world.topic()
    found = box.run("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    assert f"Valid replica already elected for partitions {topic}-0" in found


def _log_dirs(box: Toolbox) -> None:
    topic = box.topic_of(3)
    described = json.loads(box.run("LogDirsCommand", "--describe", "--topic-list", topic).splitlines()[-1])
    assert {each["broker"] for each in described["brokers"]} == set(box.world.cluster.ids)


def _quorum(box: Toolbox) -> None:
    status = box.run("MetadataQuorumCommand", "describe", "--status")
    assert f"LeaderId:               {box.world.cluster.controller()}" in status
    lines = box.run("MetadataQuorumCommand", "describe", "--replication").splitlines()
    assert sorted(line.split()[-1] for line in lines[1:]) == ["Follower", "Follower", "Leader"]


def _transactions(box: Toolbox) -> None:
    topic, name = box.world.topic(), box.world.name("tx")
    box.run(
        "ProducerPerformance", "--topic", topic, "--num-records", 20, "--record-size", 100, "--throughput", 200,
        "--transactional-id", name, "--transaction-duration-ms", 50,
    )  # fmt: skip
    assert name in box.run("TransactionsCommand", "list")
    assert re.search(
        rf"{name}\s.*CompleteCommit", box.run("TransactionsCommand", "describe", "--transactional-id", name)
    )
    assert "ProducerId" in box.run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0)


def _api_versions(box: Toolbox) -> None:
    found = box.run("BrokerApiVersionsCommand")
    assert found.count("Produce(0): 0 to 13 [usable: 13]") == len(box.world.cluster.ids)


def _producer_performance(box: Toolbox) -> None:
    topic = box.world.topic()
    found = box.run(
        "ProducerPerformance", "--topic", topic, "--num-records", 500, "--record-size", 100, "--throughput", -1
    )
    assert "500 records sent" in found
    assert len(box.world.values(topic)) == 500


def _consumer_performance(box: Toolbox) -> None:
    topic = box.topic_of(300)
    found = box.run("ConsumerPerformance", "--topic", topic, "--num-records", 300, "--timeout", 60_000)
    assert re.search(r",\s*300,", found), found


def _end_to_end_latency(box: Toolbox) -> None:
    topic = box.world.topic()
    given = ("--topic", topic, "--num-records", 20, "--producer-acks", "all", "--record-size", 50)
    assert "Percentiles" in box.run("EndToEndLatency", *given)


def _verifiable(box: Toolbox) -> None:
    topic, group = box.world.topic(), box.world.name("g")
    found = box.run("VerifiableProducer", "--topic", topic, "--max-messages", 50, "--acks", -1)
    assert '"sent":50,"acked":50' in found
    found = box.run("VerifiableConsumer", "--topic", topic, "--group-id", group, "--max-messages", 50)
    assert '"name":"offsets_committed"' in found
    consumed = [json.loads(line) for line in found.splitlines() if '"name":"records_consumed"' in line]
    assert sum(each["count"] for each in consumed) == 50


def _copier(box: Toolbox) -> None:
    source, target = box.topic_of(40), box.world.topic()
    box.run(
        "TransactionalMessageCopier", "--input-topic", source, "--input-partition", 0, "--output-topic", target,
        "--consumer-group", box.world.name("g"), "--transaction-size", 10, "--transactional-id", box.world.name("tx"),
        "--enable-random-aborts", "--use-group-metadata", server="--broker-list",
    )  # fmt: skip
    copied = box.run(
        "consumer.ConsoleConsumer", "--topic", target, "--partition", 0, "--offset", "earliest", "--max-messages", 40,
        "--timeout-ms", 60_000, "--isolation-level", "read_committed",
    )  # fmt: skip
    assert [line for line in copied.split() if line.isdigit()] == [str(number) for number in range(40)]


def _console(box: Toolbox) -> None:
    topic = box.world.topic()
    lines = [f"line {number}" for number in range(10)]
    box.run("ConsoleProducer", "--topic", topic, stdin="".join(f"{line}\n" for line in lines))
    found = box.run(
        "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", 10, "--timeout-ms", 60_000
    )
    assert [line for line in found.splitlines() if line.startswith("line")] == lines


def _reassign(box: Toolbox) -> None:
    topic = box.topic_of(5)
    replicas = list(box.world.partition(topic).replica_nodes)[::-1][:2]
    plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
    given = ("--reassignment-json-file", box.file("plan.json", json.dumps(plan)))
    box.run("reassign.ReassignPartitionsCommand", *given, "--execute")
    wait_until(lambda: list(box.world.partition(topic).replica_nodes) == replicas, "the new replicas", WAIT_S)
    assert "is completed" in box.run("reassign.ReassignPartitionsCommand", *given, "--verify")


TOOLS: tuple[tuple[str, Attempt], ...] = (
    ("kafka-topics", _topics),
    ("kafka-configs", _configs),
    ("kafka-consumer-groups", _consumer_groups),
    ("kafka-groups", _groups),
    ("kafka-get-offsets", _get_offsets),
    ("kafka-delete-records", _delete_records),
    ("kafka-leader-election", _leader_election),
    ("kafka-log-dirs", _log_dirs),
    ("kafka-metadata-quorum", _quorum),
    ("kafka-transactions", _transactions),
    ("kafka-broker-api-versions", _api_versions),
    ("kafka-console-producer, kafka-console-consumer", _console),
    ("kafka-producer-perf-test", _producer_performance),
    ("kafka-consumer-perf-test", _consumer_performance),
    ("kafka-e2e-latency", _end_to_end_latency),
    ("kafka-verifiable-producer, kafka-verifiable-consumer", _verifiable),
    ("TransactionalMessageCopier", _copier),
    ("kafka-reassign-partitions", _reassign),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    command: tuple[str, ...]


def _prepare() -> _Built:
    jars = ensure_jars()
    classes = compiled(f"tools-{VERSION}", jars, "Tools.java", "Json.java")
    options = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    return _Built(command=(java_command(), *options, "-cp", f"{classes}:{jars}/*", "Tools"))


def try_tools(world: World, names: set[str] | None, tell: Callable[[str], None] = lambda _: None) -> Trial:
    """Every tool, or those named, one after the other."""
    chosen = [(name, attempt) for name, attempt in TOOLS if names is None or name in names]
    try:
        command = _prepare().command
    except CannotPrepare as error:
        cells = tuple(Cell(feature=name, state="failed", reason=f"not tried: {error}") for name, _ in chosen)
        return Trial(client=NAME, language="Java", version=VERSION, cells=cells)
    driver = Driver(command, world.bootstrap, world.directory / "tools.log", {})
    box = Toolbox(driver, world)
    cells = ()
    try:
        for name, attempt in chosen:
            cell = _try(name, attempt, box)
            tell(f"{name}: {cell.state} {cell.reason} ({cell.seconds:.1f} s)")
            cells = (*cells, cell)
    finally:
        driver.close()
    return Trial(client=NAME, language="Java", version=VERSION, cells=cells)


def _try(name: str, attempt: Attempt, box: Toolbox) -> Cell:
    begin = time.monotonic()
    state, reason = "passed", ""
    try:
        attempt(box)
    except (ToolFailure, NoAnswer) as error:
        state, reason = "broker" if NOT_IMPLEMENTED.search(str(error)) else "failed", str(error)
    except Exception as error:  # whatever else goes wrong is this tool's failure
        state, reason = "failed", f"{type(error).__name__}: {error}"
    plain = " ".join(reason.split())[:300]
    return Cell(feature=name, state=state, reason=plain, seconds=time.monotonic() - begin)

"""Eligible leader replicas (KIP-966) between real processes: what clients see of them, also beside Apache Kafka."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_helper import Cluster
from kafka_node import kafka_of_two

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
TOPICS, CONFIGS, FEATURES = (
    "org.apache.kafka.tools.TopicCommand",
    "kafka.admin.ConfigCommand",
    "org.apache.kafka.tools.FeatureCommand",
)
ELIGIBLE = "eligible.leader.replicas.version"
ALL_BROKERS = ("--entity-type", "brokers", "--entity-default")
SECOND_BROKER = ("--entity-type", "brokers", "--entity-name", "1")
SESSION = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 500}
MADE: tuple[tuple[str, ...], ...] = (
    (TOPICS, "--create", "--topic", "both", "--replica-assignment", "2:1", "--config", "min.insync.replicas=2"),
    (TOPICS, "--create", "--topic", "last", "--replica-assignment", "2"),
    (CONFIGS, *ALL_BROKERS, "--describe"),
    (CONFIGS, *ALL_BROKERS, "--alter", "--delete-config", "min.insync.replicas"),
    (CONFIGS, *SECOND_BROKER, "--alter", "--add-config", "min.insync.replicas=2"),
)
DESCRIBED: tuple[tuple[str, ...], ...] = (
    (TOPICS, "--describe", "--topic", "both"),
    (TOPICS, "--describe", "--topic", "last"),
    (TOPICS, "--describe", "--unavailable-partitions"),
    (TOPICS, "--describe", "--under-min-isr-partitions"),
)
BOTH = (CONFIGS, "--entity-type", "topics", "--entity-name", "both", "--alter", "--add-config")
UNCHANGED, CHANGED = (*BOTH, "min.insync.replicas=2"), (*BOTH, "min.insync.replicas=1")


class Pair:
    """Both clusters, and the JVM that runs a tool on one of them. Broker 2 of each can be killed."""

    def __init__(
        self, driver: Driver, ports: tuple[int, int], kill: Callable[[], None], start: Callable[[], None]
    ) -> None:
        self._driver, self.ports, self.kill_second, self.start_second = driver, ports, kill, start

    def printed(self, port: int, command: tuple[str, ...]) -> list[str]:
        """The exit code and the lines, without what is different by nature."""
        tool, *given = command
        arguments = ["--bootstrap-server", f"127.0.0.1:{port}", *given]
        found = self._driver.call("run", TIMEOUT_S, tool=tool, arguments=arguments, stdin="")
        text = re.sub(r"TopicId: \S+", "TopicId: ID", found["out"].replace(str(port), "PORT"))
        text = re.sub(r"Isr: ([\d,]+)", lambda found: "Isr: " + ",".join(sorted(found[1].split(","))), text)
        lines = [re.sub(r"\s+", " ", line.strip()) for line in text.splitlines()]
        return [f"exit {found['code']}", *(line for line in lines if line and not line.startswith("at "))]

    def same(self, *commands: tuple[str, ...]) -> list[list[str]]:
        """What both print for each of them."""
        printed = [[self.printed(port, command) for port in self.ports] for command in commands]
        different = [
            f"{command}\n  kafka {theirs}\n  ours  {ours}"
            for command, (theirs, ours) in zip(commands, printed, strict=True)
            if theirs != ours
        ]
        assert not different, "\n".join(different)
        return [theirs for theirs, _ in printed]

    def same_at_last(self, *commands: tuple[str, ...]) -> list[list[str]]:
        """Commands that only read: brokers hear of a change later than the controller has taken it."""

        def are_same() -> bool:
            with contextlib.suppress(AssertionError):
                self.same(*commands)
                return True
            return False

        with contextlib.suppress(AssertionError):
            wait_until(are_same, "both print the same", 30.0)
        return self.same(*commands)

    def wait_until_both_print(self, command: tuple[str, ...], part: str) -> None:
        for port in self.ports:
            wait_until(
                lambda port=port: part in " ".join(self.printed(port, command)),  # type: ignore[misc]
                f"{part!r} of {command} at {'Apache Kafka' if port == self.ports[0] else 'ours'}",
                180.0,
            )


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    for name in ("kafka", "ours"):
        (tmp_path / name).mkdir()
    with (
        kafka_of_two(tmp_path / "kafka", SESSION) as (theirs, second),
        Cluster(tmp_path / "ours", brokers=3, settings=SESSION) as cluster,
    ):
        cluster.wait_until_all_are_known()
        ours = cluster.ports[1]["DIRECT"]
        driver = Driver(prepare(), f"127.0.0.1:{ours}", tmp_path / "tools.log", {})

        def kill() -> None:
            second.kill()
            cluster.kill(2)

        def start() -> None:
            second.start()
            cluster.start(2)

        try:
            yield Pair(driver, (theirs, ours), kill, start)
        finally:
            driver.close()


def test_the_tools_show_eligible_replicas_and_last_leaders_as_of_apache_kafka(pair: Pair) -> None:
    made = pair.same(*MADE)
    assert "min.insync.replicas=1" in " ".join(made[2])
    assert "cannot be removed while ELR is enabled" in " ".join(made[3])
    assert "cannot be altered while ELR is enabled" in " ".join(made[4])
    for topic, isr in (("both", "Isr: 1,2"), ("last", "Isr: 2")):
        pair.wait_until_both_print((TOPICS, "--describe", "--topic", topic), isr)
    pair.same_at_last(*DESCRIBED)
    pair.kill_second()
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "both"), "Isr: 1 Elr: 2")
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "last"), "Leader: none")
    both, last, *_ = (" ".join(each) for each in pair.same_at_last(*DESCRIBED))
    assert "Leader: 1 Replicas: 2,1 Isr: 1 Elr: 2 LastKnownElr:" in both
    assert "Leader: none Replicas: 2 Isr: Elr: 2 LastKnownElr: 2" in last
    pair.same(UNCHANGED)
    pair.same_at_last(*DESCRIBED)
    pair.same(CHANGED)
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "both"), "Isr: 1 Elr: LastKnownElr:")
    pair.same_at_last(*DESCRIBED)
    # It was killed, so it may have lost records. Nobody else has them: the last leader leads.
    pair.start_second()
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "last"), "Leader: 2")
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "both"), "Isr: 1,2")
    pair.same_at_last(*DESCRIBED[1:])


def test_eligible_replicas_are_switched_off_as_in_apache_kafka(pair: Pair) -> None:
    """While broker 2 is down, so that one partition has an eligible replica, and another has no leader."""
    pair.same(*MADE[:2])
    for topic, isr in (("both", "Isr: 1,2"), ("last", "Isr: 2")):
        pair.wait_until_both_print((TOPICS, "--describe", "--topic", topic), isr)
    pair.kill_second()
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "both"), "Isr: 1 Elr: 2")
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "last"), "Leader: none")
    (switched,) = pair.same((FEATURES, "disable", "--feature", ELIGIBLE))
    assert switched[0] == "exit 0"
    pair.wait_until_both_print((FEATURES, "describe"), f"Feature: {ELIGIBLE} SupportedMinVersion: 0 "
                               "SupportedMaxVersion: 1 FinalizedVersionLevel: 0")  # fmt: skip
    pair.same_at_last(*DESCRIBED)
    # What ELR refused is taken now. It is taken back: which broker a tool asks is chance, and this one would tell it.
    pair.same(*MADE[2:], (CONFIGS, *SECOND_BROKER, "--alter", "--delete-config", "min.insync.replicas"))
    pair.same(UNCHANGED, CHANGED)
    pair.same_at_last(*DESCRIBED)
    pair.start_second()
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "last"), "Leader: 2 Replicas: 2 Isr: 2 Elr:")
    pair.wait_until_both_print((TOPICS, "--describe", "--topic", "both"), "Isr: 1,2")
    # Apache Kafka goes on telling a last leader, although there is a leader. That is said nowhere here.
    theirs, ours = ((" ".join(pair.printed(port, DESCRIBED[1])[:3])) for port in pair.ports)
    assert theirs.endswith("Isr: 2 Elr: LastKnownElr: 2")
    assert ours.endswith("Isr: 2 Elr: LastKnownElr:")
    pair.same_at_last(DESCRIBED[0], *DESCRIBED[2:])

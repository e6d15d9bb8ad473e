"""Members of share groups for tests: processes of the Java client, and what they print."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster_helper import Cluster, make_topics
from kafka_node import kafka_node

from broker.door.clients import Admin, NewTopic, Producer
from broker.door.questions import settings_of
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import wait_process, wait_until

JAVA = Path(__file__).parent / "java" / "ShareReader.java"
LONG_MS = 600_000
# Groups begin within a second. No lock and no member's time ends while a busy host takes its time: a group whose test
# waits for the end of a lock has a lock of its own (`share.record.lock.duration.ms`).
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": 4,
    "offsets.topic.num.partitions": 4,
    "group.share.min.heartbeat.interval.ms": 500,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.session.timeout.ms": LONG_MS,
    "group.share.max.session.timeout.ms": LONG_MS,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.record.lock.duration.ms": LONG_MS,
    "group.share.max.record.lock.duration.ms": LONG_MS,
}
# A single node of Apache Kafka needs them too.
KAFKA_ALONE = {"share.coordinator.state.topic.replication.factor": 1, "share.coordinator.state.topic.min.isr": 1}
IDLE_MS = 120_000  # of a member that ends when it has all records that it waits for


@contextmanager
def one_node(kind: str, directory: Path) -> Iterator[str]:
    """The address of one node: a "reference" broker, or one of Apache "kafka"."""
    if kind == "kafka":
        with kafka_node(directory, {**SETTINGS, **KAFKA_ALONE}) as port:
            yield f"127.0.0.1:{port}"
        return
    with Cluster(directory, brokers=1, settings=SETTINGS) as running:
        yield running.bootstrap()


@dataclass(frozen=True, slots=True)
class Delivery:
    offset: int
    partition: int
    value: str
    deliveries: int

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


class Member:
    """One process. It ends by itself, or is told to, or is killed."""

    def __init__(self, output: Path, bootstrap: str, group: str, topic: str, kind: str, *more: object) -> None:
        """`more`: how many records at most, milliseconds without one until it ends, settings as KEY=VALUE."""
        self.output = output
        command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{ensure_jars()}/*", str(JAVA)]
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [*command, bootstrap, group, topic, kind, *map(str, more)],
                stdin=subprocess.PIPE, stdout=file, stderr=file,
            )  # fmt: skip

    def lines(self) -> list[str]:
        return self.output.read_text(errors="replace").splitlines()

    def deliveries(self) -> list[Delivery]:
        rows = [line.split(" ") for line in self.lines()]
        return [
            Delivery(int(row[0]), int(row[1]), row[2], int(row[3]))
            for row in rows
            if len(row) == 4 and row[0].isdigit() and row[3].lstrip("-").isdigit()
        ]

    def wait_until_it_prints(self, text: str) -> None:
        def has_printed() -> bool:
            assert text in self.lines() or self._process.poll() is None, "\n".join(self.lines()[-40:])
            return text in self.lines()

        wait_until(has_printed, f"a line {text!r} in {self.output}")

    def wait_until_it_has(self, count: int) -> None:
        wait_until(lambda: len(self.deliveries()) >= count, f"{count} records in {self.output}")

    def wait(self) -> list[Delivery]:
        """Until it has ended in order."""
        try:
            code = wait_process(self._process, "its end", seen=lambda: len(self.lines()))
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.lines()[-40:])) from None
        assert code == 0, "\n".join(self.lines()[-40:])
        assert "end" in self.lines(), "\n".join(self.lines()[-40:])
        return self.deliveries()

    def stop(self) -> None:
        """It polls no more, and ends in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        self._process.kill()
        self.stop()
        self._process.wait(10)


class Members:
    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory, self._bootstrap = directory, bootstrap
        self.all: list[Member] = []

    def start(self, group: str, topic: str, kind: str, *more: object) -> Member:
        output = self._directory / f"{group}-{len(self.all)}.txt"
        member = Member(output, self._bootstrap, group, topic, kind, *more)
        self.all.append(member)
        return member


@contextmanager
def members(directory: Path, bootstrap: str) -> Iterator[Members]:
    """Those that a test starts are ended with it."""
    running = Members(directory, bootstrap)
    try:
        yield running
    finally:
        for member in running.all:
            member.kill()


def send(bootstrap: str, topic: str, values: Iterable[object], *, partitions: int = 1) -> None:
    """One after the other over the partitions; all are acknowledged."""
    with Producer({"bootstrap.servers": bootstrap, "delivery.timeout.ms": 120_000}) as producer:
        futures = [
            producer.send(topic, str(value).encode(), partition=number % partitions)
            for number, value in enumerate(values)
        ]
        producer.flush(120)
        for future in futures:
            future.get(120)


def prepare(bootstrap: str, topic: str, group: str, partitions: int = 1, **settings: str) -> None:
    """The topic, and the settings of the group: it begins with the earliest record. A broker hears of the settings a
    moment after the controller has answered."""
    own: Mapping[str, str] = {"share.auto.offset.reset": "earliest", **settings}
    with Admin({"bootstrap.servers": bootstrap, "default.api.timeout.ms": 60_000}) as admin:
        make_topics(admin, NewTopic(topic, partitions))
        admin.alter_configs("group", group, own)

        def are_known() -> bool:
            found = admin.ask(settings_of("group", group))
            return all(found[name].value == value for name, value in own.items())

        wait_until(are_known, f"the settings of {group}")

"""Kafka Connect on the reference cluster: two distributed workers carry a file to a topic and on to another file, and
the worker that reads the first is killed.

The source is exactly-once (KIP-618), so the topic must hold each line once and in order. The sink is at least once:
each line must be in its file, and may be there again.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import create_topic, wait_brokers
from frameworks_helper import Jvm, jvms

from broker.door.clients import Consumer, TopicPartition
from harness.clusters.ports import free_port
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
ASK_TIMEOUT_S = 100
LINES_A_STEP = 500
TOPIC = "carried"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        **PATIENT,
        "transaction.state.log.num.partitions": 4,
        "offsets.topic.num.partitions": 4,
        "min.insync.replicas": 2,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Cluster(tmp_path_factory.mktemp("connect"), settings=settings) as running:
        wait_brokers(running)
        yield running


class Worker(Jvm):
    """A distributed worker, and its REST interface."""

    def __init__(self, cluster: Cluster, directory: Path, name: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.worker_id = f"127.0.0.1:{port}"
        properties = {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": "connect",
            "listeners": self.url,
            "rest.advertised.host.name": "127.0.0.1",
            "exactly.once.source.support": "enabled",
            "scheduled.rebalance.max.delay.ms": 0,
            "session.timeout.ms": 10_000,
            "offset.flush.interval.ms": 500,
            "offset.storage.partitions": 4,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "plugin.discovery": "only_scan",
        }
        for kind in ("config", "offset", "status"):
            properties[f"{kind}.storage.topic"] = f"connect-{kind}"
            properties[f"{kind}.storage.replication.factor"] = 3
        path = directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        super().__init__(directory / f"{name}.txt", ["org.apache.kafka.connect.cli.ConnectDistributed", str(path)])

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """None: it cannot say now, as in a rebalance."""
        assert not self.has_ended, f"the worker ended: {self.printed()[-3000:]}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        request.method = "GET" if body is None else "PUT"
        try:
            with urllib.request.urlopen(request, timeout=ASK_TIMEOUT_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError):
            return None

    def wait_for(self, connector: str, not_on: str | None = None) -> str:
        """The id of the worker of the connector's task, once connector and task run."""

        def place() -> str | None:
            status = self.ask(f"/connectors/{connector}/status") or {}
            tasks = status.get("tasks", [])
            states = [each["state"] for each in (status.get("connector", {"state": ""}), *tasks)]
            running = len(tasks) == 1 and set(states) == {"RUNNING"}
            return tasks[0]["worker_id"] if running and tasks[0]["worker_id"] != not_on else None

        try:
            return str(wait_until(place, f"{connector} runs"))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.printed()[-3000:]}") from error


def carried(cluster: Cluster) -> list[str]:
    """What a read_committed reader finds in the topic."""
    partition = TopicPartition(TOPIC, 0)
    properties = {"bootstrap.servers": cluster.bootstrap(), "isolation.level": "read_committed"}
    found: list[str] = []
    with Consumer({**properties, "auto.offset.reset": "earliest"}) as consumer:
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        while consumer.position(partition) < end:
            found += [bytes(record.value).decode() for record in consumer.poll(1_000)]
    return found


class Source:
    """The file that is read, and all lines that were written to it."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, list[str]()
        path.touch()

    def write(self, count: int) -> None:
        """Fewer than the source's batch.size: what it has read beyond that it keeps until the file grows again."""
        new = [f"line {len(self.lines) + number}" for number in range(count)]
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.lines += new


def test_two_workers_carry_a_file_exactly_once_although_the_reader_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    create_topic(cluster, TOPIC)
    source, sink = Source(tmp_path / "source.txt"), tmp_path / "sink.txt"

    def has_arrived() -> bool:
        written = sink.read_text().splitlines() if sink.exists() else []
        return carried(cluster) == source.lines and set(source.lines) <= set(written)

    with jvms() as workers:
        workers += [Worker(cluster, tmp_path, name) for name in ("one", "two")]
        one, two = workers
        for worker in workers:
            wait_until(lambda worker=worker: worker.ask("/connectors") == [], "a worker that answers")
        source_config = {"connector.class": "FileStreamSource", "file": str(source.path), "topic": TOPIC}
        source_config |= {"tasks.max": "1", "exactly.once.support": "required", "transaction.boundary": "poll"}
        sink_config = {"connector.class": "FileStreamSink", "file": str(sink), "topics": TOPIC, "tasks.max": "1"}
        for name, config in (("source", source_config), ("sink", sink_config)):
            config = {key: str(value) for key, value in config.items()}
            wait_until(lambda name=name, config=config: one.ask(f"/connectors/{name}/config", config), name)
        place = one.wait_for("source")
        one.wait_for("sink")
        source.write(LINES_A_STEP)
        wait_until(has_arrived, "the first lines")

        killed, left = (one, two) if place == one.worker_id else (two, one)
        source.write(LINES_A_STEP)
        killed.kill()
        source.write(LINES_A_STEP)
        assert left.wait_for("source", not_on=killed.worker_id) == left.worker_id
        left.wait_for("sink", not_on=killed.worker_id)
        source.write(LINES_A_STEP)
        wait_until(has_arrived, "all lines", 120)  # the group of the sink misses its member after 45 s
        assert left.terminate() in (0, 143)
    assert carried(cluster) == source.lines
    assert len(source.lines) == 4 * LINES_A_STEP

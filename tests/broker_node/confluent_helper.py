"""confluent-kafka as the tests use it: limits for a busy host, no noise."""

from __future__ import annotations

import collections
import logging
import time
from collections.abc import Iterable
from typing import Any

from cluster_helper import Cluster
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from wire_helper import ask

from broker.wire.apis import ApiKey
from tests.patience import wait_until

QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


def admin(cluster: Cluster, listener: str = "DIRECT") -> Any:
    return AdminClient({"bootstrap.servers": cluster.bootstrap(listener), **QUIET})


def metadata(client: Any) -> Any:
    try:
        return client.list_topics(timeout=2)
    except KafkaException:
        return None


class LastLines(logging.Handler):
    """What a client logs, the last lines of it."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: collections.deque[str] = collections.deque(maxlen=120)
        self.logger = logging.Logger("client")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def text(self) -> str:
        return "\n".join(self._lines)


def wait_brokers(cluster: Cluster, count: int | None = None, quiet_s: float = 90.0) -> float:
    """Seconds until every broker is in the Metadata answer."""
    expected = len(cluster.ids) if count is None else count
    begin = time.monotonic()
    client = admin(cluster)

    def are_there() -> bool:
        found = metadata(client)
        return bool(found) and len(found.brokers) == expected

    wait_until(are_there, "all brokers", quiet_s, seen=cluster.seen)
    return time.monotonic() - begin


def create_topic(cluster: Cluster, name: str, *, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    topic = NewTopic(name, partitions, min(3, len(cluster.ids)), config=config or {})
    client = admin(cluster)  # its futures die with it

    def is_made() -> bool:
        """On a busy host librdkafka asks again before the answer to its first request comes, and a broker cannot always
        tell in time whether its controller made the topic."""
        try:
            client.create_topics([topic])[name].result(120)
        except KafkaException as error:
            code = error.args[0].code()
            if code not in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.REQUEST_TIMED_OUT):
                raise
            return bool(code == KafkaError.TOPIC_ALREADY_EXISTS)
        return True

    wait_until(is_made, f"topic {name}")


def known_topic(cluster: Cluster, topic: str, *, partitions: int = 1) -> Any:
    """The topic, from a broker that knows so many partitions of it: others hear of a change before some do."""
    client = admin(cluster)

    def find() -> Any:
        found = metadata(client)
        own = found.topics.get(topic) if found else None
        return own if own is not None and len(own.partitions) >= partitions else None

    return wait_until(find, f"{partitions} partitions of {topic}")


def leader(cluster: Cluster, topic: str, partition: int = 0) -> int:
    """The leader that a running broker reports; waits for one that runs and knows that it leads."""
    client = admin(cluster)

    def find() -> int | None:
        found = metadata(client)
        if not found or topic not in found.topics or partition not in found.topics[topic].partitions:
            return None
        candidate: int = found.topics[topic].partitions[partition].leader
        return candidate if candidate in cluster.processes and _leads(cluster, candidate, topic, partition) else None

    result: int = wait_until(find, f"a leader of {topic}-{partition}")
    return result


def _leads(cluster: Cluster, broker: int, topic: str, partition: int) -> bool:
    """As this broker has it. Others may have heard of a new leader before it has."""
    asked = {"topics": [{"topic_id": None, "name": topic}], "allow_auto_topic_creation": False}
    try:
        (found,) = ask(cluster.ports[broker]["DIRECT"], ApiKey.METADATA, 12, **asked).topics
    except OSError:
        return False
    return any(each.partition_index == partition and each.leader_id == broker for each in found.partitions)


def isr(cluster: Cluster, topic: str, partition: int = 0) -> set[int]:
    found = metadata(admin(cluster))
    own = found.topics.get(topic) if found else None
    return set(own.partitions[partition].isrs) if own and partition in own.partitions else set()


def produce(
    cluster: Cluster, topic: str, values: Iterable[str], *, partition: int = 0, **properties: object
) -> dict[str, int]:
    """value -> offset of what was acknowledged; raises for what failed, with librdkafka's last words."""
    said = LastLines()
    config = {
        "bootstrap.servers": cluster.bootstrap(),
        **QUIET,
        "linger.ms": 0,
        "log_level": 7,
        "debug": "broker,topic",
    }
    producer = Producer({**config, **properties}, logger=said.logger)
    acked: dict[str, int] = {}
    errors: list[object] = []

    def delivered(error: object, message: Any) -> None:
        if error is None:
            acked[message.value().decode()] = message.offset()
        else:
            errors.append(error)

    for value in values:
        producer.produce(topic, value.encode(), partition=partition, on_delivery=delivered)
    left = producer.flush(120)
    assert left == 0, f"{left} records without an answer; librdkafka said last:\n{said.text()}"
    assert errors == []
    return acked


def consume(cluster: Cluster, topic: str, count: int, *, partition: int = 0, timeout_s: float = 90.0) -> list[str]:
    """`count` values of the partition from the beginning, or what came in time."""
    properties = {
        "bootstrap.servers": cluster.bootstrap(),
        "group.id": "none",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 100,
        **QUIET,
    }
    consumer = Consumer(properties)
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[str] = []
    deadline = time.monotonic() + timeout_s
    try:
        while len(values) < count and time.monotonic() < deadline:
            values += [m.value().decode() for m in consumer.consume(count, 0.2) if not m.error()]
    finally:
        consumer.close()
    return values

"""Kafka Streams on the reference cluster: an exactly-once word count, while a broker and the instances are killed. It
uses the classic protocol of groups.

Nothing is cached, so each word of the input is answered by one record with the word's count so far. The counts of a
word must then read 1, 2, 3, and so on up to how often it was sent: a word lost, counted twice or answered out of order
breaks the sequence.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import Cluster
from confluent_helper import create_topic, wait_brokers
from frameworks_helper import Jvm, jvms
from wire_helper import ask

from broker.door.clients import Consumer, Producer, TopicPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]
DELIVERY_S = 120  # a client's own limit, on a busy host
WORDS = ("alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine")
LINES, WORDS_A_LINE, SEED = 900, 3, 20
IN_PARTITIONS, OUT_PARTITIONS = 4, 2
JAVA = Path(__file__).parent / "java" / "WordCount.java"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "transaction.state.log.num.partitions": 4,
        "offsets.topic.num.partitions": 4,
        "min.insync.replicas": 2,
        "group.initial.rebalance.delay.ms": 0,
    }
    with Cluster(tmp_path_factory.mktemp("streams"), settings=settings) as running:
        wait_brokers(running)
        yield running


def word_count(cluster: Cluster, directory: Path, name: str) -> Jvm:
    state = str(directory / f"state-{name}")
    return Jvm(directory / f"{name}.txt", [str(JAVA), cluster.bootstrap(), "count", state, "lines", "counts"])


def coordinator(cluster: Cluster, group: str) -> int:
    def found() -> Any:
        answer = ask(cluster.ports[1]["DIRECT"], ApiKey.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[group])
        (each,) = answer.coordinators
        return each.node_id if each.error_code is ErrorCode.none else None

    return int(wait_until(found, f"the coordinator of {group}"))


class Lines:
    """Sends lines of words, and knows how often each word was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._topic = topic
        self.sent: Counter[str] = Counter()
        self._rng = random.Random(SEED)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap(), "delivery.timeout.ms": DELIVERY_S * 1000})

    def send(self, count: int) -> None:
        futures = []
        for number in range(count):
            words = self._rng.choices(WORDS, k=WORDS_A_LINE)
            self.sent.update(words)
            partition = number % IN_PARTITIONS
            futures.append(self._producer.send(self._topic, " ".join(words).encode(), partition=partition))
        self._producer.flush(DELIVERY_S)
        for future in futures:
            future.get(DELIVERY_S)

    def close(self) -> None:
        self._producer.close()


class Counts:
    """What a reader saw, by word."""

    def __init__(self, cluster: Cluster, topic: str, isolation: str) -> None:
        self.by_word: defaultdict[str, list[int]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap(),
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(topic, number) for number in range(OUT_PARTITIONS)])

    def read(self) -> None:
        for record in self._consumer.poll(500):
            self.by_word[bytes(record.key).decode()].append(int(bytes(record.value)))

    @property
    def total(self) -> int:
        return sum(map(len, self.by_word.values()))

    def wait_for(self, sent: Counter[str], instances: list[Jvm]) -> None:
        def is_complete() -> bool:
            self.read()
            return self.total >= sum(sent.values())

        try:
            wait_until(is_complete, f"{sum(sent.values())} counts", seen=lambda: self.total)
        except AssertionError as error:
            printed = "\n".join(each.printed()[-2000:] for each in instances)
            raise AssertionError(f"{error}; {self.total} came\n{printed}") from error

    def close(self) -> None:
        self._consumer.close()


def test_an_exactly_once_word_count_survives_a_killed_broker_and_killed_instances(
    cluster: Cluster, tmp_path: Path
) -> None:
    sources, results = "lines", "counts"
    create_topic(cluster, sources, partitions=IN_PARTITIONS)
    create_topic(cluster, results, partitions=OUT_PARTITIONS)
    lines = Lines(cluster, sources)
    counts, uncommitted = (Counts(cluster, results, f"read_{kind}") for kind in ("committed", "uncommitted"))

    def is_in_a_transaction() -> bool:
        """It commits every 3 s, and what comes in between is seen by one of the readers only."""
        lines.send(LINES // 90)
        uncommitted.read()
        counts.read()
        return uncommitted.total > counts.total

    with jvms() as instances:
        first = word_count(cluster, tmp_path, "first")
        instances.append(first)
        first.wait_until_it_prints("RUNNING")
        lines.send(LINES // 3)
        counts.wait_for(lines.sent, instances)

        killed = coordinator(cluster, "count")
        cluster.kill(killed)
        lines.send(LINES // 3)
        counts.wait_for(lines.sent, instances)
        cluster.start(killed)
        wait_brokers(cluster)

        # Its state comes from the changelog, as it has no directory.
        second = word_count(cluster, tmp_path, "second")
        instances.append(second)
        second.wait_until_it_prints("RUNNING")
        counts.wait_for(lines.sent, instances)
        wait_until(is_in_a_transaction, "counts that are not committed yet")
        first.kill()
        second.kill()
        # where the second kept its state
        instances.append(third := word_count(cluster, tmp_path, "second"))
        lines.send(LINES // 3)
        counts.wait_for(lines.sent, instances)
        assert third.terminate() in (0, 143)
    counts.read()
    lines.close()
    counts.close()
    uncommitted.close()
    assert sum(lines.sent.values()) > LINES * WORDS_A_LINE
    assert dict(counts.by_word) == {word: list(range(1, sent + 1)) for word, sent in lines.sent.items()}

"""Kafka's own Java producer (4.3, transactions of version 2) on the reference cluster.

Its tools for transactions and the log dumper are tried by tests/compatibility/test_compatibility_tools.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import create_topic, wait_brokers

from broker.door.clients import Consumer, TopicPartition
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.patience import run_command, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
STATE_PARTITIONS = 3
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        **PATIENT,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "offsets.topic.num.partitions": 3,
        "controller.quorum.fetch.timeout.ms": 2_000,  # a busy machine must not change leaders under the test
        "controller.quorum.request.timeout.ms": 2_000,
    }
    with Cluster(tmp_path_factory.mktemp("java-transactions"), settings=settings) as running:
        wait_brokers(running)
        yield running


def run(name: str, *arguments: object) -> str:
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx128m", "-cp", f"{ensure_jars()}/*"]
    command += [f"org.apache.kafka.tools.{name}", *map(str, arguments)]
    done = run_command(command)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def count(cluster: Cluster, topic: str) -> int:
    """The committed records."""
    chosen = TopicPartition(topic, 0)
    properties = {"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}
    with Consumer({**properties, "isolation.level": "read_committed"}) as consumer, Consumer(properties) as plain:
        wait_until(lambda: consumer.end_offsets([chosen]) == plain.end_offsets([chosen]), "a stable end", WAIT_S)
        end = consumer.end_offsets([chosen])[chosen]
        consumer.assign([chosen])
        found = 0
        while consumer.position(chosen) < end:
            found += len(consumer.poll(1_000))
    return found


def test_java_producer_commits_many_transactions_each_with_an_epoch_of_its_own(cluster: Cluster) -> None:
    create_topic(cluster, "java-txn")
    out = run(
        "ProducerPerformance", "--bootstrap-server", cluster.bootstrap(), "--topic", "java-txn", "--num-records", 300,
        "--record-size", 100, "--throughput", 300, "--transactional-id", "java", "--transaction-duration-ms", 50,
    )  # fmt: skip
    assert "300 records sent" in out
    assert count(cluster, "java-txn") == 300
    decided = [event for event in cluster.events("transaction_decided") if event["transactional_id"] == "java"]
    epochs = [event["producer_epoch"] for event in decided]
    assert len(epochs) >= 2, "many transactions; how many end in a second is the host's affair"
    assert epochs == list(range(1, len(epochs) + 1))  # each end bumped it: KIP-890 part 2

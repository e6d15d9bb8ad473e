"""Kafka's own Java clients and tools on transactions of the reference cluster: the 4.3 producer (version 2),
kafka-transactions.sh, and the log dumper, which checks our files."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import create_topic, leader, wait_brokers

from broker.coordinator.keys import partition_for
from broker.door.clients import Consumer, Producer, TopicPartition
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


def table(text: str) -> list[dict[str, str]]:
    """What kafka-transactions.sh prints: a header line, then one line each, columns apart by tabs."""
    lines = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if "\t" in line]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def count(cluster: Cluster, topic: str, isolation: str) -> int:
    return len(records(cluster, topic, isolation))


def records(cluster: Cluster, topic: str, isolation: str) -> list[bytes | None]:
    chosen = TopicPartition(topic, 0)
    properties = {"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}
    with Consumer({**properties, "isolation.level": isolation}) as consumer, Consumer(properties) as plain:
        wait_until(lambda: consumer.end_offsets([chosen]) == plain.end_offsets([chosen]), "a stable end", WAIT_S)
        end = consumer.end_offsets([chosen])[chosen]
        consumer.assign([chosen])
        found: list[bytes | None] = []
        while consumer.position(chosen) < end:
            found += [record.value for record in consumer.poll(1_000)]
    return found


def test_java_producer_commits_many_transactions_each_with_an_epoch_of_its_own(cluster: Cluster) -> None:
    create_topic(cluster, "java-txn")
    out = run(
        "ProducerPerformance", "--bootstrap-server", cluster.bootstrap(), "--topic", "java-txn", "--num-records", 300,
        "--record-size", 100, "--throughput", 300, "--transactional-id", "java", "--transaction-duration-ms", 50,
    )  # fmt: skip
    assert "300 records sent" in out
    assert count(cluster, "java-txn", "read_committed") == 300
    decided = [event for event in cluster.events("transaction_decided") if event["transactional_id"] == "java"]
    epochs = [event["producer_epoch"] for event in decided]
    assert len(epochs) >= 2, "many transactions; how many end in a second is the host's affair"
    assert epochs == list(range(1, len(epochs) + 1))  # each end bumped it: KIP-890 part 2


def test_transactional_message_copier_with_random_aborts_copies_each_message_once(cluster: Cluster) -> None:
    """Kafka's own exactly-once system-test tool: offsets and records in one transaction, every fourth or so aborted."""
    create_topic(cluster, "copy-in")
    create_topic(cluster, "copy-out")
    values = [b"%d" % number for number in range(100)]
    with Producer({"bootstrap.servers": cluster.bootstrap()}) as producer:
        for value in values:
            producer.send("copy-in", value, partition=0)
    run(
        "TransactionalMessageCopier", "--broker-list", cluster.bootstrap(), "--input-topic", "copy-in",
        "--input-partition", 0, "--output-topic", "copy-out", "--consumer-group", "copiers", "--transaction-size", 10,
        "--transactional-id", "copier", "--enable-random-aborts", "--use-group-metadata",
    )  # fmt: skip
    assert records(cluster, "copy-out", "read_committed") == values
    ends = [event for event in cluster.events("transaction_decided") if event["transactional_id"] == "copier"]
    assert sum(event["is_commit"] for event in ends) >= 10


@pytest.mark.long
def test_transactions_tool_lists_describes_and_finds_the_producers(cluster: Cluster) -> None:
    create_topic(cluster, "described")
    settings = {"bootstrap.servers": cluster.bootstrap(), "transactional.id": "open", "linger.ms": 0}
    with Producer(settings) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.send("described", b"value").get(WAIT_S)
        server = ("--bootstrap-server", cluster.bootstrap())
        listed = {row["TransactionalId"]: row for row in table(run("TransactionsCommand", *server, "list"))}
        assert listed["open"]["TransactionState"] == "Ongoing"
        (described,) = table(run("TransactionsCommand", *server, "describe", "--transactional-id", "open"))
        assert described["TopicPartitions"] == "described-0"
        assert described["TransactionTimeoutMs"] == "60000"
        of_topic = ("describe-producers", "--topic", "described", "--partition", 0)
        (active,) = table(run("TransactionsCommand", *server, *of_topic))
        assert (active["ProducerId"], active["CurrentTransactionStartOffset"]) == (described["ProducerId"], "0")
        producer.abort_transaction(WAIT_S)
    assert count(cluster, "described", "read_committed") == 0


def test_log_dumper_reads_our_state_records_markers_and_index(cluster: Cluster) -> None:
    create_topic(cluster, "dumped")
    settings = {"bootstrap.servers": cluster.bootstrap(), "transactional.id": "dumped", "linger.ms": 0}
    with Producer(settings) as producer:
        producer.init_transactions(WAIT_S)
        for is_commit in (True, False):
            producer.begin_transaction()
            producer.send("dumped", b"value").get(WAIT_S)
            (producer.commit_transaction if is_commit else producer.abort_transaction)(WAIT_S)
    assert count(cluster, "dumped", "read_committed") == 1
    data = cluster.log_dir(leader(cluster, "dumped")) / "dumped-0" / f"{0:020d}.log"
    dumped = run("DumpLogSegments", "--print-data-log", "--files", f"{data},{data.with_suffix('.txnindex')}")
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: \d+", dumped) == ["COMMIT", "ABORT"]
    assert re.search(r"version: 0 producerId: \d+ firstOffset: 2 lastOffset: 3 lastStableOffset: 4", dumped)
    index = partition_for("dumped", STATE_PARTITIONS)
    state_leader = leader(cluster, "__transaction_state", index)
    state = cluster.log_dir(state_leader) / f"__transaction_state-{index}" / f"{0:020d}.log"

    def states() -> list[str]:
        out = run("DumpLogSegments", "--transaction-log-decoder", "--files", state)
        return [line for line in out.splitlines() if "dumped" in line]

    lines = states()
    found = [int(match[1]) for line in lines if (match := re.search(r'"transactionStatus":(\d)', line))]
    assert found == [0, 1, 2, 4, 1, 3, 5], lines  # Empty, Ongoing, PrepareCommit, CompleteCommit, ...

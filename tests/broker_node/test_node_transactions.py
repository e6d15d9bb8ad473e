"""Transactions through real brokers: librdkafka and aiokafka as clients, zombies, time limits, lost coordinators."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster_helper import Cluster
from confluent_helper import QUIET, admin, create_topic, leader, metadata, wait_brokers
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from wire_helper import ask

from broker.coordinator.keys import partition_for
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch, iter_batches
from tests.patience import wait_until

pytestmark = pytest.mark.slow

STATE_PARTITIONS = 3
STATE_TOPIC = "__transaction_state"
SETTINGS = {
    "transaction.state.log.num.partitions": STATE_PARTITIONS,
    "offsets.topic.num.partitions": 3,
    "replica.lag.time.max.ms": 2_000,
    "controller.quorum.fetch.timeout.ms": 2_000,  # a busy machine must not change leaders under the test
    "controller.quorum.request.timeout.ms": 2_000,
}
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("transactions"), settings=SETTINGS) as cluster:
        wait_brokers(cluster)
        yield cluster


def producer(cluster: Cluster, transactional_id: str, **properties: object) -> Any:
    made = Producer(
        {"bootstrap.servers": cluster.bootstrap(), "transactional.id": transactional_id, "linger.ms": 0, **QUIET}
        | properties
    )
    made.init_transactions(WAIT_S)
    return made


def transact(client: Any, topic: str, values: list[str], *, commit: bool = True, partitions: int = 1) -> None:
    client.begin_transaction()
    for partition in range(partitions):
        for value in values:
            client.produce(topic, value.encode(), partition=partition)
    if commit:
        client.commit_transaction(WAIT_S)
    else:
        assert client.flush(WAIT_S) == 0  # so that the records are in the log, and only the marker hides them
        client.abort_transaction(WAIT_S)


def read(cluster: Cluster, topic: str, *, partition: int = 0, isolation: str = "read_committed") -> list[str]:
    """Everything up to the high watermark of the moment; fails when the last stable offset does not get there."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[str] = []
    deadline = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is None:
                values.append(message.value().decode())
            elif is_at_end(cluster, topic, partition, message.offset()):
                return values
    finally:
        consumer.close()
    raise AssertionError(f"the last stable offset of {topic}-{partition} does not move on; read {len(values)}")


def is_at_end(cluster: Cluster, topic: str, partition: int, offset: int) -> bool:
    """A leader that was just elected does not know the end yet: it then answers with an error."""
    try:
        ends = {list_offset(cluster, topic, partition, isolation=isolation) for isolation in (0, 1)}
    except OSError:
        return False
    return ends == {offset}


def list_offset(cluster: Cluster, topic: str, partition: int = 0, *, isolation: int = 1) -> int:
    """The last stable offset (isolation 1) or the high watermark (0). Raises OSError for an answer with an error."""
    port = cluster.ports[leader(cluster, topic, partition)]["DIRECT"]
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": topic, "partitions": [asked]}]
    answer = ask(port, ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=isolation, topics=topics)
    found = answer.topics[0].partitions[0]
    if found.error_code is not ErrorCode.none:
        raise OSError(f"{topic}-{partition}: {found.error_code.name}")
    offset: int = found.offset
    return offset


def wait_stable(cluster: Cluster, topic: str, partition: int = 0) -> None:
    """Until every transaction is decided: no leader election may fail this, hence OSError counts as not yet."""

    def is_stable() -> bool:
        try:
            return list_offset(cluster, topic, partition) == list_offset(cluster, topic, partition, isolation=0)
        except OSError:
            return False

    wait_until(is_stable, f"{topic}-{partition} without open transactions", WAIT_S)


def coordinator_of(cluster: Cluster, transactional_id: str) -> int:
    return leader(cluster, STATE_TOPIC, partition_for(transactional_id, STATE_PARTITIONS))


# -- what clients see


def test_committed_records_are_seen_and_aborted_ones_are_not(cluster: Cluster) -> None:
    create_topic(cluster, "visible", partitions=2)
    client = producer(cluster, "visible")
    for number in range(4):
        transact(client, "visible", [f"{number}-a", f"{number}-b"], commit=number % 2 == 0, partitions=2)
    for partition in range(2):
        wait_stable(cluster, "visible", partition)
        assert read(cluster, "visible", partition=partition) == ["0-a", "0-b", "2-a", "2-b"]
        everything = read(cluster, "visible", partition=partition, isolation="read_uncommitted")
        assert everything == [f"{number}-{letter}" for number in range(4) for letter in "ab"]


def test_ongoing_transaction_holds_read_committed_back_and_not_read_uncommitted(cluster: Cluster) -> None:
    create_topic(cluster, "ongoing")
    client = producer(cluster, "ongoing")
    transact(client, "ongoing", ["before"])
    wait_stable(cluster, "ongoing")
    client.begin_transaction()
    client.produce("ongoing", b"open", partition=0)
    assert client.flush(WAIT_S) == 0
    wait_until(lambda: list_offset(cluster, "ongoing", isolation=0) == 3, "the record below the high watermark")
    assert list_offset(cluster, "ongoing") == 2
    client.commit_transaction(WAIT_S)
    wait_stable(cluster, "ongoing")
    assert read(cluster, "ongoing") == ["before", "open"]


def test_successor_fences_the_zombie_and_aborts_its_transaction(cluster: Cluster) -> None:
    create_topic(cluster, "zombie")
    zombie = producer(cluster, "zombie")
    zombie.begin_transaction()
    zombie.produce("zombie", b"lost", partition=0)
    assert zombie.flush(WAIT_S) == 0
    successor = producer(cluster, "zombie")
    transact(successor, "zombie", ["kept"])
    with pytest.raises(KafkaException) as raised:
        zombie.commit_transaction(WAIT_S)
    assert raised.value.args[0].fatal()
    wait_stable(cluster, "zombie")
    assert read(cluster, "zombie") == ["kept"]


def test_transaction_is_aborted_after_its_timeout_and_the_stable_offset_moves_on(cluster: Cluster) -> None:
    create_topic(cluster, "timeout")
    client = producer(cluster, "timeout", **{"transaction.timeout.ms": 2_000})
    client.begin_transaction()
    client.produce("timeout", b"late", partition=0)
    assert client.flush(WAIT_S) == 0
    wait_stable(cluster, "timeout")
    with pytest.raises(KafkaException):
        client.commit_transaction(WAIT_S)
    assert read(cluster, "timeout") == []
    decided = [event for event in cluster.events("transaction_decided") if event["transactional_id"] == "timeout"]
    assert [(event["is_commit"], event["cause"]) for event in decided] == [(False, "timeout")]


def test_offsets_of_a_group_count_when_the_transaction_commits_and_not_when_it_aborts(cluster: Cluster) -> None:
    """Read, write, commit both in one transaction (KIP-98); every third is aborted and done again from what counted."""
    create_topic(cluster, "copied-from")
    create_topic(cluster, "copied-to")
    plain = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET})
    for number in range(30):
        plain.produce("copied-from", str(number).encode(), partition=0)
    assert plain.flush(WAIT_S) == 0
    client = producer(cluster, "copier")
    source = TopicPartition("copied-from", 0)
    attempts = 0
    properties = {"group.id": "copiers", "enable.auto.commit": False, "fetch.wait.max.ms": 50, **QUIET}
    consumer: Any = Consumer({"bootstrap.servers": cluster.bootstrap(), **properties})
    try:
        while attempts < 20:
            (committed,) = wait_until(lambda: consumer_committed(consumer, source), "the committed offset", WAIT_S)
            begin = max(0, committed.offset)
            if begin == 30:
                break
            attempts += 1
            consumer.assign([TopicPartition("copied-from", 0, begin)])
            messages = consumer.consume(5, WAIT_S)
            client.begin_transaction()
            for message in messages:
                client.produce("copied-to", message.value(), partition=0)
            after = TopicPartition("copied-from", 0, messages[-1].offset() + 1)
            client.send_offsets_to_transaction([after], consumer.consumer_group_metadata(), WAIT_S)
            if attempts % 3 == 0:
                assert client.flush(WAIT_S) == 0
                client.abort_transaction(WAIT_S)
            else:
                client.commit_transaction(WAIT_S)
    finally:
        consumer.close()
    assert attempts > 6
    wait_stable(cluster, "copied-to")
    assert read(cluster, "copied-to") == [str(number) for number in range(30)]


def consumer_committed(consumer: Any, partition: TopicPartition) -> Any:
    """None while an offset is pending (UNSTABLE_OFFSET_COMMIT): markers are still being written."""
    try:
        return consumer.committed([partition], timeout=5)
    except KafkaException:
        return None


# -- the protocol where no library goes (transaction.version 2, KIP-890 part 2)


_LATER = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.concurrent_transactions,
    }
)


class Answer(NamedTuple):
    """True whatever the error is: 0 is none."""

    error: ErrorCode


class Producer2:
    """A producer of transaction.version 2, request by request: Produce 12 adds its partition, EndTxn 5 bumps."""

    def __init__(self, cluster: Cluster, transactional_id: str, topic: str) -> None:
        self.cluster, self.transactional_id, self.topic, self.sequence = cluster, transactional_id, topic, 0
        admin(cluster).list_topics(timeout=60)
        self.producer_id, self.epoch = wait_until(self._init, "a producer id", WAIT_S)

    def _init(self) -> tuple[int, int] | None:
        name = self.transactional_id
        found = ask(self._any(), ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name]).coordinators[0]
        if found.error_code is not ErrorCode.none:
            return None
        answer = ask(found.port, ApiKey.INIT_PRODUCER_ID, 5, transactional_id=name, transaction_timeout=60_000,
                     producer_id=-1, producer_epoch=-1)  # fmt: skip
        return (answer.producer_id, answer.producer_epoch) if answer.error_code is ErrorCode.none else None

    def _any(self) -> int:
        return self.cluster.ports[next(iter(self.cluster.processes))]["DIRECT"]

    def coordinator_port(self) -> int:
        return self.cluster.ports[coordinator_of(self.cluster, self.transactional_id)]["DIRECT"]

    def produce(self, value: bytes, *, version: int = 12, sequence: int | None = None) -> ErrorCode:
        return self._repeat(lambda: self._produce(value, version=version, sequence=sequence))

    def end(self, *, commit: bool) -> ErrorCode:
        return self._repeat(lambda: self._end(commit=commit))

    def _repeat(self, ask: Callable[[], ErrorCode]) -> ErrorCode:
        """As any client does: while leaders change, a replica lags, or the last transaction's markers are written."""

        def answer() -> Answer | None:
            error = ask()
            return None if error in _LATER else Answer(error)

        found: Answer = wait_until(answer, "an answer", WAIT_S)
        return found.error

    def _produce(self, value: bytes, *, version: int, sequence: int | None) -> ErrorCode:
        batch = encode_batch(
            [value],
            timestamps_ms=1,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence if sequence is None else sequence,
            transactional=True,
        )
        port = self.cluster.ports[leader(self.cluster, self.topic)]["DIRECT"]
        topics = [{"name": self.topic, "partition_data": [{"index": 0, "records": batch}]}]
        answer = ask(port, ApiKey.PRODUCE, version, transactional_id=self.transactional_id, acks=-1,
                     timeout=5_000, topic_data=topics)  # fmt: skip
        error: ErrorCode = answer.responses[0].partition_responses[0].error_code
        if error is ErrorCode.none:
            self.sequence += 1
        return error

    def _end(self, *, commit: bool) -> ErrorCode:
        answer = ask(self.coordinator_port(), ApiKey.END_TXN, 5, transactional_id=self.transactional_id,
                     producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit)  # fmt: skip
        error: ErrorCode = answer.error_code
        if error is ErrorCode.none:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return error


def test_version_2_adds_partitions_by_produce_and_bumps_the_epoch_with_every_end(cluster: Cluster) -> None:
    create_topic(cluster, "v2")
    client = Producer2(cluster, "v2", "v2")
    epochs = []
    for number in range(4):
        assert client.produce(b"%d-a" % number) is ErrorCode.none
        assert client.produce(b"%d-b" % number) is ErrorCode.none
        assert client.end(commit=number % 2 == 0) is ErrorCode.none
        epochs.append(client.epoch)
    assert epochs == [1, 2, 3, 4]
    wait_stable(cluster, "v2")
    assert read(cluster, "v2") == ["0-a", "0-b", "2-a", "2-b"]


def test_late_batch_of_an_ended_transaction_is_refused(cluster: Cluster) -> None:
    """A hanging transaction: with version 1 the partition was not added, with version 2 the epoch has moved on."""
    create_topic(cluster, "late")
    client = Producer2(cluster, "late", "late")
    assert client.produce(b"never added", version=11) is ErrorCode.transaction_abortable
    assert client.produce(b"never added", version=9) is ErrorCode.invalid_txn_state
    assert client.produce(b"in time") is ErrorCode.none
    old = client.epoch
    assert client.end(commit=True) is ErrorCode.none
    wait_stable(cluster, "late")
    client.epoch, new = old, client.epoch
    assert client.produce(b"late", sequence=1) is ErrorCode.invalid_producer_epoch
    client.epoch = new
    assert client.produce(b"gap", sequence=5) is ErrorCode.out_of_order_sequence_number
    wait_stable_or_abort(cluster, client)
    assert read(cluster, "late") == ["in time"]


def wait_stable_or_abort(cluster: Cluster, client: Producer2) -> None:
    assert client.end(commit=False) is ErrorCode.none
    wait_stable(cluster, client.topic)


def test_describe_and_list_tell_of_an_open_transaction(cluster: Cluster) -> None:
    create_topic(cluster, "described")
    client = Producer2(cluster, "described", "described")
    client.produce(b"open")
    port = client.coordinator_port()
    (state,) = ask(port, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["described"]).transaction_states
    assert (state.error_code, state.transaction_state) == (ErrorCode.none, "Ongoing")
    assert (state.producer_id, state.producer_epoch) == (client.producer_id, client.epoch)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("described", (0,))]
    other = same_shard_as("described")
    (unknown,) = ask(port, ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[other]).transaction_states
    assert unknown.error_code is ErrorCode.transactional_id_not_found
    listed = ask(port, ApiKey.LIST_TRANSACTIONS, 1, state_filters=["Ongoing", "Nonsense"], producer_id_filters=[],
                 duration_filter=-1)  # fmt: skip
    assert listed.unknown_state_filters == ("Nonsense",)
    assert "described" in [each.transactional_id for each in listed.transaction_states]
    topics = [{"name": "described", "partition_indexes": [0]}]

    def producers(broker: int) -> Any:
        """Of any replica: kafka-transactions find-hanging asks one broker for all it holds. None: it lags."""
        (topic,) = ask(cluster.ports[broker]["DIRECT"], ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics
        assert topic.partitions[0].error_code is ErrorCode.none
        return topic.partitions[0].active_producers

    for broker in cluster.ids:
        (active,) = wait_until(lambda broker=broker: producers(broker), f"broker {broker} has the record")
        assert (active.producer_id, active.last_sequence, active.current_txn_start_offset) == (client.producer_id, 0, 0)
    assert client.end(commit=False) is ErrorCode.none


def same_shard_as(transactional_id: str) -> str:
    wanted = partition_for(transactional_id, STATE_PARTITIONS)
    return next(f"x{number}" for number in range(100) if partition_for(f"x{number}", STATE_PARTITIONS) == wanted)


def test_every_replica_holds_the_same_markers(cluster: Cluster) -> None:
    """What leaders appended is on followers byte for byte, aborted-transaction index included."""
    create_topic(cluster, "same")
    client = producer(cluster, "same")
    for number in range(3):
        transact(client, "same", [str(number)], commit=False)
    wait_stable(cluster, "same")

    files = [cluster.log_dir(broker) / "same-0" / f"{0:020d}" for broker in cluster.ids]

    def contents() -> set[tuple[bytes, bytes]]:
        return {(read_file(file.with_suffix(".log")), read_file(file.with_suffix(".txnindex"))) for file in files}

    wait_until(lambda: len(contents()) == 1, "equal replicas", WAIT_S)
    ((log, index),) = contents()
    assert len(index) == 3 * 34
    assert [batch.header.is_control for batch in iter_batches(log)] == [False, True] * 3


def read_file(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


# -- faults


@pytest.mark.long
def test_killed_coordinator_leaves_each_transaction_whole_or_absent(cluster: Cluster) -> None:
    """Two partitions, a commit on its way while the coordinator is killed; it comes back, and twice over."""
    create_topic(cluster, "killed", partitions=2)
    client = producer(cluster, "killed")
    acked: list[int] = []
    for number in range(9):
        values = [f"{number}-{index}" for index in range(3)]
        victim = coordinator_of(cluster, "killed") if number in (3, 6) else None
        killer = threading.Timer(0.0 if number == 3 else 0.01, cluster.kill, [victim]) if victim else None
        if killer is not None:
            killer.start()
        try:
            transact(client, "killed", values, commit=number % 4 != 1, partitions=2)
            if number % 4 != 1:
                acked.append(number)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            client.abort_transaction(WAIT_S)
        if killer is not None and victim is not None:
            killer.join()
            cluster.start(victim)
            wait_until(lambda: (found := metadata(admin(cluster))) and len(found.brokers) == 3, "3 brokers", WAIT_S)
    seen = []
    for partition in range(2):
        wait_stable(cluster, "killed", partition)
        seen.append(read(cluster, "killed", partition=partition))
    assert seen[0] == seen[1]
    whole = [int(value.split("-")[0]) for value in seen[0][::3]]
    assert seen[0] == [f"{number}-{index}" for number in whole for index in range(3)]
    assert set(acked) <= set(whole)
    assert not {1, 5} & set(whole)
    assert len(acked) >= 5


def test_new_coordinator_writes_the_markers_that_the_killed_one_had_promised(cluster: Cluster) -> None:
    """The leader of the data stands still, so that the commit is decided and unmarked; then its coordinator dies."""
    client = producer(cluster, "promised")
    coordinator = coordinator_of(cluster, "promised")
    for number in range(6):  # topics have their leaders in turn
        topic = f"promised-{number}"
        create_topic(cluster, topic)
        data_leader = leader(cluster, topic)
        if data_leader != coordinator:
            break
    assert data_leader != coordinator
    client.begin_transaction()
    client.produce(topic, b"value", partition=0)
    assert client.flush(WAIT_S) == 0
    os.kill(cluster.processes[data_leader].pid, signal.SIGSTOP)
    try:
        client.commit_transaction(WAIT_S)
        cluster.kill(coordinator)
    finally:
        os.kill(cluster.processes[data_leader].pid, signal.SIGCONT)
    # On a busy host the old coordinator's request may be in the leader's socket already. Then its marker comes first.
    wait_until(
        lambda: any(each["coordinator_epoch"] > 0 for each in markers_of(cluster, topic)), "a new marker", WAIT_S
    )
    cluster.start(coordinator)
    assert all(each["is_commit"] for each in markers_of(cluster, topic))
    wait_stable(cluster, topic)
    assert read(cluster, topic) == ["value"]


def markers_of(cluster: Cluster, topic: str) -> list[dict[str, Any]]:
    return [event for event in cluster.events("transaction_marker") if event["topic"] == topic]

"""Transactions of the reference client: its states, the sender within a transaction, read_committed, and all of it
against real brokers, with both transaction versions and a killed coordinator."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from broker.client.core.accumulator import Accumulator
from broker.client.core.batch import Batch
from broker.client.core.config import parse_consumer, parse_producer
from broker.client.core.errors import ConfigurationError
from broker.client.core.fetch_state import FetchResult
from broker.client.core.fetcher import FetcherCore
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState
from broker.client.core.sender import SenderCore
from broker.client.core.sender_events import NodeConnected, PartitionResult, ProduceAnswered, SendProduce, Tick
from broker.client.core.transactions import Reaction, TransactionCore, TransactionState, reaction_to
from broker.client.transactions import TransactionClient
from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, Producer, TimedOutError, TopicPartition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch
from tests.broker_node.cluster_helper import Cluster, make_topics
from tests.patience import wait_until

TP = TopicPartition("t", 0)
S = TransactionState


# -- states


def ready() -> TransactionCore:
    core = TransactionCore()
    core.initialised(7, 0, 2)
    return core


def test_calls_must_come_in_order() -> None:
    core = TransactionCore()
    with pytest.raises(KafkaError, match=r"begin_transaction\(\): the producer is uninitialised"):
        core.begin()
    core = ready()
    with pytest.raises(KafkaError, match="LOCAL_STATE"):
        core.move(S.COMMITTING, call="commit_transaction()")
    core.begin()
    with pytest.raises(KafkaError, match="the producer is in a transaction"):
        core.begin()


def test_send_is_refused_outside_of_a_transaction_and_after_a_failure() -> None:
    core = ready()
    refusal = core.refusal_of_send()
    assert refusal is not None
    assert "begin_transaction" in str(refusal)
    core.begin()
    assert core.refusal_of_send() is None
    core.fail(KafkaError(ErrorCode.message_too_large, "m"))
    assert core.state is S.ABORTABLE
    assert core.refusal_of_send() is core.error


def test_after_a_failure_only_an_abort_goes_on_and_after_a_fence_nothing() -> None:
    core = ready()
    core.begin()
    core.fail(KafkaError(ErrorCode.transaction_abortable, "m"))
    with pytest.raises(KafkaError, match="must be aborted"):
        core.move(S.COMMITTING, call="commit_transaction()")
    core.move(S.ABORTING, call="abort_transaction()")
    core.ended(7, 1)
    assert (core.state, core.error, core.producer_epoch) == (S.READY, None, 1)
    core.fail(KafkaError(ErrorCode.producer_fenced, "m"))
    with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
        core.begin()


def test_timed_out_commit_may_be_asked_again_and_not_turned_into_an_abort() -> None:
    core = ready()
    core.begin()
    core.move(S.COMMITTING, call="commit_transaction()")
    core.move(S.COMMITTING, call="commit_transaction()")
    with pytest.raises(KafkaError, match="committing"):
        core.move(S.ABORTING, call="abort_transaction()")


@pytest.mark.parametrize("fails", [ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID])
def test_an_abort_that_timed_out_at_either_of_its_requests_is_asked_again_from_there(
    monkeypatch: pytest.MonkeyPatch, fails: ApiKey
) -> None:
    """With transaction.version 1 an abort after a failure asks for a new epoch too. Of the two requests the first may
    have succeeded: the coordinator knows the next epoch then, and would take the old one for a fenced producer."""
    client = TransactionClient(
        parse_producer({"bootstrap.servers": "nobody:1", "transactional.id": "t"}), random.Random(1)
    )
    core = client.core
    core.initialised(7, 0, 1)
    core.begin()
    core.partitions.add(TP)
    core.move(S.ABORTING, call="abort_transaction()")
    asked: list[ApiKey] = []

    def ask(key_type: int, key: str, api_key: ApiKey, build: object, deadline_ms: int, **_: object) -> object:
        asked.append(api_key)
        if asked.count(api_key) == 1 and api_key is fails:
            raise TimedOutError("no answer", definite=False)
        return SimpleNamespace(producer_id=7, producer_epoch=1)

    monkeypatch.setattr(client, "_ask", ask)
    monkeypatch.setattr(client, "_version", lambda: 1)
    with pytest.raises(TimedOutError):
        client.end(is_commit=False, deadline_ms=0, had_failures=True)
    assert core.state is S.ABORTING
    core.move(S.ABORTING, call="abort_transaction()")
    client.end(is_commit=False, deadline_ms=0, had_failures=False)  # what had failed is abandoned by then
    assert asked == (
        [ApiKey.END_TXN, ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID]
        if fails is ApiKey.END_TXN
        else [ApiKey.END_TXN, ApiKey.INIT_PRODUCER_ID, ApiKey.INIT_PRODUCER_ID]
    )
    assert (core.state, core.producer_epoch, core.has_anything, core.error) == (S.READY, 1, False, None)
    client.close()


def test_old_epoch_of_a_record_is_abortable_and_of_the_coordinator_fatal() -> None:
    for is_record, state in ((True, S.ABORTABLE), (False, S.FATAL)):
        core = ready()
        core.begin()
        error = KafkaError(ErrorCode.invalid_producer_epoch, "m")
        (core.fail_by_record if is_record else core.fail)(error)
        assert core.state is state


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.not_coordinator, Reaction.FIND_AGAIN),
        (ErrorCode.concurrent_transactions, Reaction.ASK_AGAIN),
        (ErrorCode.coordinator_load_in_progress, Reaction.ASK_AGAIN),
        (ErrorCode.invalid_txn_state, Reaction.ABORT),
        (ErrorCode.producer_fenced, Reaction.FAIL),
    ],
)
def test_reactions_to_the_coordinators_errors(code: ErrorCode, reaction: Reaction) -> None:
    assert reaction_to(code) is reaction


# -- the sender within a transaction


class Rig:
    """A sender core in a transaction of producer 9, epoch 3; partition 0 is led by broker 1."""

    def __init__(self) -> None:
        config = parse_producer({"bootstrap.servers": "h:1", "batch.size": 1, "linger.ms": 0, "transactional.id": "x"})
        self.accumulator = Accumulator(batch_size_bytes=1, linger_ms=0, buffer_memory_bytes=10**6)
        metadata = MetadataCache(max_age_ms=10**9, backoff_first_ms=1, backoff_max_ms=1, rng=random.Random(1))
        topic = TopicState(name="t", partitions=(PartitionState(partition=0, leader=1, leader_epoch=0),))
        metadata.on_answer(MetadataAnswer(brokers=(BrokerAddress(broker_id=1, host="h", port=1),), topics=(topic,)), 0)
        self.core = SenderCore(config, self.accumulator, metadata, random.Random(1))
        self.core.handle(NodeConnected(node=1), 0)

    def add(self) -> Batch:
        queue = self.accumulator.queue_of(TP)
        appended = self.accumulator.try_append(queue, b"v", None, (), 0, None, 13, 0)
        assert appended is not None
        return appended[0]

    def send(self) -> list[SendProduce]:
        return [action for action in self.core.handle(Tick(), 0) if isinstance(action, SendProduce)]

    def answer(self, request: SendProduce, code: int) -> None:
        results = {TP: PartitionResult(error_code=code, base_offset=0)}
        self.core.handle(ProduceAnswered(request_id=request.request_id, results=results), 0)
        self.core.check_invariants()


def test_nothing_is_sent_before_the_coordinator_gave_an_id_and_then_with_its_epoch() -> None:
    rig = Rig()
    batch = rig.add()
    assert rig.send() == []
    rig = Rig()
    rig.core.begin_transaction(9, 3)
    batch = rig.add()
    assert len(rig.send()) == 1
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 3, 0)
    assert batch.is_transactional


def test_next_epoch_begins_at_sequence_0_and_the_same_epoch_goes_on() -> None:
    rig = Rig()
    rig.core.begin_transaction(9, 3)
    rig.add()
    rig.answer(rig.send()[0], 0)
    rig.core.begin_transaction(9, 3)
    batch = rig.add()
    rig.answer(rig.send()[0], 0)
    assert batch.base_sequence == 1
    rig.core.begin_transaction(9, 4)
    batch = rig.add()
    rig.send()
    assert (batch.producer_epoch, batch.base_sequence) == (4, 0)


def test_batch_that_comes_before_the_last_markers_is_sent_again() -> None:
    rig = Rig()
    rig.core.begin_transaction(9, 3)
    batch = rig.add()
    rig.answer(rig.send()[0], ErrorCode.concurrent_transactions)
    assert (rig.core.transaction_error, batch.outcome, batch.attempts) == (None, None, 1)


@pytest.mark.parametrize("code", [ErrorCode.invalid_producer_epoch, ErrorCode.out_of_order_sequence_number])
def test_first_failure_fails_what_waits_and_never_bumps_the_epoch(code: ErrorCode) -> None:
    rig = Rig()
    rig.core.begin_transaction(9, 3)
    batches = [rig.add() for _ in range(8)]
    requests = rig.send()
    rig.answer(requests[0], code)
    assert rig.core.transaction_error is not None
    assert rig.core.transaction_error.code == code
    waiting = [batch for batch in batches if all(batch not in request.batches for request in requests)]
    assert len(waiting) == 3
    assert all(batch.outcome is not None and batch.outcome.error is not None for batch in waiting)
    assert rig.core.sequences is not None
    assert rig.core.sequences.producer_epoch == 3
    rig.core.handle(Tick(), 0)
    assert rig.send() == []


# -- read_committed


def transactional(producer_id: int, base_offset: int, *, control: int | None = None) -> bytes:
    """A data batch of one record, or the marker 0 (abort) or 1 (commit)."""
    key = b"" if control is None else bytes([0, 0, 0, control])
    return encode_batch(
        [b"%d" % base_offset],
        keys=[key],
        timestamps_ms=1,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=control is not None,
    )


def read(records: bytes, aborted: tuple[tuple[int, int], ...], *, offset: int = 0) -> tuple[list[int], int | None]:
    metadata = MetadataCache(max_age_ms=10**9, backoff_first_ms=1, backoff_max_ms=1, rng=random.Random(1))
    topic = TopicState(name="t", partitions=(PartitionState(partition=0, leader=1, leader_epoch=0),))
    metadata.on_answer(MetadataAnswer(brokers=(BrokerAddress(broker_id=1, host="h", port=1),), topics=(topic,)), 0)
    config = parse_consumer({"bootstrap.servers": "h:1", "isolation.level": "read_committed"})
    core = FetcherCore(config, metadata, random.Random(1))
    core.assign([TP])
    core.seek(TP, offset)
    core.on_sent(1, core.plan(0)[1])
    core.on_answer(1, {TP: FetchResult(records=records, aborted=aborted)}, 0)
    taken = [record.offset for record in core.take(100)]
    return taken, core.position(TP)


def test_interleaved_transactions_are_told_apart() -> None:
    records = b"".join(
        (
            transactional(1, 0),
            transactional(2, 1),
            transactional(1, 2),
            transactional(1, 3, control=0),  # 1 aborts
            transactional(1, 4),  # and begins anew
            transactional(2, 5, control=1),  # 2 commits
            transactional(1, 6, control=1),
        )
    )
    assert read(records, ((1, 0),)) == ([1, 4], 7)
    assert read(records, ()) == ([0, 1, 2, 4], 7)


def test_fetch_from_within_an_aborted_transaction_drops_its_rest() -> None:
    records = b"".join((transactional(1, 5), transactional(3, 6), transactional(1, 7, control=0)))
    assert read(records, ((1, 2),), offset=5) == ([6], 8)


def test_position_moves_over_an_aborted_answer() -> None:
    assert read(transactional(1, 0) + transactional(1, 1, control=0), ((1, 0),)) == ([], 2)


def test_isolation_level_is_one_of_kafkas() -> None:
    with pytest.raises(ConfigurationError, match=r"isolation\.level"):
        parse_consumer({"bootstrap.servers": "h:1", "isolation.level": "committed"})


# -- real brokers

STATE_PARTITIONS = 3
WAIT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "offsets.topic.num.partitions": 3,
        "replica.lag.time.max.ms": 2_000,
        "controller.quorum.fetch.timeout.ms": 2_000,  # a busy machine must not change leaders under the test
        "controller.quorum.request.timeout.ms": 2_000,
    }
    with Cluster(tmp_path_factory.mktemp("client-transactions"), settings=settings) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap()}) as opened:
        wait_until(lambda: len(opened.describe_cluster().brokers) == len(cluster.ids), "all brokers", WAIT_S)
        yield opened


def producer(cluster: Cluster, transactional_id: str, **properties: object) -> Producer:
    settings = {"bootstrap.servers": cluster.bootstrap(), "transactional.id": transactional_id, "linger.ms": 0}
    made = Producer({**settings, **properties})
    made.init_transactions(WAIT_S)
    return made


def values(cluster: Cluster, topic: str, partition: int = 0, *, isolation: str = "read_committed") -> list[str]:
    """Everything up to the high watermark; fails when the last stable offset does not get there."""
    chosen = TopicPartition(topic, partition)
    properties = {"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}
    found: list[str] = []
    with Consumer({**properties, "isolation.level": isolation}) as consumer, Consumer(properties) as plain:

        def is_stable() -> bool:
            return consumer.end_offsets([chosen]) == plain.end_offsets([chosen])

        wait_until(is_stable, f"{topic}-{partition} without open transactions", WAIT_S)
        end = consumer.end_offsets([chosen])[chosen]
        consumer.assign([chosen])
        deadline = time.monotonic() + WAIT_S
        while consumer.position(chosen) < end:
            assert time.monotonic() < deadline, f"read {len(found)}, at {consumer.position(chosen)} of {end}"
            found += [(record.value or b"").decode() for record in consumer.poll(100)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 1])
def test_commits_are_seen_and_aborts_are_not(
    cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    topic = f"plain-{version}"
    if version == 1:  # as against a cluster that has not finalized transaction.version 2
        monkeypatch.setattr("broker.client.network.Network.feature", lambda *_: 1)
    make_topics(admin, NewTopic(topic, 2, 3))
    with producer(cluster, topic) as client:
        epochs = []
        for number in range(4):
            client.begin_transaction()
            sent = [
                client.send(topic, f"{number}-{letter}".encode(), partition=partition)
                for partition in range(2)
                for letter in "ab"
            ]
            for each in sent:
                each.get(WAIT_S)
            (client.commit_transaction if number % 2 == 0 else client.abort_transaction)(WAIT_S)
            assert client._transactions is not None
            epochs.append(client._transactions.core.producer_epoch)
        client.begin_transaction()  # with nothing in it
        client.commit_transaction(WAIT_S)
        metrics = client.metrics()
        assert all(metrics[f"txn-{call}-time-ns-total"] > 0 for call in ("init", "begin", "commit", "abort"))
        assert metrics["txn-send-offsets-time-ns-total"] == 0
    assert epochs == ([1, 2, 3, 4] if version == 2 else [0, 0, 0, 0])
    for partition in range(2):
        assert values(cluster, topic, partition) == ["0-a", "0-b", "2-a", "2-b"]
        assert len(values(cluster, topic, partition, isolation="read_uncommitted")) == 8


@pytest.mark.slow
def test_successor_fences_the_zombie(cluster: Cluster, admin: Admin) -> None:
    make_topics(admin, NewTopic("zombie", 1, 3))
    with producer(cluster, "zombie") as zombie:
        zombie.begin_transaction()
        zombie.send("zombie", b"lost").get(WAIT_S)
        with producer(cluster, "zombie") as successor:
            successor.begin_transaction()
            successor.send("zombie", b"kept")
            successor.commit_transaction(WAIT_S)
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            zombie.commit_transaction(WAIT_S)
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            zombie.begin_transaction()
    assert values(cluster, "zombie") == ["kept"]


@pytest.mark.slow
@pytest.mark.parametrize("version", [2, 1])
def test_offsets_count_with_the_transaction(
    cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    if version == 1:
        monkeypatch.setattr("broker.client.network.Network.feature", lambda *_: 1)
    topic, group = f"offsets-{version}", f"group-{version}"
    make_topics(admin, NewTopic(topic, 1, 3))
    partition = TopicPartition(topic, 0)
    with producer(cluster, topic) as client:
        for offset, commit in ((5, True), (9, False)):
            client.begin_transaction()
            client.send_offsets_to_transaction({partition: offset}, group)
            (client.commit_transaction if commit else client.abort_transaction)(WAIT_S)
            wait_until(lambda: committed(cluster, group, partition) == 5, "offset 5, committed", WAIT_S)


def committed(cluster: Cluster, group: str, partition: TopicPartition) -> int | None:
    """As librdkafka is told it; None while a transaction is not decided."""
    consumer = ConfluentConsumer({"bootstrap.servers": cluster.bootstrap(), "group.id": group, "log_level": 0})
    try:
        (found,) = consumer.committed([ConfluentPartition(*partition)], timeout=60)
        return int(found.offset)
    except KafkaException:
        return None
    finally:
        consumer.close()

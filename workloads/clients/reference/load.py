"""The project's own client (`broker.client`). Outcomes come batch by batch from its sender thread.

A full buffer must not block the sending thread for `max.block.ms`, because the thread could then not tell the client's
delay from its own. So the client gets 1 ms, and the producer loop tries a refused send again until the run ends.
`max.block.ms` is refused as a property.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from broker.door.clients import (
    BufferExhaustedError,
    ConfigurationError,
    Consumer,
    DeliveredBatch,
    FailedFuture,
    KafkaError,
    Producer,
    TopicPartition,
)
from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients.protocol import (
    ClientError,
    ClientSetup,
    OutcomeSink,
    Polled,
    PropertyError,
    TransactionAborted,
    TransactionUnknown,
)
from workloads.clients.values import as_property_error, check_values

NAME = "reference"
_MAX_BLOCK_MS = 1
# Of a transactional producer: before transaction.version 2, the first record for a partition waits for an answer of the
# coordinator, and no send is given up for that.
_MAX_BLOCK_IN_TRANSACTION_MS = 10_000
_NOWHERE = "127.0.0.1:1"  # nothing is connected before the first use
_RETRY_S = 0.01
_Client = TypeVar("_Client")


def check_properties(properties: Mapping[str, str]) -> None:
    _refuse_own(properties)
    check_values(NAME, "producer", properties)
    checked(Producer, {**properties, "bootstrap.servers": _NOWHERE}).close(0)


def check_consumer_properties(properties: Mapping[str, str], *, is_member: bool) -> None:
    check_values(NAME, "consumer", properties)
    group = {"group.id": "of-the-reader"} if is_member else {"enable.auto.commit": "false"}
    checked(Consumer, {**group, **properties, "bootstrap.servers": _NOWHERE}).close()


class ReferenceProducer:
    def __init__(self, setup: ClientSetup, sink: OutcomeSink) -> None:
        _refuse_own(setup.properties)
        self._topics = setup.topics
        self._sink = sink
        settings = {
            **setup.properties, "bootstrap.servers": setup.bootstrap_servers, "max.block.ms": str(_MAX_BLOCK_MS),
        }  # fmt: skip
        if setup.transactional_id is not None:
            settings |= {
                "transactional.id": setup.transactional_id, "max.block.ms": str(_MAX_BLOCK_IN_TRANSACTION_MS),
            }  # fmt: skip
        self._producer = checked(lambda given: Producer(given, batch_listener=self._delivered), settings)
        self._effective: dict[str, str] = dict(self._producer.effective_properties())
        self._acks_zero = self._effective.get("acks", "all") == "0"
        self._send: Any = self._producer.send  # Any: with a batch listener, on_delivery is a token, here the seq

    def connect(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        for topic in self._topics:
            while True:
                try:
                    if self._producer.partitions_for(topic):
                        break
                    problem = "the topic has no partitions"
                except KafkaError as error:
                    problem = str(error)
                if time.monotonic() > deadline_s:
                    raise ClientError(f"client {NAME}: no metadata of topic {topic} within {timeout_s:g} s: {problem}")
                time.sleep(_RETRY_S)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        future = self._send(topic, value, key, None, (), None, seq)
        return type(future) is not FailedFuture or self._refused(future, seq)

    def _refused(self, future: FailedFuture, seq: int) -> bool:
        error = future.exception()
        assert error is not None
        if isinstance(error, BufferExhaustedError):
            return False
        status = SendStatus.FAILED if error.definite else SendStatus.UNKNOWN
        self._sink.one(seq, status, error.code, ABSENT, ABSENT)
        return True

    def _delivered(self, batch: DeliveredBatch) -> None:
        error = batch.error
        partition = batch.partition.partition
        if error is None and not self._acks_zero:
            status = SendStatus.ACKED
            self._sink.many(batch.tokens, status, 0, partition, batch.base_offset, batch.log_append_time_ms)
        elif error is None:
            self._sink.many(batch.tokens, SendStatus.UNKNOWN, 0, partition, ABSENT)
        else:
            status = SendStatus.FAILED if error.definite else SendStatus.UNKNOWN
            self._sink.many(batch.tokens, status, error.code, ABSENT, ABSENT)

    def poll(self, timeout_s: float) -> None:
        """Outcomes come by themselves, so this only waits."""
        if timeout_s > 0:
            time.sleep(timeout_s)

    def close(self, timeout_s: float) -> None:
        self._producer.close(timeout_s)

    def metrics(self) -> dict[str, float]:
        return self._producer.metrics()

    def effective(self) -> dict[str, str]:
        return {**self._effective, "client.library": "reference"}


class ReferenceTransactionalProducer(ReferenceProducer):
    def connect(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        super().connect(timeout_s)
        try:
            self._producer.init_transactions(max(1.0, deadline_s - time.monotonic()))
        except KafkaError as error:
            raise ClientError(f"client {NAME}: init_transactions: {error}") from error

    def begin(self) -> None:
        try:
            self._producer.begin_transaction()
        except KafkaError as error:
            raise TransactionUnknown(str(error), error.code) from error

    def commit(self, timeout_s: float) -> None:
        try:
            self._producer.commit_transaction(timeout_s)
        except KafkaError as error:
            # The producer itself refuses an abort if it was fenced, or if nobody knows whether it has committed.
            try:
                self._producer.abort_transaction(timeout_s)
            except KafkaError:
                raise TransactionUnknown(str(error), error.code) from error
            raise TransactionAborted(str(error), error.code) from error

    def abort(self, timeout_s: float) -> None:
        try:
            self._producer.flush(timeout_s)
            self._producer.abort_transaction(timeout_s)
        except KafkaError as error:
            raise TransactionUnknown(str(error), error.code) from error


class ReferenceConsumer:
    def __init__(self, setup: ClientSetup) -> None:
        self._topics = setup.topics
        self._is_member = setup.group_id is not None
        self._start = setup.start
        settings = {"enable.auto.commit": "false", "auto.offset.reset": setup.start, **setup.properties}
        if setup.group_id is not None:
            settings = {"auto.offset.reset": setup.start, **setup.properties, "group.id": setup.group_id}
        self._consumer = checked(Consumer, {**settings, "bootstrap.servers": setup.bootstrap_servers})

    def connect(self, partitions: Sequence[tuple[str, int]], timeout_s: float) -> None:
        """The first polls fetch metadata. A broker that cannot be reached is noticed there."""
        if self._is_member:
            self._consumer.subscribe(self._topics)
            return
        self._consumer.assign([TopicPartition(*each) for each in partitions])
        if self._start == "earliest":
            self._consumer.seek_to_beginning()
        else:
            self._consumer.seek_to_end()

    def poll(self, timeout_s: float) -> Polled:
        try:
            return polled_from(self._consumer, timeout_s, is_member=self._is_member)
        except KafkaError:
            time.sleep(_RETRY_S)  # during a fault a poll may fail; the next one tries again until the run ends
            return Polled((), time.monotonic_ns())

    def close(self) -> None:
        self._consumer.close()


def polled_from(consumer: Consumer, timeout_s: float, *, is_member: bool = True) -> Polled:
    """One poll, with the group's generation in which its records were handed out. Raises KafkaError."""
    records = consumer.poll(int(timeout_s * 1_000))
    polled_ns = time.monotonic_ns()
    return Polled(
        [
            (record.topic, record.partition, record.offset, record.value or b"", record.timestamp_ms)
            for record in records
        ],
        polled_ns,
        consumer.group_metadata().generation_id if is_member and records else ABSENT,
    )


def _refuse_own(properties: Mapping[str, str]) -> None:
    if "max.block.ms" in properties:
        raise PropertyError(NAME, "max.block.ms", "the load generator itself waits for space in the buffer")


def checked(make: Callable[[Mapping[str, str]], _Client], settings: Mapping[str, str]) -> _Client:
    """PropertyError by name for what the client refuses."""
    try:
        return make(settings)
    except ConfigurationError as error:
        raise as_property_error(NAME, error) from error

"""How a producer queues a record that has to wait: for the topic's metadata, or for memory.

Owns: the waits of the sending thread, together at most max.block.ms, and the choice of a partition after them. A record
that need not wait goes through producer.py only. Shown by tests/broker_client/test_client_producer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, monotonic_ns
from typing import NamedTuple

from broker.client import native
from broker.client.clock import now_ms
from broker.client.core.batch import Batch, DeliveryCallback, Headers, TopicPartition
from broker.client.core.config import ProducerConfig
from broker.client.core.errors import (
    AuthenticationError,
    BufferExhaustedError,
    KafkaError,
    TimedOutError,
    record_too_large,
)
from broker.client.core.partitioners import Partitioner
from broker.client.future import deadline_after_ms
from broker.client.sender_thread import SenderThread
from broker.client.transactions import TransactionClient
from broker.wire.errors import ErrorCode

_HOPELESS_TOPIC_ERRORS = frozenset({int(ErrorCode.invalid_topic_exception), int(ErrorCode.topic_authorization_failed)})


class WaitingRecord(NamedTuple):
    topic: str
    value: bytes | None
    key: bytes | None
    partition: int | None  # None: the partitioner chooses when the metadata is there
    headers: Headers
    timestamp_ms: int


class PatientAppend:
    """`check_open` raises ClosedError if the producer is closed. It is called under the sender's lock."""

    def __init__(
        self,
        config: ProducerConfig,
        sender: SenderThread,
        partitioner: Partitioner,
        transactions: TransactionClient | None,
        *,
        record_bytes_max: int,
        check_open: Callable[[], None],
    ) -> None:
        self._config = config
        self._sender = sender
        self._lock = sender.lock
        self._accumulator = sender.accumulator
        self._metadata = sender.metadata
        self._partitioner = partitioner
        self._transactions = transactions
        self._record_bytes_max = record_bytes_max
        self._check_open = check_open

    def append(
        self, record: WaitingRecord, callback: DeliveryCallback | None, size_bytes: int, *, is_chosen: bool
    ) -> tuple[Batch, int]:
        """Returns the batch and the index of the record in it. `is_chosen` says that the partitioner chose the
        partition, not the caller.

        If it raises KafkaError, the record is not queued.
        """
        deadline_s = monotonic() + self._config.max_block_ms / 1000
        if size_bytes > self._record_bytes_max:
            raise record_too_large(
                f"a record of up to {size_bytes} bytes; max.request.size={self._config.max_request_size}, "
                f"buffer.memory={self._config.buffer_memory}"
            )
        self.wait_for_topic(record.topic, deadline_s, record.partition or 0)
        partition = self._partition_of(record)
        if self._transactions is not None:
            with self._transactions.lock:
                self._transactions.add(partition, deadline_after_ms(deadline_s - monotonic()))
        batch, index = self._append_waiting(record, partition, callback, size_bytes, deadline_s)
        if is_chosen:
            with self._lock:
                self._partitioner.on_appended(record.topic, partition.partition, size_bytes)
        return batch, index

    def _partition_of(self, record: WaitingRecord) -> TopicPartition:
        with self._lock:
            count = self._metadata.partition_count(record.topic)
            chosen = record.partition
            if chosen is None:
                available = self._metadata.available_partitions(record.topic)
                chosen = self._partitioner.choose(record.topic, record.key, record.value, count, available)
        if not 0 <= chosen < count:
            raise _no_such_partition(record.topic, count, chosen)
        return TopicPartition(record.topic, chosen)

    def wait_for_topic(self, topic: str, deadline_s: float, partition: int = 0) -> None:
        """It has this partition when it returns. One that was added may be known to some brokers only."""
        while True:
            with self._lock:
                self._check_open()
                count = self._metadata.partition_count(topic)
                if count > partition:
                    return
                state = self._metadata.topic(topic)
                if state is not None and state.error_code in _HOPELESS_TOPIC_ERRORS:
                    raise KafkaError(state.error_code, f"topic {topic!r}")
                self._metadata.use_topic(topic, now_ms())
                self._metadata.request_update()  # also if the authentication has failed: another attempt may succeed
                if self._sender.refusal is not None:
                    self._sender.wake_by(0)
                    raise AuthenticationError(self._sender.refusal.reason)
                waiter = native.Event()
                self._sender.metadata_waiters.append(waiter)
                self._sender.wake_by(0)
            if not waiter.wait(deadline_s - monotonic()):
                within = f"max.block.ms={self._config.max_block_ms}"
                if count:
                    raise _no_such_partition(topic, count, partition, f", also after {within}")
                raise TimedOutError(f"no metadata of topic {topic!r} within {within}")

    def _append_waiting(
        self,
        record: WaitingRecord,
        partition: TopicPartition,
        callback: DeliveryCallback | None,
        size_bytes: int,
        deadline_s: float,
    ) -> tuple[Batch, int]:
        while True:
            with self._lock:
                self._check_open()
                time_ms = now_ms()
                queue = self._accumulator.queue_of(partition)
                appended = self._accumulator.try_append(
                    queue,
                    record.value,
                    record.key,
                    record.headers,
                    record.timestamp_ms,
                    callback,
                    size_bytes,
                    time_ms,
                )
                if appended is not None:
                    self._metadata.use_topic(record.topic, time_ms)
                    self._sender.wake_by(time_ms if len(queue.batches) > 1 else time_ms + self._config.linger_ms)
                    return appended[0], appended[1]
                waiter = native.Event()
                self._sender.memory_waiters.append(waiter)
                self._sender.core.hurry_count += 1  # queued batches are sent now, because they hold the memory
                self._sender.wake_by(0)
            began_ns = monotonic_ns()
            is_free = waiter.wait(deadline_s - monotonic())
            with self._lock:
                self._sender.core.hurry_count -= 1
                self._sender.metrics.bufferpool_wait_ns += monotonic_ns() - began_ns
                if not is_free and not waiter.is_set():
                    self._sender.memory_waiters.remove(waiter)
                    self._sender.metrics.buffer_exhausted_total += 1
                    raise BufferExhaustedError(
                        f"buffer.memory={self._config.buffer_memory} stayed full for "
                        f"max.block.ms={self._config.max_block_ms}"
                    )


def _no_such_partition(topic: str, count: int, partition: int, when: str = "") -> KafkaError:
    text = f"{topic} has partitions 0 to {count - 1}, not {partition}{when}"
    return KafkaError(ErrorCode.unknown_topic_or_partition, text)

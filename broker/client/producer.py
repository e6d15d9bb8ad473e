"""The reference producer. It does in Python what Java's KafkaProducer does, so that the effect of its settings can be
measured.

Owns: the caller's side of a send. patient_append.py waits for metadata and memory. Once a record is in a batch,
core/sender.py decides and sender_thread.py acts. Any thread may send. Greenlets should not use it, because a wait
blocks the whole OS thread. Shown by tests/broker_client/test_client_producer.py and test_client_mock_cluster.py.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from time import monotonic, time
from typing import Any

from broker.client import native
from broker.client.client_settings import screen
from broker.client.clock import now_ms
from broker.client.core.batch import (
    BATCH_HEADER_BYTES,
    Batch,
    DeliveryCallback,
    Headers,
    TopicPartition,
    record_size_bytes_max,
)
from broker.client.core.config import ROUND_ROBIN, ProducerConfig, as_properties, parse_producer
from broker.client.core.errors import (
    ClosedError,
    KafkaError,
    TimedOutError,
)
from broker.client.core.partitioners import (
    Partitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
)
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata, TransactionState, wrong_state
from broker.client.future import WAIT_S_MAX, DeliveryFuture, FailedFuture, deadline_after_ms
from broker.client.patient_append import PatientAppend, WaitingRecord
from broker.client.reporting import BatchListener
from broker.client.sender_thread import LEGACY_PRODUCE, PRODUCE_VERSION_MAX, SenderThread
from broker.client.transactions import TransactionClient
from broker.wire.errors import ErrorCode, LocalProtocolError

_SMALL_VALUE_BYTES = 8000
_new_tuple = tuple.__new__  # makes a DeliveryFuture without a call of the class; this saves 40 ns
_CLOSE_MARGIN_S = 5.0


class Producer:
    """See docs/internals/contracts.md. `properties` are Kafka's producer properties; an unknown one is an error.

    With a `batch_listener` no callback is called for each record. `send` then takes a token of any kind as
    `on_delivery`, and the listener gets all tokens of a batch at once (a tenth of the cost). For a record that could
    not be queued, the caller gets only a FailedFuture.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        seed: int | None = None,
        batch_listener: BatchListener | None = None,
    ) -> None:
        self._batch_listener = batch_listener
        self._config: ProducerConfig = parse_producer(screen("producer", properties))
        self._partitioner = _choose_partitioner(self._config, random.Random(seed))
        self._is_closed = False
        self._is_transactional = bool(self._config.transactional_id)
        self._sender = SenderThread(self._config, seed, batch_listener)
        self._lock = self._sender.lock
        self._accumulator = self._sender.accumulator
        self._metadata = self._sender.metadata
        # As in Java, a record may be as large as a whole request, including the header.
        self._record_bytes_max = min(self._config.max_request_size, self._config.buffer_memory) - BATCH_HEADER_BYTES
        # The open batch that took the last plain record of a topic, or of a (topic, partition).
        self._open: dict[str | tuple[str, int], Batch] = {}
        self._is_sticky = isinstance(self._partitioner, StickyPartitioner)
        self._transactions = TransactionClient(self._config, random.Random(seed)) if self._is_transactional else None
        self._patient = PatientAppend(
            self._config,
            self._sender,
            self._partitioner,
            self._transactions,
            record_bytes_max=self._record_bytes_max,
            check_open=self._check_open,
        )
        self._may_append_in_place = self._config.batch_size <= self._record_bytes_max

    def effective_properties(self) -> dict[str, str]:
        return as_properties(self._config)

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> DeliveryFuture | FailedFuture:
        """Queues one record. Blocks up to max.block.ms for metadata or memory, else returns at once.

        If the record cannot be queued, the caller gets a failed future and a call of `on_delivery`, as for any other
        failure.
        """
        # This is the hot path: a plain record goes into the batch that took the last one. It takes one lock and no call
        # into the core: 0.5 us instead of 1.8 us through `_send_in_full`. The sender closes a batch under the same
        # lock, so no record can be added after that.
        batch = self._open.get(topic if partition is None else (topic, partition))
        if batch is not None and key is None and timestamp_ms is None and not headers and value is not None:
            size_bytes = len(value) + 12
            with self._lock:
                if batch.takes_plain and size_bytes <= batch.room_bytes and size_bytes < _SMALL_VALUE_BYTES:
                    values = batch.values
                    index = len(values)
                    values.append(value)
                    batch.room_bytes -= size_bytes
                    now_s = time()
                    if now_s >= batch.next_stamp_s:
                        stamp_ms = int(now_s * 1000)
                        batch.stamps.append((index, stamp_ms))
                        batch.next_stamp_s = (stamp_ms + 1) / 1000
                    if batch.callbacks is not None:
                        batch.callbacks.append(on_delivery)
                    elif on_delivery is not None:
                        batch.callbacks = [None] * index
                        batch.callbacks.append(on_delivery)
                    return _new_tuple(DeliveryFuture, (batch, index, self._event_of))
        return self._send_in_full(topic, value, key, partition, headers, timestamp_ms, on_delivery)

    def _send_in_full(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers,
        timestamp_ms: int | None,
        on_delivery: DeliveryCallback | None,
    ) -> DeliveryFuture | FailedFuture:
        transactions = self._transactions
        if transactions is not None and (refusal := transactions.core.refusal_of_send()) is not None:
            return _refuse(refusal, on_delivery if self._batch_listener is None else None)
        if key is None and value is not None and not headers and len(value) < _SMALL_VALUE_BYTES:
            size_bytes = len(value) + 12
        else:
            size_bytes = record_size_bytes_max(value, key, headers)
        sender = self._sender
        time_ms = now_ms()
        is_plain = key is None and timestamp_ms is None and not headers
        if timestamp_ms is None:
            timestamp_ms = int(time() * 1000)
        else:
            sender.metrics.is_stamped_by_user = True
        with self._lock:
            chosen = partition
            if chosen is None:
                self._account_sticky(topic, size_bytes)
                metadata = self._metadata
                count = metadata.partition_count(topic)
                if count:
                    available = metadata.available_partitions(topic)
                    chosen = self._partitioner.choose(topic, key, value, count, available)
            # the tuple is equal to a TopicPartition
            queue = self._accumulator.queues.get((topic, chosen))  # type: ignore[call-overload]
            is_known = transactions is None or (topic, chosen) in transactions.core.partitions
            if queue is not None and is_known and size_bytes <= self._record_bytes_max and not self._is_closed:
                appended = self._accumulator.try_append(
                    queue, value, key, headers, timestamp_ms, on_delivery, size_bytes, time_ms
                )
                if appended is not None:
                    batch, index, is_new = appended
                    self._note_open(topic, partition, batch, size_bytes, is_plain=is_plain)
                    if is_new:
                        self._metadata.use_topic(topic, time_ms)
                        sender.wake_by(time_ms if len(queue.batches) > 1 else time_ms + self._config.linger_ms)
                    return _new_tuple(DeliveryFuture, (batch, index, self._event_of))
        record = WaitingRecord(topic, value, key, chosen, headers, timestamp_ms)
        try:
            batch, index = self._patient.append(record, on_delivery, size_bytes, is_chosen=partition is None)
        except KafkaError as error:
            return _refuse(error, on_delivery if self._batch_listener is None else None)
        return _new_tuple(DeliveryFuture, (batch, index, self._event_of))

    def _note_open(self, topic: str, partition: int | None, batch: Batch, size_bytes: int, *, is_plain: bool) -> None:
        """Called under the lock. Notes the batch for the next plain record, and tells the partitioner the size of this
        record."""
        if is_plain and batch.takes_plain and self._may_append_in_place:
            if partition is not None:
                self._open[(topic, partition)] = batch
                return
            if self._is_sticky:
                # The partitioner gets the batch's bytes as one number when the batch is closed or full.
                self._open[topic] = batch
                return
        if partition is None:
            self._partitioner.on_appended(topic, batch.partition.partition, size_bytes)

    def _account_sticky(self, topic: str, next_bytes: int) -> None:
        """Called under the lock. If the batch of the plain records cannot take the next record, tells the partitioner
        its size. A full batch counts as batch.size."""
        batch = self._open.get(topic)
        if batch is not None and (not batch.takes_plain or next_bytes > batch.room_bytes):
            del self._open[topic]
            size_bytes = max(batch.size_bytes, batch.limit_bytes if next_bytes > batch.room_bytes else 0)
            self._partitioner.on_appended(topic, batch.partition.partition, size_bytes)

    def flush(self, timeout_s: float | None = None) -> int:
        """Sends the queued records without linger and waits for their callbacks. Returns how many records have no
        outcome yet."""
        self._refuse_sender_thread("flush")
        deadline_s = monotonic() + (WAIT_S_MAX if timeout_s is None else timeout_s)
        with self._lock:
            batches = self._sender.unreported()
            events = [self._sender.event_of(batch) for batch in batches]
            self._sender.core.hurry_count += 1
            self._sender.wake_by(0)
        for event in events:
            if not event.wait(deadline_s - monotonic()):
                break
        with self._lock:
            self._sender.core.hurry_count -= 1
            return sum(batch.record_count for batch in batches if batch.outcome is None)

    # -- transactions (KIP-98) ------------------------------------------------------------------------------------

    def init_transactions(self, timeout_s: float | None = None) -> None:
        """The application calls it once, before the first transaction. It fences earlier producers of this
        transactional.id and ends their open transactions. After a timeout (default: max.block.ms) it may be called
        again."""
        transactions = self._need_transactions("init_transactions")
        with transactions.call("init"):
            transactions.initialise(self._call_deadline_ms(timeout_s))

    def begin_transaction(self) -> None:
        transactions = self._need_transactions("begin_transaction")
        core = transactions.core
        with transactions.call("begin"):
            core.begin()
            with self._lock:
                self._sender.produce_version_max = PRODUCE_VERSION_MAX if core.is_bumping else LEGACY_PRODUCE
                self._sender.core.begin_transaction(core.producer_id, core.producer_epoch)

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group: GroupMetadata | str
    ) -> None:
        """Commits the offsets that a consumer has read as a part of the transaction: the offsets and the records are
        committed together or not at all (KIP-98, KIP-447).

        If only the group id is given, without the member, the coordinator cannot fence an old member.
        """
        transactions = self._need_transactions("send_offsets_to_transaction")
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(each) if isinstance(each, int) else each
            for partition, each in offsets.items()
        }
        member = GroupMetadata(group_id=group) if isinstance(group, str) else group
        with transactions.call("send-offsets"):
            if wanted:
                transactions.add_offsets(wanted, member, self._call_deadline_ms(None))

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        """Flushes, then commits. Raises KafkaError if a record failed or the coordinator refuses. In this case nothing
        of the transaction is committed, and the next call must be `abort_transaction`. After a timeout the outcome is
        unknown (`definite` is False). Only a repeated call of `commit_transaction` can tell the outcome."""
        transactions = self._need_transactions("commit_transaction")
        deadline_ms = self._call_deadline_ms(timeout_s)
        with transactions.call("commit"):
            transactions.core.move(TransactionState.COMMITTING, call="commit_transaction()")
            self._finish_records(deadline_ms)
            with self._lock:
                failure = self._sender.core.transaction_error
            if failure is not None:
                transactions.core.fail_by_record(failure)
                raise failure
            transactions.end(is_commit=True, deadline_ms=deadline_ms, had_failures=False)

    def abort_transaction(self, timeout_s: float | None = None) -> None:
        """Queued records fail. The call waits for the requests on the wire. Then the coordinator aborts the
        transaction."""
        transactions = self._need_transactions("abort_transaction")
        deadline_ms = self._call_deadline_ms(timeout_s)
        with transactions.call("abort"):
            transactions.core.move(TransactionState.ABORTING, call="abort_transaction()")
            with self._lock:
                had_failures = self._sender.core.transaction_error is not None
                aborted = KafkaError(ErrorCode.transaction_abortable, "abort_transaction() was called")
                self._sender.core.abandon_transaction(aborted)
                self._sender.wake_by(0)
            self._finish_records(deadline_ms)
            transactions.end(is_commit=False, deadline_ms=deadline_ms, had_failures=had_failures)

    def _finish_records(self, deadline_ms: int) -> None:
        left = self.flush(max(0, deadline_ms - now_ms()) / 1000)
        if left:
            raise TimedOutError(f"{left} records of the transaction have no outcome yet", definite=False)

    def _need_transactions(self, call: str) -> TransactionClient:
        self._refuse_sender_thread(call)
        if self._transactions is None:
            raise wrong_state(f"{call}(): transactional.id is not set")
        with self._lock:
            self._check_open()
        return self._transactions

    def _call_deadline_ms(self, timeout_s: float | None) -> int:
        return deadline_after_ms(self._config.max_block_ms / 1000 if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Refuses new records, sends the queued ones, and ends the thread. It is safe to call it again.

        After `timeout_s` (default: delivery.timeout.ms) unsent records have definitely failed. The outcome of those in
        flight is unknown.
        """
        self._refuse_sender_thread("close")
        wait_s = self._config.delivery_timeout_ms / 1000 if timeout_s is None else max(timeout_s, 0.0)
        with self._lock:
            self._is_closed = True
            if not self._sender.ended.is_set():
                self._sender.stop(now_ms() + int(wait_s * 1000))
        if not self._sender.ended.wait(wait_s + _CLOSE_MARGIN_S):
            raise TimedOutError("the sender thread does not end: a callback may be stuck", definite=False)
        if self._transactions is not None:
            self._transactions.close()

    def metrics(self) -> dict[str, float]:
        """The figures under Kafka's metric names; see metrics.py."""
        of_transactions = {} if self._transactions is None else self._transactions.metrics()
        with self._lock:
            return of_transactions | self._sender.metrics.snapshot(
                self._sender.core.counters,
                in_flight=self._sender.core.in_flight_request_count,
                buffer_total_bytes=self._config.buffer_memory,
                buffer_used_bytes=self._accumulator.used_bytes,
                out_bytes=self._sender.network.bytes_out_total,
            )

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of the topic. Waits up to max.block.ms for the topic's metadata."""
        self._patient.wait_for_topic(topic, monotonic() + self._config.max_block_ms / 1000)
        return list(range(self._metadata.partition_count(topic)))

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._sender.failure is not None:
            raise ClosedError(f"the sender thread died: {self._sender.failure!r}")
        if self._is_closed or self._sender.ended.is_set():
            raise ClosedError("the producer is closed")

    def _event_of(self, batch: Batch) -> native.Event:
        with self._lock:
            return self._sender.event_of(batch)

    def _refuse_sender_thread(self, name: str) -> None:
        if native.thread_id() == self._sender.ident:
            raise LocalProtocolError(f"{name}() inside a delivery callback would wait for itself")


def _refuse(error: KafkaError, callback: DeliveryCallback | None) -> FailedFuture:
    if callback is not None:
        callback(None, error)
    return FailedFuture(error)


def _choose_partitioner(config: ProducerConfig, rng: random.Random) -> Partitioner:
    if config.partitioner_class in ROUND_ROBIN:
        return RoundRobinPartitioner()
    return StickyPartitioner(config.batch_size, rng, ignore_keys=config.partitioner_ignore_keys)

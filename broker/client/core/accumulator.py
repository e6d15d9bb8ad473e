"""Records waiting to be sent: a deque of batches per partition, and the account of `buffer.memory`.

Owns: which batch takes a record, which batches are due, putting a failed batch back. It knows no sequence numbers, no
connections and no threads: the shell holds its lock around every call.
Invariant: used_bytes is the sum of reserved_bytes over all batches that have no outcome yet.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator

from broker.client.core.batch import Batch, BatchState, DeliveryCallback, Headers, TopicPartition


class PartitionQueue:
    """The batches of one partition, oldest first; only the last may be open. Batches in flight are not in it."""

    __slots__ = ("batches", "in_flight_count", "is_muted", "partition")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.batches: deque[Batch] = deque()
        self.is_muted = False
        self.in_flight_count = 0


class Accumulator:
    def __init__(self, *, batch_size_bytes: int, linger_ms: int, buffer_memory_bytes: int) -> None:
        self.batch_size_bytes = batch_size_bytes
        self.linger_ms = linger_ms
        self.buffer_memory_bytes = buffer_memory_bytes
        self.used_bytes = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.incomplete: dict[int, Batch] = {}  # every batch without an outcome, by id(), in order of creation

    def queue_of(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(partition)
        return queue

    def try_append(
        self,
        queue: PartitionQueue,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        callback: DeliveryCallback | None,
        size_bytes: int,
        now_ms: int,
    ) -> tuple[Batch, int, bool] | None:
        """Returns (batch, index, whether the sender must be woken), or None if buffer.memory is full."""
        batches = queue.batches
        if batches:
            batch = batches[-1]
            index = batch.append(value, key, headers, timestamp_ms, callback, size_bytes)
            if index is not None:
                return batch, index, False
            if batch.state is BatchState.OPEN:
                batch.close(BatchState.QUEUED)
        reserved = self.reserved_bytes_for(size_bytes)
        if self.used_bytes + reserved > self.buffer_memory_bytes:
            return None
        batch = Batch(queue.partition, limit_bytes=self.batch_size_bytes, reserved_bytes=reserved, now_ms=now_ms)
        self.used_bytes += reserved
        self.incomplete[id(batch)] = batch
        batches.append(batch)
        index = batch.append(value, key, headers, timestamp_ms, callback, size_bytes)
        assert index == 0
        return batch, index, True

    def reserved_bytes_for(self, record_size_bytes: int) -> int:
        """As in Java, a batch reserves a whole batch.size. It reserves more only for a record that is larger."""
        return max(self.batch_size_bytes, record_size_bytes)

    def is_due(self, queue: PartitionQueue, now_ms: int, *, hurry: bool) -> bool:
        """Whether the first batch may be sent now. `hurry` means that somebody waits: a flush, a close, or a thread
        that waits for memory."""
        if not queue.batches or queue.is_muted:
            return False
        first = queue.batches[0]
        if first.attempts:
            return now_ms >= first.retry_at_ms
        return hurry or len(queue.batches) > 1 or first.is_full() or now_ms - first.created_ms >= self.linger_ms

    def due_at_ms(self, queue: PartitionQueue) -> int | None:
        """When the linger or backoff time of the first batch ends. None if there is no batch, or if the partition is
        muted."""
        if not queue.batches or queue.is_muted:
            return None
        first = queue.batches[0]
        return first.retry_at_ms if first.attempts else first.created_ms + self.linger_ms

    def take_first(self, queue: PartitionQueue) -> Batch:
        """The first batch leaves the queue for a request. If the batch is open, this closes it, so that no record is
        appended to it any more."""
        batch = queue.batches.popleft()
        assert batch.state in (BatchState.OPEN, BatchState.QUEUED)
        batch.close(BatchState.IN_FLIGHT)
        queue.in_flight_count += 1
        return batch

    def put_back(self, batch: Batch) -> None:
        """A failed batch waits for its next attempt. It goes before batches that were never tried, and in sequence
        order if it has a sequence.

        Without a sequence it goes to the very front. There it may overtake other failed batches. This is the price of
        several requests in flight without idempotence.
        """
        queue = self.queues[batch.partition]
        queue.in_flight_count -= 1
        batch.state = BatchState.QUEUED
        position = 0
        if batch.has_sequence:
            for waiting in queue.batches:
                if not waiting.has_sequence or waiting.is_numbered_after(batch):
                    break
                position += 1
        queue.batches.insert(position, batch)

    def forget(self, batch: Batch) -> None:
        """The batch has its outcome: release its memory, and remove it from wherever it is."""
        queue = self.queues[batch.partition]
        if batch.state is BatchState.IN_FLIGHT:
            queue.in_flight_count -= 1
        elif batch.state is not BatchState.DONE:
            queue.batches.remove(batch)
        batch.close(BatchState.DONE)
        del self.incomplete[id(batch)]
        self.used_bytes -= batch.reserved_bytes

    def expired(self, now_ms: int, delivery_timeout_ms: int) -> list[Batch]:
        """Batches older than delivery.timeout.ms, oldest first. Batches are kept in the order of their creation, so the
        search stops at the first batch that is young enough."""
        late = []
        for batch in self.incomplete.values():
            if now_ms - batch.created_ms < delivery_timeout_ms:
                break
            late.append(batch)
        return late

    def oldest_created_ms(self) -> int | None:
        return next((batch.created_ms for batch in self.incomplete.values()), None)

    def waiting(self) -> Iterator[PartitionQueue]:
        """The queues that have something to send."""
        return (queue for queue in self.queues.values() if queue.batches)

    def check_invariants(self) -> None:
        assert self.used_bytes == sum(batch.reserved_bytes for batch in self.incomplete.values())
        assert self.used_bytes <= self.buffer_memory_bytes
        for queue in self.queues.values():
            assert queue.in_flight_count >= 0
            assert all(batch.state is not BatchState.OPEN for batch in list(queue.batches)[:-1])
            assert all(id(batch) in self.incomplete for batch in queue.batches)
            numbered = [batch for batch in queue.batches if batch.has_sequence]
            assert all(later.is_numbered_after(earlier) for earlier, later in itertools.pairwise(numbered))

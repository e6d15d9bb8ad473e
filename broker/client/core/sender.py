"""The sender's decisions: which batches are sent to which broker now, and what an answer or a lost connection means.

`handle(event, now_ms) -> actions`. The shell performs the actions, reports their results as events, and holds the
producer's lock around every call. Encoding, sockets and callbacks belong to the shell. Two things are left out: a batch
that a broker finds too large is not split (it fails, and definitely), and the leader hints of Produce v10 are not used.
Shown by tests/broker_client/test_client_sender.py and test_client_simulation.py.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.client.core.accumulator import Accumulator, PartitionQueue
from broker.client.core.backoff import Backoff, backoff_ms
from broker.client.core.batch import UNKNOWN_OFFSET, UNKNOWN_TIMESTAMP, Batch, BatchState, Outcome, TopicPartition
from broker.client.core.config import ProducerConfig
from broker.client.core.errors import ClosedError, KafkaError, TimedOutError
from broker.client.core.metadata import NO_LEADER, MetadataCache
from broker.client.core.sender_counters import SenderCounters
from broker.client.core.sender_events import (
    Action,
    AskIdentity,
    CloseNode,
    Complete,
    Connect,
    Event,
    IdentityAnswered,
    NodeConnected,
    NodeLost,
    PartitionResult,
    ProduceAnswered,
    ProduceSent,
    SendProduce,
    Tick,
)
from broker.client.core.sequences import IdentityState, Sequences
from broker.wire.errors import ErrorCode, error_code, is_retriable
from broker.wire.fates import is_definite

_ASK_FOR_LEADERS = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,  # from a leader that cannot reach its followers any more
        ErrorCode.kafka_storage_error,
        ErrorCode.listener_not_found,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_id,
    }
)
_IDENTITY_REFUSED = frozenset({ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_epoch})


@dataclass(slots=True, kw_only=True)
class _Request:
    node: int
    batches: tuple[Batch, ...]
    deadline_ms: int


@dataclass(slots=True, kw_only=True)
class _Node:
    is_connected: bool = False
    is_closing: bool = False
    requests: deque[int] = field(default_factory=deque)


class SenderCore:
    """Invariant: an IN_FLIGHT batch is in exactly one request; a node has at most max.in.flight requests."""

    def __init__(
        self, config: ProducerConfig, accumulator: Accumulator, metadata: MetadataCache, rng: random.Random
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self._metadata = metadata
        self._random = rng
        self._nodes: dict[int, _Node] = {}
        self._requests: dict[int, _Request] = {}
        self._next_request_id = 0
        self._turn = 0
        self._keeps_order = config.max_in_flight_requests_per_connection == 1
        self._identity = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._actions: list[Action] = []
        self._is_transactional = bool(config.transactional_id)
        self.sequences = Sequences(is_transactional=self._is_transactional) if config.enable_idempotence else None
        self.transaction_error: KafkaError | None = None  # the first failure since the transaction began
        self.hurry_count = 0  # the number of flushes under way, of threads that wait for memory, and of calls of close
        self.counters = SenderCounters()

    @property
    def in_flight_request_count(self) -> int:
        return len(self._requests)

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        self._actions = []
        match event:
            case NodeConnected(node=node):
                state = self._node(node)
                state.is_connected, state.is_closing = True, False
            case NodeLost():
                self._on_node_lost(event, now_ms)
            case ProduceSent(request_id=request_id):
                if self._config.acks_code == 0:
                    self._on_answer(request_id, {}, now_ms)
            case ProduceAnswered(request_id=request_id, results=results):
                self._on_answer(request_id, results, now_ms)
            case IdentityAnswered():
                self._on_identity(event, now_ms)
            case Tick():
                pass
        self._expire(now_ms)
        if self.transaction_error is not None:
            self._fail_waiting(self.transaction_error)
        self._send_due(now_ms)
        return self._actions

    def begin_transaction(self, producer_id: int, producer_epoch: int) -> None:
        """Takes the id and epoch that the coordinator gave. All earlier batches must have their outcome."""
        assert self.sequences is not None
        assert not self._accumulator.incomplete
        self.transaction_error = None
        if (producer_id, producer_epoch) != (self.sequences.producer_id, self.sequences.producer_epoch):
            self.sequences.partitions.clear()
            self.sequences.on_identity(producer_id, producer_epoch)

    def abandon_transaction(self, error: KafkaError) -> None:
        """Records that are not on the wire fail at the next event, because the transaction will be aborted."""
        self.transaction_error = self.transaction_error or error

    def _fail_waiting(self, cause: KafkaError) -> None:
        for batch in list(self._accumulator.incomplete.values()):
            if batch.state is not BatchState.IN_FLIGHT:
                name = f"{batch.partition.topic}-{batch.partition.partition}"
                text = f"{name}: the transaction is to be aborted: {cause}"
                self._fail(batch, KafkaError(cause.code, text, definite=not batch.is_maybe_written, name=cause.name))

    def fail_all(self, reason: str) -> list[Action]:
        """The time of close() is over. Records that were never sent have definitely failed. The outcome of records in
        flight is unknown."""
        self._actions = []
        for batch in list(self._accumulator.incomplete.values()):
            if batch.state is BatchState.IN_FLIGHT:
                batch.is_maybe_written = True
            self._fail(batch, ClosedError(reason, definite=not batch.is_maybe_written))
        return self._actions

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When a Tick is due even if nothing happens. None if only an event can change anything.

        `now_ms` is the time of the last `handle`. What was due at that time and was not done waits for an event, so it
        has no deadline. What becomes due later has one.
        """
        deadlines = [self._requests[node.requests[0]].deadline_ms for node in self._nodes.values() if node.requests]
        for queue in self._accumulator.waiting():
            due_ms = self._accumulator.due_at_ms(queue)
            if due_ms is not None and due_ms > now_ms:
                deadlines.append(due_ms)
        oldest_ms = self._accumulator.oldest_created_ms()
        if oldest_ms is not None:
            deadlines.append(oldest_ms + self._config.delivery_timeout_ms)
        if self._identity.not_before_ms > now_ms:
            deadlines.append(self._identity.not_before_ms)
        return min(deadlines, default=None)

    # -- answers --------------------------------------------------------------------------------------------------

    def _on_answer(self, request_id: int, results: Mapping[TopicPartition, PartitionResult], now_ms: int) -> None:
        request = self._requests.pop(request_id, None)
        if request is None:
            return  # the connection to its node was given up before
        self._node(request.node).requests.remove(request_id)
        missing = PartitionResult(error_code=ErrorCode.unknown_server_error, message="no word on this partition")
        for batch in request.batches:
            result = PartitionResult() if self._config.acks_code == 0 else results.get(batch.partition, missing)
            self._on_result(batch, result, now_ms)

    def _on_result(self, batch: Batch, result: PartitionResult, now_ms: int) -> None:
        self._accumulator.queues[batch.partition].is_muted = False
        if batch.outcome is not None:
            return  # delivery.timeout.ms has already ended this batch
        code = error_code(result.error_code)
        if code is ErrorCode.none or code is ErrorCode.duplicate_sequence_number:
            self._acknowledge(batch, result if code is ErrorCode.none else PartitionResult())
            return
        if code in _ASK_FOR_LEADERS:
            self._metadata.request_update()
        if not is_definite(code):
            batch.is_maybe_written = True
        message = result.message or f"broker refused a batch of {batch.record_count} records"
        error = KafkaError(code, f"{batch.partition.topic}-{batch.partition.partition}: {message}")
        if self._may_retry(batch) and self._is_worth_a_retry(batch, code):
            self._retry(batch, error, now_ms)
        else:
            self._fail(batch, KafkaError(code, str(error), definite=not batch.is_maybe_written))

    def _is_worth_a_retry(self, batch: Batch, code: ErrorCode) -> bool:
        if self._is_transactional and code in _IDENTITY_REFUSED:
            return False
        if code is ErrorCode.concurrent_transactions:
            return True  # the markers of the previous transaction are still being written
        if self._is_transactional and code is ErrorCode.out_of_order_sequence_number:
            assert self.sequences is not None
            return not self.sequences.is_lowest(batch)
        if self.sequences is not None and batch.has_sequence:
            before = self.sequences.producer_epoch
            if code is ErrorCode.out_of_order_sequence_number:
                if batch.is_maybe_written and self.sequences.is_lowest(batch):
                    return False
                self.sequences.on_out_of_order(batch)
            elif code in _IDENTITY_REFUSED:
                self.sequences.on_identity_refused(batch)
            self.counters.epoch_bump_total += self.sequences.producer_epoch != before
            if code is ErrorCode.out_of_order_sequence_number or code in _IDENTITY_REFUSED:
                return True
        return is_retriable(code)

    def _may_retry(self, batch: Batch) -> bool:
        return batch.attempts < self._config.retries

    def _on_node_lost(self, event: NodeLost, now_ms: int) -> None:
        node = self._node(event.node)
        node.is_connected = node.is_closing = False
        lost, node.requests = node.requests, deque()
        self._metadata.request_update()
        # The newest comes first: each batch goes to the front of its queue, so at the end the oldest is there.
        for request_id in reversed(lost):
            request = self._requests.pop(request_id)
            for batch in request.batches:
                self._accumulator.queues[batch.partition].is_muted = False
                if batch.outcome is None:
                    self._on_no_answer(batch, request_id not in event.unsent, event.reason, now_ms)

    def _on_no_answer(self, batch: Batch, was_sent: bool, reason: str, now_ms: int) -> None:
        batch.is_maybe_written = batch.is_maybe_written or was_sent
        name = f"{batch.partition.topic}-{batch.partition.partition}"
        error = KafkaError(ErrorCode.network_exception, f"{name}: {reason}", definite=not batch.is_maybe_written)
        if self._may_retry(batch):
            self._retry(batch, error, now_ms)
        else:
            self._fail(batch, error)

    def _on_identity(self, event: IdentityAnswered, now_ms: int) -> None:
        assert self.sequences is not None
        code = error_code(event.error_code)
        if code is ErrorCode.none:
            self._identity.attempts = 0
            self.sequences.on_identity(event.producer_id, event.producer_epoch)
            return
        self.sequences.state = IdentityState.MISSING
        self._identity.failed(now_ms)
        if not is_retriable(code) and code is not ErrorCode.unknown_server_error:
            for batch in list(self._accumulator.incomplete.values()):
                self._fail(batch, KafkaError(code, "no producer id", definite=not batch.is_maybe_written))

    # -- the end or the retry of a batch --------------------------------------------------------------------------

    def _acknowledge(self, batch: Batch, result: PartitionResult) -> None:
        if self.sequences is not None:
            self.sequences.on_acknowledged(batch)
        self._finish(batch, Outcome(result.base_offset, result.log_append_time_ms, None))

    def _retry(self, batch: Batch, error: KafkaError, now_ms: int) -> None:
        batch.attempts += 1
        batch.first_error = batch.first_error or error
        batch.retry_at_ms = now_ms + self._backoff_ms(batch.attempts)
        self.counters.record_retry_total += batch.record_count
        self._accumulator.put_back(batch)

    def _fail(self, batch: Batch, error: KafkaError) -> None:
        if self._is_transactional:
            self.transaction_error = self.transaction_error or error
        if self.sequences is not None:
            self.sequences.on_failed(batch)
        self.counters.record_error_total += batch.record_count
        self._finish(batch, Outcome(UNKNOWN_OFFSET, UNKNOWN_TIMESTAMP, error))

    def _finish(self, batch: Batch, outcome: Outcome) -> None:
        assert batch.outcome is None
        batch.outcome = outcome
        self._accumulator.forget(batch)
        self._actions.append(Complete(batch=batch))

    def _expire(self, now_ms: int) -> None:
        for batch in self._accumulator.expired(now_ms, self._config.delivery_timeout_ms):
            batch.is_maybe_written = batch.is_maybe_written or batch.state is BatchState.IN_FLIGHT
            age_ms = now_ms - batch.created_ms
            last = f"; first failure: {batch.first_error}" if batch.first_error else ""
            text = f"{batch.partition.topic}-{batch.partition.partition}: no acknowledgement after {age_ms} ms{last}"
            self._fail(batch, TimedOutError(text, definite=not batch.is_maybe_written))
        for node_id, node in self._nodes.items():
            if node.requests and not node.is_closing:
                request = self._requests[node.requests[0]]
                if now_ms >= request.deadline_ms:
                    node.is_closing = True
                    reason = f"no answer within request.timeout.ms={self._config.request_timeout_ms}"
                    self._actions.append(CloseNode(node=node_id, reason=reason))

    # -- requests -------------------------------------------------------------------------------------------------

    def _send_due(self, now_ms: int) -> None:
        due: dict[int, list[PartitionQueue]] = {}
        for queue in self._accumulator.waiting():
            if self._accumulator.is_due(queue, now_ms, hurry=self.hurry_count > 0):
                leader = self._metadata.leader(queue.partition)
                if leader == NO_LEADER:
                    self._metadata.request_update()
                else:
                    due.setdefault(leader, []).append(queue)
        if not due or not self._has_identity(now_ms):
            return
        for node_id, queues in due.items():
            node = self._node(node_id)
            if not node.is_connected:
                self._actions.append(Connect(node=node_id))
            elif not node.is_closing:
                self._fill(node_id, node, queues, now_ms)

    def _fill(self, node_id: int, node: _Node, queues: list[PartitionQueue], now_ms: int) -> None:
        """Makes requests until nothing is due or the in-flight limit is reached. Partitions take turns to be first."""
        while len(node.requests) < self._config.max_in_flight_requests_per_connection:
            self._turn += 1
            start = self._turn % len(queues)
            batches = self._take(queues[start:] + queues[:start], now_ms)
            if not batches:
                return
            request_id = self._next_request_id
            self._next_request_id += 1
            deadline_ms = now_ms + self._config.request_timeout_ms
            self._requests[request_id] = _Request(node=node_id, batches=batches, deadline_ms=deadline_ms)
            node.requests.append(request_id)
            self.counters.request_total += 1
            self._actions.append(SendProduce(request_id=request_id, node=node_id, batches=batches))

    def _take(self, queues: list[PartitionQueue], now_ms: int) -> tuple[Batch, ...]:
        """Takes at most one batch of each partition, together within max.request.size (but always one batch)."""
        taken: list[Batch] = []
        size_bytes = 0
        for queue in queues:
            if not self._accumulator.is_due(queue, now_ms, hurry=self.hurry_count > 0):
                continue
            first = queue.batches[0]
            if taken and size_bytes + first.size_bytes > self._config.max_request_size:
                continue
            if self.sequences is not None:
                if not self.sequences.may_send(first, queue.in_flight_count):
                    continue
                self._accumulator.take_first(queue)
                self.sequences.number(first)
            else:
                self._accumulator.take_first(queue)
            queue.is_muted = self._keeps_order
            size_bytes += first.size_bytes
            self.counters.batch_total += 1
            self.counters.record_send_total += first.record_count if not first.attempts else 0
            taken.append(first)
        return tuple(taken)

    def _has_identity(self, now_ms: int) -> bool:
        if self.sequences is None:
            return True
        if self._is_transactional:
            return self.sequences.state is IdentityState.READY
        if self.sequences.state is IdentityState.MISSING and now_ms >= self._identity.not_before_ms:
            self.sequences.state = IdentityState.ASKED
            self._actions.append(AskIdentity())
        return self.sequences.state is IdentityState.READY

    def _backoff_ms(self, attempts: int) -> int:
        return backoff_ms(attempts, self._config.retry_backoff_ms, self._config.retry_backoff_max_ms, self._random)

    def _node(self, node_id: int) -> _Node:
        return self._nodes.setdefault(node_id, _Node())

    def check_invariants(self) -> None:
        self._accumulator.check_invariants()
        if self.sequences is not None:
            self.sequences.check_invariants()
        limit = self._config.max_in_flight_requests_per_connection
        on_wire: list[Batch] = [b for request in self._requests.values() for b in request.batches if b.outcome is None]
        assert len({id(batch) for batch in on_wire}) == len(on_wire)
        assert all(len(node.requests) <= limit for node in self._nodes.values())
        for queue in self._accumulator.queues.values():
            assert queue.in_flight_count == sum(batch.partition == queue.partition for batch in on_wire)

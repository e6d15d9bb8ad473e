"""One partition of `__transaction_state`: every transactional id that hashes to it, and the rules of the coordinator.

Owns: the answer to each request in each state, timeouts and expiry. Its state is that of the end of the log. Replies
and markers are sent only when the records that they depend on are committed (see ..runtime). So a decision that a
client knows, or for which a log has a marker, survives any fail-over. After a fail-over, `Loaded` sends the markers of
all decided transactions again. Shown by tests/broker_coordinator/test_coordinator_transactions.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from broker.coordinator.runtime import (
    Append,
    CoordinatorAction,
    Emit,
    Loaded,
    LoadedMarker,
    LoadedRecord,
    Reply,
    StateRecord,
    Tick,
)
from broker.coordinator.transactions import records
from broker.coordinator.transactions.judgement import (
    check_end,
    check_legacy_end,
    check_producer,
    is_ended,
    may_initialise,
)
from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    AddPartitions,
    Describe,
    EndTransaction,
    InitProducer,
    LevelChanged,
    MarkersWritten,
    NeedsProducerId,
    PartitionsResult,
    ProducerResult,
    TransactionEnded,
    TransactionState,
    VerifyPartitions,
    WriteMarkers,
)
from broker.wire.errors import ErrorCode

# the maximum in a shard; further ids are answered with COORDINATOR_NOT_AVAILABLE until some expire
TRANSACTIONAL_IDS_MAX = 200_000
EXPIRED_AT_ONCE_MAX = 1_000  # tombstones in one tick; their batch stays far below max.message.bytes
_CHANGING = (InitProducer, AddPartitions, EndTransaction, MarkersWritten, Tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsConfig:
    """Fields have Kafka's names and defaults."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    expiration_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms
    # wall clock minus the clock of `now_ms`; times in records must be valid after a restart
    wall_clock_offset_ms: int = 0


class TransactionShard:
    """Invariant: a replay of the shard's log gives `_transactions`. Two things may differ: `last_producer_epoch`, and
    start times that are in the future by this broker's clock."""

    def __init__(self, config: TransactionsConfig) -> None:
        self._config = config
        self._transactions: dict[str, Transaction] = {}
        # heap of (wall ms, id) of ongoing transactions; may hold outdated entries
        self._deadlines: list[tuple[int, str]] = []
        self._next_expiration_ms: int | None = None  # on the clock of `now_ms`
        self._coordinator_epoch = -1
        self._appended = 0
        # level of the feature transaction.version; it only decides how records are written
        self._level = EPOCH_BUMP_VERSION
        self._now_ms = 0  # wall clock, while an event is handled

    # -- reading -----------------------------------------------------------------------------------------------------

    def transactions(self) -> list[Transaction]:
        return list(self._transactions.values())

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and not self._is_due_entry(*self._deadlines[0]):
            heapq.heappop(self._deadlines)
        due = [] if self._next_expiration_ms is None else [self._next_expiration_ms]
        if self._deadlines:
            due.append(self._deadlines[0][0] - self._config.wall_clock_offset_ms)
        return min(due, default=None)

    def _is_due_entry(self, deadline_ms: int, transactional_id: str) -> bool:
        transaction = self._transactions.get(transactional_id)
        return transaction is not None and transaction.deadline_ms == deadline_ms

    def check_invariants(self) -> None:
        for transactional_id, transaction in self._transactions.items():
            assert transactional_id == transaction.transactional_id
            transaction.check_invariants()
            if transaction.deadline_ms is not None and self._coordinator_epoch >= 0:
                assert (transaction.deadline_ms, transactional_id) in self._deadlines

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, entry: LoadedRecord | LoadedMarker) -> None:
        if isinstance(entry, LoadedMarker):
            return  # no transactional records are written to this topic
        transactional_id = records.decode_key(entry.key)
        if transactional_id is None:
            return
        if entry.value is None:
            self._transactions.pop(transactional_id, None)
        else:
            self._transactions[transactional_id] = records.decode_value(transactional_id, entry.value)

    def may_append(self, event: object) -> bool:
        return isinstance(event, _CHANGING)

    def _write(self, *transactions: Transaction) -> list[CoordinatorAction]:
        for transaction in transactions:
            transactional_id, deadline_ms = transaction.transactional_id, transaction.deadline_ms
            before = self._transactions.get(transactional_id)
            self._transactions[transactional_id] = transaction
            if deadline_ms is not None and (before is None or before.deadline_ms != deadline_ms):
                self._note_deadline(deadline_ms, transactional_id)
        return [self._append(tuple(records.encode(each, level=self._level) for each in transactions))]

    def _note_deadline(self, deadline_ms: int, transactional_id: str) -> None:
        heapq.heappush(self._deadlines, (deadline_ms, transactional_id))
        # most entries belong to transactions that have ended
        if len(self._deadlines) > 2 * len(self._transactions) + 100:
            self._deadlines = [entry for entry in self._deadlines if self._is_due_entry(*entry)]
            heapq.heapify(self._deadlines)

    def _append(self, written: tuple[StateRecord, ...]) -> Append:
        self._appended += 1
        return Append(number=self._appended, records=written)

    # -- events ------------------------------------------------------------------------------------------------------

    def handle(self, event: object, now_ms: int) -> Sequence[CoordinatorAction]:
        self._now_ms = now_ms + self._config.wall_clock_offset_ms
        match event:
            case Loaded():
                return self._loaded(event, now_ms)
            case InitProducer():
                return self._init_producer(event)
            case AddPartitions():
                return self._add_partitions(event)
            case VerifyPartitions():
                return [Reply(token=event.token, response=self._verify(event))]
            case EndTransaction():
                return self._end(event)
            case MarkersWritten():
                return self._markers_written(event)
            case LevelChanged():
                self._level = event.level
                return []
            case Describe():
                return [Reply(token=event.token, response=self._transactions.get(event.transactional_id))]
            case Tick():
                return [*self._abort_timed_out(), *self._expire(now_ms)]
        raise TypeError(f"not an event of the transaction coordinator: {event!r}")

    def _loaded(self, event: Loaded, now_ms: int) -> list[CoordinatorAction]:
        """The new leader completes the transactions that its predecessor had decided, and continues the timeouts of the
        others."""
        self._coordinator_epoch = event.leader_epoch
        self._next_expiration_ms = now_ms + self._config.expiration_interval_ms
        actions: list[CoordinatorAction] = []
        for read in list(self._transactions.values()):
            transaction = self._transactions[read.transactional_id] = read.begun_by(self._now_ms)
            if transaction.deadline_ms is not None:
                self._note_deadline(transaction.deadline_ms, transaction.transactional_id)
            elif transaction.state.is_prepared:
                actions.append(Emit(effect=self._markers_of(transaction), after=0))
        return actions

    # -- InitProducerId ----------------------------------------------------------------------------------------------

    def _init_producer(self, event: InitProducer) -> list[CoordinatorAction]:
        if not 0 < event.timeout_ms <= self._config.transaction_max_timeout_ms:
            return [_producer_failed(event.token, ErrorCode.invalid_transaction_timeout)]
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None:
            return self._new_transactional_id(event)
        if transaction.state.is_prepared:
            return [_producer_failed(event.token, ErrorCode.concurrent_transactions)]
        if not may_initialise(transaction, event):
            return [_producer_failed(event.token, ErrorCode.producer_fenced)]
        if transaction.state is TransactionState.ONGOING:
            # No client ever gets the epoch of this fence. The client asks again, and gets the next epoch.
            failed = _producer_failed(event.token, ErrorCode.concurrent_transactions)
            return [*self._fence(transaction, cause="fenced"), failed]
        return self._next_producer(transaction, event)

    def _new_transactional_id(self, event: InitProducer) -> list[CoordinatorAction]:
        if len(self._transactions) >= TRANSACTIONAL_IDS_MAX:
            return [_producer_failed(event.token, ErrorCode.coordinator_not_available)]
        if event.fresh_producer_id is None:
            return [Reply(token=event.token, response=NeedsProducerId(), after=0)]
        transaction = Transaction(
            transactional_id=event.transactional_id,
            producer_id=event.fresh_producer_id,
            producer_epoch=0,
            timeout_ms=event.timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=self._now_ms,
        )
        return [*self._write(transaction), _producer_ready(event.token, transaction)]

    def _next_producer(self, transaction: Transaction, event: InitProducer) -> list[CoordinatorAction]:
        known = event.producer_epoch
        is_asked_again = known != NO_PRODUCER_EPOCH and known == transaction.last_producer_epoch
        if is_asked_again and known != transaction.producer_epoch <= PRODUCER_EPOCH_MAX:
            if transaction.state is TransactionState.EMPTY:
                return [_producer_ready(event.token, transaction)]  # the answer to the same request was lost
            same = transaction.with_same_epoch(timeout_ms=event.timeout_ms, now_ms=self._now_ms)
            return [*self._write(same), _producer_ready(event.token, same)]
        last_epoch = transaction.producer_epoch if event.producer_id != NO_PRODUCER_ID else NO_PRODUCER_EPOCH
        if not transaction.is_epoch_exhausted:
            changed = transaction.with_next_epoch(
                timeout_ms=event.timeout_ms, last_producer_epoch=last_epoch, now_ms=self._now_ms
            )
        elif event.fresh_producer_id is None:
            return [Reply(token=event.token, response=NeedsProducerId(), after=0)]
        else:
            changed = transaction.with_next_producer_id(
                event.fresh_producer_id,
                timeout_ms=event.timeout_ms,
                last_producer_epoch=last_epoch,
                now_ms=self._now_ms,
            )
        return [*self._write(changed), _producer_ready(event.token, changed)]

    # -- partitions --------------------------------------------------------------------------------------------------

    def _add_partitions(self, event: AddPartitions) -> list[CoordinatorAction]:
        transaction = self._transactions.get(event.transactional_id)
        if transaction is not None and transaction.state.is_prepared:
            # the producer id and epoch may be about to change, so the request is checked when it is sent again
            error = ErrorCode.concurrent_transactions
        else:
            error = check_producer(transaction, event.producer_id, event.producer_epoch)
        if error is not ErrorCode.none or transaction is None:
            return [Reply(token=event.token, response=PartitionsResult(error_code=error))]
        answer = Reply(token=event.token, response=PartitionsResult(error_code=ErrorCode.none))
        if transaction.state is TransactionState.ONGOING and event.partitions <= transaction.partitions:
            return [answer]
        changed = transaction.with_partitions(
            event.partitions, transaction_version=event.transaction_version, now_ms=self._now_ms
        )
        return [*self._write(changed), answer]

    def _verify(self, event: VerifyPartitions) -> PartitionsResult:
        transaction = self._transactions.get(event.transactional_id)
        error = check_producer(transaction, event.producer_id, event.producer_epoch)
        if error is not ErrorCode.none or transaction is None:
            return PartitionsResult(error_code=error)
        missing = event.partitions - transaction.partitions
        return PartitionsResult(
            error_code=ErrorCode.none, errors=dict.fromkeys(missing, ErrorCode.transaction_abortable)
        )

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end(self, event: EndTransaction) -> list[CoordinatorAction]:
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None:
            return [_producer_failed(event.token, ErrorCode.invalid_producer_id_mapping)]
        if event.transaction_version >= EPOCH_BUMP_VERSION:
            error = check_end(transaction, event)
        else:
            error = check_legacy_end(transaction, event)
        if error is not ErrorCode.none:
            return [_producer_failed(event.token, error)]
        if is_ended(transaction, event):
            return [_producer_ready(event.token, transaction)]
        is_bumped = event.transaction_version >= EPOCH_BUMP_VERSION
        next_producer_id: int | None = None
        if is_bumped and transaction.is_epoch_exhausted:
            if event.fresh_producer_id is None:
                return [Reply(token=event.token, response=NeedsProducerId(), after=0)]
            next_producer_id = event.fresh_producer_id
        prepared = transaction.prepared(
            is_commit=event.is_commit,
            transaction_version=event.transaction_version,
            next_producer_id=next_producer_id,
            now_ms=self._now_ms,
        )
        return [*self._decide(prepared, cause="client"), _producer_ready(event.token, prepared)]

    def _decide(self, prepared: Transaction, *, cause: str) -> list[CoordinatorAction]:
        """From now on the outcome is fixed. If there are no partitions, no markers are needed, and the transaction is
        complete at once."""
        ended = TransactionEnded(
            transactional_id=prepared.transactional_id,
            producer_id=prepared.producer_id,
            producer_epoch=prepared.producer_epoch,
            is_commit=prepared.state is TransactionState.PREPARE_COMMIT,
            cause=cause,
            partitions=prepared.partitions,
        )
        if not prepared.partitions:
            return [*self._write(prepared.completed(now_ms=self._now_ms)), Emit(effect=ended)]
        return [*self._write(prepared), Emit(effect=ended), Emit(effect=self._markers_of(prepared))]

    def _markers_of(self, transaction: Transaction) -> WriteMarkers:
        return WriteMarkers(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            is_commit=transaction.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._coordinator_epoch,
            transaction_version=transaction.client_transaction_version,
            partitions=transaction.partitions,
        )

    def _markers_written(self, event: MarkersWritten) -> list[CoordinatorAction]:
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            return []
        if (transaction.producer_id, transaction.producer_epoch) != (event.producer_id, event.producer_epoch):
            return []
        return self._write(transaction.completed(now_ms=self._now_ms))

    def _fence(self, transaction: Transaction, *, cause: str) -> list[CoordinatorAction]:
        return self._decide(transaction.fenced(now_ms=self._now_ms), cause=cause)

    # -- time --------------------------------------------------------------------------------------------------------

    def _abort_timed_out(self) -> list[CoordinatorAction]:
        actions: list[CoordinatorAction] = []
        while self._deadlines and self._deadlines[0][0] <= self._now_ms:
            deadline_ms, transactional_id = heapq.heappop(self._deadlines)
            if self._is_due_entry(deadline_ms, transactional_id):
                actions += self._fence(self._transactions[transactional_id], cause="timeout")
        return actions

    def _expire(self, now_ms: int) -> list[CoordinatorAction]:
        """Forgets ids that nobody has used for a long time. A producer that comes back gets
        INVALID_PRODUCER_ID_MAPPING."""
        if self._next_expiration_ms is None or now_ms < self._next_expiration_ms:
            return []
        limit_ms = self._now_ms - self._config.transactional_id_expiration_ms
        unused = [
            each.transactional_id
            for each in self._transactions.values()
            if each.is_idle and each.last_update_ms <= limit_ms
        ]
        is_all = len(unused) <= EXPIRED_AT_ONCE_MAX
        self._next_expiration_ms = now_ms + self._config.expiration_interval_ms if is_all else now_ms
        unused = unused[:EXPIRED_AT_ONCE_MAX]
        for transactional_id in unused:
            del self._transactions[transactional_id]
        return [self._append(tuple(records.tombstone(each) for each in unused))] if unused else []


def _producer_failed(token: int, error: ErrorCode) -> Reply:
    return Reply(token=token, response=ProducerResult(error_code=error))


def _producer_ready(token: int, transaction: Transaction) -> Reply:
    """The reply with the id and epoch with which the client continues."""
    has_next = transaction.next_producer_id != NO_PRODUCER_ID
    result = ProducerResult(
        error_code=ErrorCode.none,
        producer_id=transaction.next_producer_id if has_next else transaction.producer_id,
        producer_epoch=transaction.next_producer_epoch if has_next else transaction.producer_epoch,
    )
    return Reply(token=token, response=result)

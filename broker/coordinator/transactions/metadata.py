"""The state of one transactional id, and how it changes.

Owns: epochs. Every transition is a method that returns the next value. The shard refuses wrong transitions before it
calls a method. A Transaction is immutable, so the log and the memory contain the same value. Shown by
tests/broker_coordinator/test_coordinator_transactions.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    TopicPartition,
    TransactionState,
)

NO_TIME = -1
_COMPLETE = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}
_IDLE = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Times are wall-clock milliseconds, because they are used after a restart too.

    Invariants: partitions are empty unless ongoing or prepared; `next_*` are set only while prepared.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    last_update_ms: int
    start_ms: int = NO_TIME
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: int = NO_PRODUCER_ID  # the previous id, if all its epochs were used up
    next_producer_id: int = NO_PRODUCER_ID  # the id after the transaction is complete
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0
    # The epoch before a bump that the client requested with its own epoch. With it, a repeated request is answered and
    # not fenced (KIP-360). Kafka's format has no field for it, so after a fail-over such a client is fenced.
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def is_idle(self) -> bool:
        return self.state in _IDLE

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= PRODUCER_EPOCH_MAX

    @property
    def deadline_ms(self) -> int | None:
        """When an ongoing transaction is aborted because of its timeout."""
        return self.start_ms + self.timeout_ms if self.state is TransactionState.ONGOING else None

    def begun_by(self, now_ms: int) -> Transaction:
        """A new coordinator takes over the transaction. If the clock of the old coordinator was ahead, this must not
        delay the timeout."""
        return replace(self, start_ms=now_ms) if self.start_ms > now_ms else self

    def with_same_epoch(self, *, timeout_ms: int, now_ms: int) -> Transaction:
        """A producer was initialised that already has this epoch, or for which a fence has raised it."""
        return replace(
            self, timeout_ms=timeout_ms, state=TransactionState.EMPTY, start_ms=NO_TIME, last_update_ms=now_ms
        )

    def with_next_epoch(self, *, timeout_ms: int, last_producer_epoch: int, now_ms: int) -> Transaction:
        """A producer was initialised. From now on its predecessor is fenced."""
        return replace(
            self,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            last_update_ms=now_ms,
        )

    def with_next_producer_id(
        self, producer_id: int, *, timeout_ms: int, last_producer_epoch: int, now_ms: int
    ) -> Transaction:
        """A producer was initialised, and the epochs of the old id are used up."""
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=0,
            previous_producer_id=self.producer_id,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIME,
            last_update_ms=now_ms,
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], *, transaction_version: int, now_ms: int
    ) -> Transaction:
        is_ongoing = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if is_ongoing else now_ms,
            client_transaction_version=transaction_version,
            last_update_ms=now_ms,
        )

    def prepared(
        self, *, is_commit: bool, transaction_version: int, next_producer_id: int | None, now_ms: int
    ) -> Transaction:
        """The client ends the transaction. From version 2 on this raises the epoch. The last possible epoch is only for
        markers."""
        is_bumped = transaction_version >= EPOCH_BUMP_VERSION
        return replace(
            self,
            producer_epoch=self.producer_epoch + 1 if is_bumped else self.producer_epoch,
            last_producer_epoch=self.producer_epoch if is_bumped else self.last_producer_epoch,
            next_producer_id=NO_PRODUCER_ID if next_producer_id is None else next_producer_id,
            next_producer_epoch=NO_PRODUCER_EPOCH if next_producer_id is None else 0,
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            start_ms=now_ms if self.start_ms == NO_TIME else self.start_ms,
            client_transaction_version=transaction_version,
            last_update_ms=now_ms,
        )

    def fenced(self, *, now_ms: int) -> Transaction:
        """The coordinator itself ends the transaction, because it timed out or its producer has a successor. It is
        aborted, and the producer is fenced. A client that sends the previous epoch may initialise again and gets the
        new one (KIP-588)."""
        return replace(
            self,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            state=TransactionState.PREPARE_ABORT,
            last_update_ms=now_ms,
        )

    def completed(self, *, now_ms: int) -> Transaction:
        has_next = self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            producer_id=self.next_producer_id if has_next else self.producer_id,
            producer_epoch=self.next_producer_epoch if has_next else self.producer_epoch,
            previous_producer_id=self.producer_id if has_next else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            state=_COMPLETE[self.state],
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def check_invariants(self) -> None:
        has_partitions = self.state is TransactionState.ONGOING or self.state.is_prepared
        assert has_partitions or not self.partitions
        assert self.state.is_prepared or self.next_producer_id == NO_PRODUCER_ID
        assert 0 <= self.producer_epoch <= PRODUCER_EPOCH_MAX + 1
        # The epoch above the last one is only for the marker. After a fence it stays until it is replaced.
        assert self.state is not TransactionState.ONGOING or self.producer_epoch <= PRODUCER_EPOCH_MAX
        assert self.state is not TransactionState.ONGOING or self.start_ms != NO_TIME

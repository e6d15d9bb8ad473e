"""What the coordinator keeps of one transactional id, and how it changes.

Owns: epochs. Every transition is a method that returns the next value. The shard refuses a wrong transition before. A
Transaction is immutable, so the log and the memory hold the same value. Shown by
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
    """Times are wall-clock milliseconds: they outlive the broker.

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
    previous_producer_id: int = NO_PRODUCER_ID  # the id before, if all epochs of one id were used up
    next_producer_id: int = NO_PRODUCER_ID  # the id after the completion
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    client_transaction_version: int = 0
    # The epoch before a bump that the client asked for with its own epoch. A repeated request is then answered and not
    # fenced (KIP-360). Kafka's format has no place for it, so after a fail-over such a client is fenced.
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)

    @property
    def is_idle(self) -> bool:
        return self.state in _IDLE

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= PRODUCER_EPOCH_MAX

    @property
    def deadline_ms(self) -> int | None:
        """When an ongoing transaction is aborted."""
        return self.start_ms + self.timeout_ms if self.state is TransactionState.ONGOING else None

    def begun_by(self, now_ms: int) -> Transaction:
        """Its new coordinator takes it up. If the clock of the predecessor was ahead, this must not delay the
        timeout."""
        return replace(self, start_ms=now_ms) if self.start_ms > now_ms else self

    def with_same_epoch(self, *, timeout_ms: int, now_ms: int) -> Transaction:
        """Initialised by the producer that has this epoch already, or for which a fence made it."""
        return replace(
            self, timeout_ms=timeout_ms, state=TransactionState.EMPTY, start_ms=NO_TIME, last_update_ms=now_ms
        )

    def with_next_epoch(self, *, timeout_ms: int, last_producer_epoch: int, now_ms: int) -> Transaction:
        """A producer was initialised: its predecessor is fenced from now on."""
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
        """The epochs of the old id are used up."""
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
        """The client asked for the end. Since version 2 this raises the epoch. The last possible epoch is only for
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
        """We end a transaction ourselves, because it timed out or its producer has a successor: an abort that fences
        the producer. A client that names the epoch before may initialise again and gets the new one (KIP-588)."""
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
        # The epoch above the last one is only for the marker, and for the time after a fence until it is replaced.
        assert self.state is not TransactionState.ONGOING or self.producer_epoch <= PRODUCER_EPOCH_MAX
        assert self.state is not TransactionState.ONGOING or self.start_ms != NO_TIME

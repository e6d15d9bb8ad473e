"""The coordinator's rules: which producer may do what with a transactional id. They are functions of the transaction's
state.

Shown by tests/broker_coordinator/test_coordinator_transactions.py.
"""

from __future__ import annotations

from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    EndTransaction,
    InitProducer,
    TransactionState,
)
from broker.wire.errors import ErrorCode


def may_initialise(transaction: Transaction, event: InitProducer) -> bool:
    """A client that sends its id and epoch must have the latest ones, or repeat an earlier request (KIP-360). A client
    that sends none fences the others."""
    if event.producer_id == NO_PRODUCER_ID:
        return True
    is_previous = event.producer_id == transaction.previous_producer_id and event.producer_epoch >= PRODUCER_EPOCH_MAX
    if event.producer_id != transaction.producer_id and not is_previous:
        return False
    if event.producer_epoch == transaction.last_producer_epoch != NO_PRODUCER_EPOCH:
        return transaction.is_idle
    if transaction.state is TransactionState.ONGOING and event.producer_epoch > transaction.producer_epoch:
        # As in Kafka, this request only fences the transaction, and the client is checked when it asks again. A client
        # with an older epoch is a zombie, and must not abort the transaction of its successor.
        return True
    return not is_previous and event.producer_epoch == transaction.producer_epoch


def check_producer(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> ErrorCode:
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if transaction.producer_epoch != producer_epoch:
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if transaction.state.is_prepared else ErrorCode.none


def _is_repeated_bump(transaction: Transaction, event: EndTransaction) -> bool:
    """Whether this transaction was already ended (version 2): then the epoch is one above the client's, or 0 with a new
    id."""
    has_overflown = (
        transaction.previous_producer_id == event.producer_id
        and event.producer_epoch == PRODUCER_EPOCH_MAX
        and transaction.producer_epoch == 0
    )
    is_same_id = transaction.producer_id == event.producer_id
    return has_overflown or (is_same_id and transaction.producer_epoch == event.producer_epoch + 1)


def check_end(transaction: Transaction, event: EndTransaction) -> ErrorCode:
    """Whether the producer may end the transaction. `none` means: end it, or, if `is_ended`, give the same answer
    again.

    While markers are written, no producer is checked. The producer already has its next epoch. It may have begun and
    aborted the next transaction, and must not be fenced for this (KIP-890 part 2).
    """
    if transaction.state.is_prepared:
        return ErrorCode.concurrent_transactions
    state, is_repeated = transaction.state, _is_repeated_bump(transaction, event)
    if transaction.producer_id != event.producer_id and not is_repeated:
        return ErrorCode.invalid_producer_id_mapping
    is_current = transaction.producer_id == event.producer_id and transaction.producer_epoch == event.producer_epoch
    ended = {TransactionState.COMPLETE_COMMIT: True, TransactionState.COMPLETE_ABORT: False}
    if state is TransactionState.ONGOING:
        return ErrorCode.none if is_current else ErrorCode.producer_fenced
    if state in ended and is_repeated:
        return ErrorCode.none if ended[state] == event.is_commit else ErrorCode.invalid_txn_state
    if not is_current:
        return ErrorCode.producer_fenced
    # No partition was added. An abort still raises the epoch. To commit an empty transaction is an error of the client.
    return ErrorCode.invalid_txn_state if event.is_commit else ErrorCode.none


def check_legacy_end(transaction: Transaction, event: EndTransaction) -> ErrorCode:
    if transaction.producer_id != event.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if transaction.producer_epoch != event.producer_epoch:
        return ErrorCode.producer_fenced
    if transaction.state.is_prepared:
        return ErrorCode.concurrent_transactions
    if transaction.state is TransactionState.ONGOING:
        return ErrorCode.none
    return ErrorCode.none if is_ended(transaction, event) else ErrorCode.invalid_txn_state


def is_ended(transaction: Transaction, event: EndTransaction) -> bool:
    """Whether the transaction has already ended in the same way, so that the client asks again because the answer was
    lost."""
    wanted = TransactionState.COMPLETE_COMMIT if event.is_commit else TransactionState.COMPLETE_ABORT
    if transaction.state is not wanted:
        return False
    if event.transaction_version >= EPOCH_BUMP_VERSION:
        return _is_repeated_bump(transaction, event)
    return transaction.producer_epoch == event.producer_epoch

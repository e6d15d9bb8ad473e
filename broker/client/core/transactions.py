"""The state of a transactional producer (KIP-98, KIP-890): which call is allowed in which state, and what is still
possible after an error.

Owns: the table of states, the partitions of the ongoing transaction, the meaning of a coordinator's error. It does no
I/O: ../transactions.py makes the calls, and the sender core owns the batches.
Shown by tests/broker_client/test_client_transactions.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.wire.errors import ErrorCode, error_code

EPOCH_BUMP_VERSION = 2  # the level of the feature transaction.version


class TransactionState(Enum):
    UNINITIALISED = "uninitialised"
    READY = "ready"
    IN_TRANSACTION = "in a transaction"
    COMMITTING = "committing"  # the outcome may be decided already: only the same call again can tell
    ABORTING = "aborting"
    ABORTABLE = "in a failed transaction, which must be aborted"
    FATAL = "fenced, or failed for good"


_S = TransactionState
# state -> states that a call or an outcome may lead to
_TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.UNINITIALISED: frozenset({_S.READY, _S.FATAL}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.ABORTABLE, _S.FATAL}),
    _S.COMMITTING: frozenset({_S.READY, _S.ABORTABLE, _S.COMMITTING, _S.FATAL}),
    _S.ABORTING: frozenset({_S.READY, _S.ABORTING, _S.FATAL}),
    _S.ABORTABLE: frozenset({_S.ABORTING, _S.ABORTABLE, _S.FATAL}),
    _S.FATAL: frozenset({_S.FATAL}),
}
_FATAL = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.transactional_id_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.unsupported_version,
        ErrorCode.invalid_transaction_timeout,
    }
)
_FIND_AGAIN = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.network_exception})
_ASK_AGAIN = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.request_timed_out,
    }
)


class Reaction(Enum):
    """What the client does after a coordinator's error."""

    FIND_AGAIN = "find the coordinator again, then repeat"
    ASK_AGAIN = "repeat"
    ABORT = "abort the transaction"
    FAIL = "give up for good"


def reaction_to(code: int) -> Reaction:
    known = error_code(code)
    if known in _FIND_AGAIN:
        return Reaction.FIND_AGAIN
    if known in _ASK_AGAIN:
        return Reaction.ASK_AGAIN
    return Reaction.FAIL if known in _FATAL else Reaction.ABORT


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """The member whose offsets a transaction commits. The coordinator uses it to fence an old member. The defaults
    fence nobody."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class OffsetAndMetadata(NamedTuple):
    """What a group commits: the offset of the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TransactionCore:
    """Invariant: `partitions` and `groups` are empty unless a transaction is under way."""

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALISED
        self.producer_id = -1
        self.producer_epoch = -1
        self.version = 1  # transaction.version of the cluster
        # partitions of the ongoing transaction; with version 2 the first send adds a partition
        self.partitions: set[TopicPartition] = set()
        self.has_offsets = False
        self.error: KafkaError | None = None  # the reason for the state ABORTABLE or FATAL

    @property
    def is_bumping(self) -> bool:
        return self.version >= EPOCH_BUMP_VERSION

    @property
    def has_anything(self) -> bool:
        """Whether the coordinator may know a transaction. If not, there is no transaction to end."""
        return bool(self.partitions) or self.has_offsets

    def move(self, state: TransactionState, *, call: str) -> None:
        """Changes the state. Raises KafkaError if the call is not allowed in the present state."""
        if self.state is TransactionState.FATAL and self.error is not None:
            raise self.error
        if state not in _TRANSITIONS[self.state]:
            because = f" ({self.error})" if self.error is not None else ""
            raise wrong_state(f"{call}: the producer is {self.state.value}{because}")
        self.state = state

    def initialised(self, producer_id: int, producer_epoch: int, version: int) -> None:
        self.move(TransactionState.READY, call="init_transactions()")
        self.version = version
        self._begin_epoch(producer_id, producer_epoch)

    def begin(self) -> None:
        self.move(TransactionState.IN_TRANSACTION, call="begin_transaction()")

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        self.move(TransactionState.READY, call="the end of a transaction")
        self._begin_epoch(producer_id, producer_epoch)

    def _begin_epoch(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.partitions.clear()
        self.has_offsets = False
        self.error = None

    def fail(self, error: KafkaError) -> None:
        """Takes an error that a retry cannot repair. A fatal state stays fatal."""
        is_fatal = reaction_to(error.code) is Reaction.FAIL or self.state is TransactionState.FATAL
        can_abort = TransactionState.ABORTABLE in _TRANSITIONS[self.state]
        self.state = TransactionState.ABORTABLE if can_abort and not is_fatal else TransactionState.FATAL
        self.error = self.error or error

    def fail_by_record(self, error: KafkaError) -> None:
        """A record failed. If the reason is an old epoch, the transaction may have timed out. Then an abort repairs the
        state. If another producer has taken over the transactional id, the abort will fail and say so."""
        if error.code == ErrorCode.invalid_producer_epoch:
            error = KafkaError(ErrorCode.transaction_abortable, str(error), definite=error.definite)
        self.fail(error)

    def refusal_of_send(self) -> KafkaError | None:
        if self.state is TransactionState.IN_TRANSACTION:
            return None
        if self.error is not None:
            return self.error
        return wrong_state(f"send(): the producer is {self.state.value}; call begin_transaction() first")


def wrong_state(message: str) -> KafkaError:
    return KafkaError(-1, message, name="LOCAL_STATE")

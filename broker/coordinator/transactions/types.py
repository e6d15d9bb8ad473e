"""The vocabulary of the transaction coordinator. Values only.

A `TransactionVersion` is that of the feature transaction.version: 1 ends a transaction with the epoch that it had, 2
bumps the epoch with every end (KIP-890 part 2). It comes from the version of the client's request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from broker.wire.errors import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
# The last epoch that a producer may use. One more exists only for the marker that ends its last transaction.
PRODUCER_EPOCH_MAX = 2**15 - 2
LEGACY_VERSION = 1
EPOCH_BUMP_VERSION = 2


class TransactionState(IntEnum):
    """Numbers as in `__transaction_state`."""

    EMPTY = 0  # an epoch was given out, no transaction yet
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided: markers are on their way
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # all markers are written
    COMPLETE_ABORT = 5
    DEAD = 6  # expired; Kafka keeps this state between decision and tombstone. Here the tombstone is the decision
    PREPARE_EPOCH_FENCE = 7  # as above

    @property
    def label(self) -> str:
        """As ListTransactions and DescribeTransactions say it, e.g. PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


# -- events


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId of a transactional id. `producer_id` and epoch: those the client has, -1 if none (KIP-360)."""

    token: int
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """AddPartitionsToTxn, or AddOffsetsToTxn with the partition of the group."""

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    transaction_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """A partition leader asks whether these belong to the ongoing transaction (KIP-890 part 1)."""

    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    token: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    token: int
    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkersWritten:
    """Every partition of this decided transaction has its marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChanged:
    """The level of the feature transaction.version: first what it is, then each change."""

    level: int


# -- results


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerResult:
    """Of InitProducer and EndTransaction."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsProducerId:
    """Ask again with a `fresh_producer_id`; nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsResult:
    """`error_code` is that of every partition, except for those of a verification in `errors`."""

    error_code: ErrorCode
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.errors.get(partition, self.error_code)


# -- effects


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """Send WriteTxnMarkers until every partition has its marker or is deleted; then submit MarkersWritten."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """For the journal: what was decided, and by whom (`client`, `timeout`, `fenced`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    cause: str
    partitions: frozenset[TopicPartition]

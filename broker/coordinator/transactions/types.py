"""The states, events, results and effects of the transaction coordinator, as values.

A `TransactionVersion` is the version of the feature transaction.version. Version 1 ends a transaction with the epoch
that it had. Version 2 bumps the epoch at every end (KIP-890 part 2). It follows from the version of the client's
request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from broker.wire.errors import ErrorCode

TopicPartition: TypeAlias = tuple[str, int]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
# The last epoch that a producer may use. The epoch above it exists only for the marker that ends the last transaction.
PRODUCER_EPOCH_MAX = 2**15 - 2
LEGACY_VERSION = 1
EPOCH_BUMP_VERSION = 2


class TransactionState(IntEnum):
    """The numbers are those of `__transaction_state`."""

    EMPTY = 0  # a producer got an epoch, but there is no transaction yet
    ONGOING = 1
    PREPARE_COMMIT = 2  # decided: markers are being sent
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # all markers are written
    COMPLETE_ABORT = 5
    DEAD = 6  # expired; Kafka has this state between decision and tombstone. Here the tombstone is the decision
    PREPARE_EPOCH_FENCE = 7  # as above

    @property
    def label(self) -> str:
        """The name in ListTransactions and DescribeTransactions, e.g. PrepareCommit."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)


# -- events


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """InitProducerId of a transactional id. `producer_id` and `producer_epoch` are those that the client has, -1 if it
    has none (KIP-360)."""

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
    """A partition leader asks whether these partitions belong to the ongoing transaction (KIP-890 part 1)."""

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
    """The level of the feature transaction.version. The shard is told the first level and then each change."""

    level: int


# -- results


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerResult:
    """The result of InitProducer and EndTransaction."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class NeedsProducerId:
    """The caller must ask again with a `fresh_producer_id`. Nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsResult:
    """`error_code` holds for every partition. In a verification, the partitions in `errors` have their own error."""

    error_code: ErrorCode
    errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> ErrorCode:
        return self.errors.get(partition, self.error_code)


# -- effects


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkers:
    """Send WriteTxnMarkers until every partition has its marker or is deleted. Then submit MarkersWritten."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """For the journal: the decision, and its cause (`client`, `timeout`, `fenced`)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    cause: str
    partitions: frozenset[TopicPartition]

"""Idempotence: the producer's id and epoch, and the sequence numbers of every partition (KIP-98, KIP-360).

Owns: which batch may be sent without making the broker see a gap, and when a new epoch is needed. Not the retries.
Rules:
- A retried batch goes only when it is the lowest one without an outcome.
- After a failure that left a gap of unknown fate ("hole") nothing new is numbered until a later batch was accepted or
  the epoch was bumped. After a bump a partition is renumbered from 0, and only while nothing of it is on the wire.
- At most four batches are numbered beyond the lowest one without an outcome, since a broker recognises only the last
  five. A batch could otherwise hang on a paused leader while many more pass through the next one; its retry would look
  like a gap and be appended again.
- A gap below the lowest batch is a reason for a new epoch only if every answer to that batch has come. An earlier
  sending without one may still lie in a connection that the client has given up, behind the batches that fill the gap:
  under a new epoch its records would be written twice. It ends with an unknown outcome instead (Kafka's producer sends
  it again).
Invariant: `unfinished` is sorted by base sequence and holds exactly the numbered batches without an outcome.
"""

from __future__ import annotations

from enum import Enum

from broker.client.core.batch import SEQUENCE_MODULUS, Batch, TopicPartition
from broker.client.core.config import IDEMPOTENT_IN_FLIGHT_MAX

EPOCH_MAX = 2**15 - 1
NO_PRODUCER_ID = -1


class IdentityState(Enum):
    MISSING = "missing"
    ASKED = "asked"
    READY = "ready"


class PartitionSequences:
    __slots__ = (
        "has_hole",
        "is_reset_wanted",
        "next_sequence",
        "numbered_total",
        "ordinals",
        "producer_epoch",
        "producer_id",
        "unfinished",
    )

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.next_sequence = 0
        self.unfinished: list[Batch] = []
        self.ordinals: list[int] = []  # parallel to `unfinished`: the number of the batch within this epoch
        self.numbered_total = 0
        self.has_hole = False
        self.is_reset_wanted = False

    def is_window_open(self) -> bool:
        """Whether, after one more batch, the lowest unfinished one is still among the five that a broker remembers."""
        return not self.ordinals or self.numbered_total - self.ordinals[0] < IDEMPOTENT_IN_FLIGHT_MAX

    def add(self, batch: Batch) -> None:
        self.unfinished.append(batch)
        self.ordinals.append(self.numbered_total)
        self.numbered_total += 1

    def remove(self, batch: Batch) -> None:
        position = self.unfinished.index(batch)
        del self.unfinished[position], self.ordinals[position]


class Sequences:
    """With `is_transactional`, epochs come only from the coordinator. An error that would raise an epoch fails the
    transaction."""

    def __init__(self, *, is_transactional: bool = False) -> None:
        self.is_transactional = is_transactional
        self.state = IdentityState.MISSING
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.partitions: dict[TopicPartition, PartitionSequences] = {}

    def on_identity(self, producer_id: int, producer_epoch: int) -> None:
        self.state = IdentityState.READY
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def may_send(self, batch: Batch, on_wire_count: int) -> bool:
        """Whether this batch, the first of its queue, may go now. Renumbers the partition first if that is due."""
        if self.state is not IdentityState.READY:
            return False
        sequences = self.partitions.get(batch.partition)
        if sequences is None:
            sequences = PartitionSequences(self.producer_id, self.producer_epoch)
            self.partitions[batch.partition] = sequences
        if sequences.is_reset_wanted:
            if on_wire_count:
                return False
            self._renumber(sequences)
        if batch.has_sequence:
            return sequences.unfinished[0] is batch
        if not self._is_current(sequences):
            if sequences.unfinished:
                return False  # they end under the epoch in which they were numbered
            self._renumber(sequences)
        return not sequences.has_hole and sequences.is_window_open()

    def number(self, batch: Batch) -> None:
        """Give a batch its sequence; one that is sent again keeps the one it has."""
        if batch.has_sequence:
            return
        sequences = self.partitions[batch.partition]
        self._assign(sequences, batch)
        sequences.add(batch)

    def on_acknowledged(self, batch: Batch) -> None:
        if not batch.has_sequence:
            return
        sequences = self.partitions[batch.partition]
        sequences.remove(batch)
        # The broker accepts batches only in order. If it accepted one after the hole, the hole was appended.
        sequences.has_hole = False

    def on_failed(self, batch: Batch) -> None:
        """The batch ends without an acknowledgement. Later ones may depend on its place in the sequence."""
        if not batch.has_sequence:
            return
        sequences = self.partitions[batch.partition]
        is_last = sequences.unfinished[-1] is batch
        sequences.remove(batch)
        if is_last and not batch.is_maybe_written and not sequences.has_hole:
            sequences.next_sequence = batch.base_sequence  # nobody saw these numbers
            return
        sequences.has_hole = True
        if not sequences.unfinished:
            self._want_reset(sequences)

    def is_lowest(self, batch: Batch) -> bool:
        return batch.has_sequence and self.partitions[batch.partition].unfinished[0] is batch

    def on_out_of_order(self, batch: Batch) -> None:
        """OUT_OF_ORDER_SEQUENCE_NUMBER: for the lowest batch a real gap, for a later one a reason to wait."""
        if self.is_lowest(batch):
            self._want_reset(self.partitions[batch.partition])

    def on_identity_refused(self, batch: Batch) -> None:
        """UNKNOWN_PRODUCER_ID or INVALID_PRODUCER_EPOCH: the broker does not go on with this id and epoch."""
        self._want_reset(self.partitions[batch.partition])

    def _want_reset(self, sequences: PartitionSequences) -> None:
        if sequences.is_reset_wanted:
            return
        sequences.is_reset_wanted = True
        if self._is_current(sequences):
            self._bump()

    def _bump(self) -> None:
        if self.is_transactional:
            return
        if self.producer_epoch < EPOCH_MAX:
            self.producer_epoch += 1
        else:
            self.state = IdentityState.MISSING

    def _is_current(self, sequences: PartitionSequences) -> bool:
        return (sequences.producer_id, sequences.producer_epoch) == (self.producer_id, self.producer_epoch)

    def _renumber(self, sequences: PartitionSequences) -> None:
        sequences.producer_id, sequences.producer_epoch = self.producer_id, self.producer_epoch
        sequences.next_sequence = 0
        sequences.has_hole = sequences.is_reset_wanted = False
        sequences.numbered_total = len(sequences.unfinished)
        sequences.ordinals = list(range(sequences.numbered_total))
        for batch in sequences.unfinished:
            self._assign(sequences, batch)

    def _assign(self, sequences: PartitionSequences, batch: Batch) -> None:
        batch.producer_id, batch.producer_epoch = sequences.producer_id, sequences.producer_epoch
        batch.base_sequence = sequences.next_sequence
        batch.is_transactional = self.is_transactional
        batch.encoded = None  # the numbers are in the header, under the CRC
        sequences.next_sequence = (sequences.next_sequence + batch.record_count) % SEQUENCE_MODULUS

    def check_invariants(self) -> None:
        for sequences in self.partitions.values():
            numbers = [batch.base_sequence for batch in sequences.unfinished]
            distances = [(number - numbers[0]) % SEQUENCE_MODULUS for number in numbers]
            assert len(sequences.ordinals) == len(numbers)
            assert distances == sorted(set(distances))
            assert all(batch.outcome is None for batch in sequences.unfinished)

"""Idempotence: the producer's id and epoch, and the sequence numbers of every partition (KIP-98, KIP-360).

Owns: which batch may be sent so that the broker sees no gap, and when a new epoch is needed. It does not own the
retries. The rules are:

- A retried batch is sent only when it is the lowest batch without an outcome.
- A batch may fail while nobody knows whether the broker appended it. This leaves a "hole" in the sequence. No new batch
  is numbered until a later batch is accepted or the epoch is bumped. After a bump a partition is renumbered from 0, and
  only while none of its batches is on the wire.
- At most four batches are numbered beyond the lowest one without an outcome, since a broker recognises only the last
  five. Otherwise one batch could wait at a paused leader while many later ones are appended by the next leader. The
  retry of that batch would then look like a gap, and it would be appended again.
- A gap below the lowest batch is a reason for a new epoch only if every attempt of that batch has got its answer. An
  attempt without an answer may still wait in a connection that the client has given up, behind the batches that fill
  the gap. With a new epoch the records of this batch would then be written twice. So the batch ends with an unknown
  outcome instead (Kafka's producer sends it again).

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
        """Whether the broker would still remember the lowest unfinished batch after one more batch. It remembers the
        last five."""
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
        """Whether this batch, the first of its queue, may be sent now. Renumbers the partition first if that is due."""
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
                return False  # the unfinished batches end under the epoch in which they were numbered
            self._renumber(sequences)
        return not sequences.has_hole and sequences.is_window_open()

    def number(self, batch: Batch) -> None:
        """Gives a batch its sequence. A batch that is sent again keeps its sequence."""
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
        # The broker accepts batches only in order. If it accepted a batch after the hole, it had appended the batch of
        # the hole.
        sequences.has_hole = False

    def on_failed(self, batch: Batch) -> None:
        """The batch ends without an acknowledgement. Later batches may depend on its place in the sequence."""
        if not batch.has_sequence:
            return
        sequences = self.partitions[batch.partition]
        is_last = sequences.unfinished[-1] is batch
        sequences.remove(batch)
        if is_last and not batch.is_maybe_written and not sequences.has_hole:
            sequences.next_sequence = batch.base_sequence  # no broker has seen these numbers
            return
        sequences.has_hole = True
        if not sequences.unfinished:
            self._want_reset(sequences)

    def is_lowest(self, batch: Batch) -> bool:
        return batch.has_sequence and self.partitions[batch.partition].unfinished[0] is batch

    def on_out_of_order(self, batch: Batch) -> None:
        """The answer is OUT_OF_ORDER_SEQUENCE_NUMBER. For the lowest batch this means a real gap. A later batch only
        has to wait."""
        if self.is_lowest(batch):
            self._want_reset(self.partitions[batch.partition])

    def on_identity_refused(self, batch: Batch) -> None:
        """The answer is UNKNOWN_PRODUCER_ID or INVALID_PRODUCER_EPOCH: the broker does not accept this id and epoch any
        more."""
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
        batch.encoded = None  # the header contains the numbers, and the CRC covers them
        sequences.next_sequence = (sequences.next_sequence + batch.record_count) % SEQUENCE_MODULUS

    def check_invariants(self) -> None:
        for sequences in self.partitions.values():
            numbers = [batch.base_sequence for batch in sequences.unfinished]
            distances = [(number - numbers[0]) % SEQUENCE_MODULUS for number in numbers]
            assert len(sequences.ordinals) == len(numbers)
            assert distances == sorted(set(distances))
            assert all(batch.outcome is None for batch in sequences.unfinished)

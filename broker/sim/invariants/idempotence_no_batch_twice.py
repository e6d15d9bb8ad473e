from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen


class IdempotenceNoBatchTwice(Invariant):
    """A batch of an idempotent producer is committed once."""

    NAME = "idempotence: no batch twice"
    GROUP = Group.REPLICATION

    def check(self, where: str, batch: BatchSeen, *, known: tuple[int, int] | None, expected: int) -> bool:
        """`known` is the epoch and the last sequence of the producer that are committed.

        Returns whether the invariant holds.
        """
        is_old = known is not None and batch.producer_epoch < known[0]
        if not is_old and batch.base_sequence >= expected:
            return True
        self.violated(
            f"{where} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
            f"sequence {batch.base_sequence}, the last committed was {known}"
        )
        return False

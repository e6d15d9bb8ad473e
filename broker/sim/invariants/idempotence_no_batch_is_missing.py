from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth


class IdempotenceNoBatchIsMissing(Invariant):
    """The batches of an idempotent producer are committed without a gap, unless an unclean election caused one."""

    NAME = "idempotence: no batch is missing"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, batch: BatchSeen, *, expected: int) -> None:
        if batch.base_sequence > expected and truth.unclean_epoch < 0:
            self.violated(
                f"{where} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
                f"sequence {batch.base_sequence}, expected {expected}"
            )

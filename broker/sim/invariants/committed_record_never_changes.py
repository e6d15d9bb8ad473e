from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth, holds


class CommittedRecordNeverChanges(Invariant):
    """When a leader commits more, its log has the same batches below as those that were committed before."""

    NAME = "a committed record never changes"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int, *, log: list[BatchSeen]) -> bool:
        """Returns whether the invariant holds."""
        if holds(log, truth.committed):
            return True
        self.violated(
            f"broker {node_id} leads {where} in epoch {epoch} with another batch "
            f"at offset {truth.committed[-1].base_offset}"
        )
        return False

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth, holds


class CommittedRecordIsNeverLost(Invariant):
    """A leader has all records that were committed in its epoch and before, except those lost by an unclean
    election."""

    NAME = "a committed record is never lost"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int, *, log: list[BatchSeen]) -> None:
        if epoch > truth.unclean_epoch and not holds(log, truth.committed_until(epoch)):
            self.violated(
                f"broker {node_id} leads {where} in epoch {epoch} with a log up to "
                f"{log[-1].last_offset + 1 if log else 0}, committed was up to {truth.end_offset}"
            )

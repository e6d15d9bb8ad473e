from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth


class LogMatching(Invariant):
    """If two replicas have a batch with the same offset and leader epoch, their logs are equal up to it (KIP-101)."""

    NAME = "log matching"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, node_id: int, where: str, batch: BatchSeen, *, previous_epoch: int) -> None:
        seen = (batch, previous_epoch)
        known = truth.chain.setdefault((batch.base_offset, batch.epoch), seen)
        if known != seen:
            self.violated(
                f"broker {node_id} {where}: offset {batch.base_offset} of leader epoch {batch.epoch} is "
                f"{batch} after epoch {previous_epoch}, elsewhere {known[0]} after epoch {known[1]}"
            )

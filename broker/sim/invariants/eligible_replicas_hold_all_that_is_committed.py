from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth, holds


class EligibleReplicasHoldAllThatIsCommitted(Invariant):
    """Each live eligible leader replica holds all that is committed, because it may be elected (KIP-966)."""

    NAME = "eligible replicas hold all that is committed"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, member: int, elr: tuple[int, ...], *, log: list[BatchSeen]) -> None:
        if not holds(log, truth.committed):
            self.violated(
                f"{where}: committed up to {truth.end_offset}, broker {member} of the ELR {list(elr)} ends earlier"
            )

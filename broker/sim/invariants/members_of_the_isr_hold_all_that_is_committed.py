from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth, holds


class MembersOfTheIsrHoldAllThatIsCommitted(Invariant):
    """Each live member of the ISR holds all that is committed, because it may be elected."""

    NAME = "members of the ISR hold all that is committed"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, member: int, isr: tuple[int, ...], *, log: list[BatchSeen]) -> None:
        if not holds(log, truth.committed):
            self.violated(f"{where}: broker {member} in {isr} has not all up to {truth.end_offset}")

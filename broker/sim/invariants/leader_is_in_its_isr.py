from __future__ import annotations

from broker.controller.image import NO_LEADER, PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class LeaderIsInItsIsr(Invariant):
    """The controller names no leader that is not in the ISR."""

    NAME = "the leader is in its ISR"
    GROUP = Group.QUORUM

    def check(self, where: str, now: PartitionState) -> None:
        if now.leader != NO_LEADER and now.leader not in now.isr:
            self.violated(f"{where}: leader {now.leader}, ISR {now.isr}")

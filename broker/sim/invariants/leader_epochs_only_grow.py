from __future__ import annotations

from broker.controller.image import PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class LeaderEpochsOnlyGrow(Invariant):
    """The controller never gives a partition an older leader epoch."""

    NAME = "leader epochs only grow"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        if now.leader_epoch < was.leader_epoch:
            self.violated(f"{where}: {was.leader_epoch} to {now.leader_epoch}")

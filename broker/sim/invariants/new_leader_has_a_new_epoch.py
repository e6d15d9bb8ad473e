from __future__ import annotations

from broker.controller.image import NO_LEADER, PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class NewLeaderHasANewEpoch(Invariant):
    """When the controller changes the leader of a partition, it raises the leader epoch."""

    NAME = "a new leader has a new epoch"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        if now.leader not in (NO_LEADER, was.leader) and now.leader_epoch == was.leader_epoch:
            self.violated(f"{where}: {was.leader} to {now.leader}")

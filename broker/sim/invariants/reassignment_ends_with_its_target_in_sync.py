from __future__ import annotations

from broker.controller.image import PartitionState
from broker.sim.invariants.invariant import Group, Invariant


class ReassignmentEndsWithItsTargetInSync(Invariant):
    """Replicas leave a partition only with a new leader epoch, and only if all that stay are in the ISR or the
    reassignment is cancelled.
    """

    NAME = "a reassignment ends with its target in sync"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        left = set(was.replicas) - set(now.replicas)
        if not left:
            return
        if now.leader_epoch <= was.leader_epoch:
            self.violated(f"{where}: {sorted(left)} left within leader epoch {was.leader_epoch}")
        is_cancelled = was.is_reassigning and left == set(was.adding)
        if not is_cancelled and not set(now.replicas) <= set(now.isr):
            self.violated(f"{where}: {sorted(left)} left, of {now.replicas} only {now.isr} are in sync; before: {was}")

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import Truth


class OneLeaderPerEpoch(Invariant):
    """A leader epoch of a partition has at most one leader."""

    NAME = "one leader per epoch"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int) -> None:
        known = truth.leaders.setdefault(epoch, node_id)
        if known != node_id:
            self.violated(f"{where}: brokers {known} and {node_id} in epoch {epoch}")

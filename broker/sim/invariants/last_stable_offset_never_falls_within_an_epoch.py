from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import Watched


class LastStableOffsetNeverFallsWithinAnEpoch(Invariant):
    """The last stable offset of a leader does not fall within a leader epoch."""

    NAME = "the last stable offset never falls within an epoch"
    GROUP = Group.TRANSACTIONS

    def check(self, node_id: int, where: str, before: Watched, now: Watched) -> None:
        """Both states are of the same leader epoch."""
        if before.is_leader == now.is_leader and now.last_stable_offset < before.last_stable_offset:
            self.violated(
                f"broker {node_id} {where} epoch {now.leader_epoch}: "
                f"{before.last_stable_offset} to {now.last_stable_offset}"
            )

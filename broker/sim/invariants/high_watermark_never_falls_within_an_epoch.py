from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import Watched


class HighWatermarkNeverFallsWithinAnEpoch(Invariant):
    """The high watermark of a replica does not fall within a leader epoch, except after an unclean election."""

    NAME = "the high watermark never falls within an epoch"
    GROUP = Group.REPLICATION

    def check(self, node_id: int, where: str, before: Watched, now: Watched) -> None:
        """Both states are of the same leader epoch."""
        if before.is_leader == now.is_leader and now.high_watermark < before.high_watermark:
            self.violated(
                f"broker {node_id} {where} epoch {now.leader_epoch}: {before.high_watermark} to {now.high_watermark}"
            )

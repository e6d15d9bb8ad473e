from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class QuorumHighWatermarkNeverFalls(Invariant):
    """The high watermark of the metadata log does not fall within the life of a node."""

    NAME = "quorum high watermark never falls"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, before: int, now: int) -> None:
        if now < before:
            self.violated(f"node {node_id}: {before} to {now}")

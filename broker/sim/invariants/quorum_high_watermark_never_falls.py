from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class QuorumHighWatermarkNeverFalls(Invariant):
    """The high watermark of the metadata log does not fall while the process of a node runs."""

    NAME = "quorum high watermark never falls"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, before: int, now: int) -> None:
        if now < before:
            self.violated(f"node {node_id}: {before} to {now}")

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class SnapshotHoldsCommittedEntriesOnly(Invariant):
    """No node puts an entry of the metadata log into a snapshot before it is committed."""

    NAME = "a snapshot holds committed entries only"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, dropped: int, committed: int) -> None:
        """`dropped` is the end offset of what the snapshot stands for, `committed` that of what is committed."""
        if dropped > committed:
            self.violated(f"node {node_id} has dropped the log up to {dropped}, it is committed up to {committed}")

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class SnapshotHoldsCommittedEntriesOnly(Invariant):
    """No node puts an entry of the metadata log into a snapshot before it is committed."""

    NAME = "a snapshot holds committed entries only"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, dropped: int, committed: int) -> None:
        """The offset up to which the node's snapshot stands for the log, and up to which the log is committed."""
        if dropped > committed:
            self.violated(f"node {node_id} has dropped the log up to {dropped}, it is committed up to {committed}")

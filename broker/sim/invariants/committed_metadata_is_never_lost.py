from __future__ import annotations

from collections.abc import Sequence

from broker.quorum.types import LogEntry
from broker.sim.invariants.invariant import Group, Invariant


class CommittedMetadataIsNeverLost(Invariant):
    """A node that begins to lead an epoch of the quorum has all entries that earlier epochs committed."""

    NAME = "committed metadata is never lost"
    GROUP = Group.QUORUM

    def check(self, node_id: int, epoch: int, *, log: Sequence[LogEntry], committed: Sequence[LogEntry]) -> None:
        if log[: len(committed)] != committed:
            self.violated(f"node {node_id} leads epoch {epoch} without all {len(committed)} entries committed before")

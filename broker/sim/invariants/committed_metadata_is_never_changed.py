from __future__ import annotations

from collections.abc import Sequence

from broker.quorum.types import LogEntry
from broker.sim.invariants.invariant import Group, Invariant


class CommittedMetadataIsNeverChanged(Invariant):
    """If two nodes know the same offset as committed, they have the same entry there."""

    NAME = "committed metadata is never changed"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, known: int, log: Sequence[LogEntry], committed: Sequence[LogEntry]) -> None:
        """`known`: how many entries of its log the node knows as committed."""
        known = min(known, len(committed))
        if known and log[known - 1] != committed[known - 1]:
            self.violated(f"node {node_id} has committed another entry at offset {log[known - 1].offset}")

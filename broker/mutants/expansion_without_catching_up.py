"""A replica joins the ISR with its first fetch, however far behind it is."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, PartitionReplica


def _maybe_expand(self: PartitionReplica, replica_id: int) -> list[Action]:
    if self.is_proposal_in_flight or not self._is_eligible(replica_id):
        return []
    return [self._propose((*self.isr, replica_id))]


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "_maybe_expand", _maybe_expand)

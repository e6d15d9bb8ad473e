"""A replica joins the ISR with its first fetch, however far behind it is."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action
from broker.replication.roles import Leader


def _maybe_expand(self: Leader, replica_id: int) -> list[Action]:
    if self.proposal.is_open or not self._is_eligible(replica_id):
        return []
    return [self._propose((*self._replica.isr, replica_id))]


def apply(patch: Patch) -> None:
    patch.set(Leader, "_maybe_expand", _maybe_expand)

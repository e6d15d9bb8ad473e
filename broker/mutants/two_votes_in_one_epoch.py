"""A voter grants its vote to everybody who asks."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.core import Quorum
from broker.quorum.types import VoteRequest


def _grants_vote(self: Quorum, request: VoteRequest) -> bool:
    if not self._is_up_to_date(request) or self.is_leader:
        return False
    self._become_unattached(self._election_deadline_ms(), voted_id=request.candidate_id)
    return True


def apply(patch: Patch) -> None:
    patch.set(Quorum, "_grants_vote", _grants_vote)

"""A voter grants its vote to everybody who asks."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum import core
from broker.quorum.core import Quorum
from broker.quorum.roles import Move
from broker.quorum.transitions import TRANSITIONS, RoleName, Trigger
from broker.quorum.types import VoteRequest


def _grants_vote(self: Quorum, request: VoteRequest) -> bool:
    if not self._voter.is_up_to_date(request) or self.is_leader:
        return False
    deadline_ms = self._voter.draw_election_deadline_ms()
    self._move(Move(trigger=Trigger.VOTE_GRANTED, voted_id=request.candidate_id, deadline_ms=deadline_ms))
    return True


def apply(patch: Patch) -> None:
    patch.set(Quorum, "_grants_vote", _grants_vote)
    wrong = {(role, Trigger.VOTE_GRANTED): RoleName.UNATTACHED for role in (RoleName.CANDIDATE, RoleName.FOLLOWER)}
    patch.set(core, "TRANSITIONS", {**TRANSITIONS, **wrong})

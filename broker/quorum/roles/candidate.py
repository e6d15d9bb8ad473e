"""A voter that has raised the epoch and asks for votes (Raft, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from broker.quorum.channels import Channel
from broker.quorum.roles.role import Move, Role, observed
from broker.quorum.roles.votes import is_majority, vote_request
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.types import Response, VoteRequest, VoteResponse
from broker.quorum.voter import Voter


@dataclass(slots=True, kw_only=True)
class Candidate(Role):
    """It has raised the epoch, has voted for itself, and asks the others for their votes (Raft, section 5.2).

    A peer that refused is not asked again, because it has only one vote in an epoch.
    """

    NAME: ClassVar = RoleName.CANDIDATE
    gives_up_at_ms: int
    granted: set[int]
    rejected: set[int] = field(default_factory=set)

    def entered(self, voter: Voter) -> Move | None:
        return self._count(voter)  # in a quorum of one, its own vote is the majority

    def election_deadline_ms(self) -> int:
        return self.gives_up_at_ms

    def expired(self, voter: Voter) -> Move:
        return Move(trigger=Trigger.ELECTION_TIMEOUT)

    def request_due_ms(self, voter: Voter, peer_id: int, not_before_ms: int) -> int | None:
        return not_before_ms if peer_id not in self.granted | self.rejected else None

    def request(self, voter: Voter) -> VoteRequest:
        return vote_request(voter, pre_vote=False)

    def answered(self, voter: Voter, peer_id: int, response: Response, channel: Channel) -> Move | None:
        if not isinstance(response, VoteResponse):
            return None
        if response.vote_granted:
            self.granted.add(peer_id)
            return self._count(voter)
        self.rejected.add(peer_id)
        return observed(self, voter, response.leader_epoch, response.leader_id)

    def _count(self, voter: Voter) -> Move | None:
        if not is_majority(self.granted, voter):
            return None
        return Move(trigger=Trigger.VOTES_WON, leader_id=voter.node_id)

    def check_invariants(self, voter: Voter) -> None:
        assert voter.voted_id == voter.node_id
        assert not self.granted & self.rejected

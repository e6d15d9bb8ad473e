"""A voter that asks who would vote for it, before it stands for election (pre-vote, KIP-996)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.channels import Channel
from broker.quorum.roles.role import Move, Role, observed
from broker.quorum.roles.votes import is_majority, vote_request
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.types import NO_NODE, Response, VoteRequest, VoteResponse
from broker.quorum.voter import Voter


@dataclass(slots=True, kw_only=True)
class Prospective(Role):
    """It asks who would vote for it, and does not raise the epoch. So a voter that cannot win an election does not
    disturb the others (pre-vote, KIP-996).
    """

    NAME: ClassVar = RoleName.PROSPECTIVE
    gives_up_at_ms: int
    granted: set[int]

    def entered(self, voter: Voter) -> Move | None:
        return self._count(voter)  # in a quorum of one, its own vote is the majority

    def election_deadline_ms(self) -> int:
        return self.gives_up_at_ms

    def expired(self, voter: Voter) -> Move:
        if voter.leader_id != NO_NODE:
            # No majority would vote for us. Perhaps the leader is alive and only our connection to it was bad. So fetch
            # from it again.
            return Move(trigger=Trigger.LEADER_RETRIED, leader_id=voter.leader_id)
        return Move(trigger=Trigger.ELECTION_TIMEOUT)

    def request_due_ms(self, voter: Voter, peer_id: int, not_before_ms: int) -> int | None:
        return not_before_ms if peer_id not in self.granted else None

    def request(self, voter: Voter) -> VoteRequest:
        return vote_request(voter, pre_vote=True)

    def answered(self, voter: Voter, peer_id: int, response: Response, channel: Channel) -> Move | None:
        if not isinstance(response, VoteResponse):
            return None
        if response.vote_granted:
            self.granted.add(peer_id)
            return self._count(voter)
        # A peer refuses a pre-vote while it still hears from the leader. A moment later it may answer differently.
        channel.not_before_ms = voter.now_ms + max(1, voter.config.election_timeout_ms // 4)
        return observed(self, voter, response.leader_epoch, response.leader_id)

    def _count(self, voter: Voter) -> Move | None:
        if not is_majority(self.granted, voter):
            return None
        return Move(trigger=Trigger.PRE_VOTES_WON, epoch=voter.epoch + 1, voted_id=voter.node_id)

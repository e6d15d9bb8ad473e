"""What the two rounds of an election share: the request for a vote, and when the votes are enough."""

from __future__ import annotations

from collections.abc import Set

from broker.quorum.types import VoteRequest
from broker.quorum.voter import Voter


def vote_request(voter: Voter, *, pre_vote: bool) -> VoteRequest:
    return VoteRequest(
        candidate_id=voter.node_id,
        candidate_epoch=voter.epoch,
        last_epoch=voter.log.last_epoch,
        last_offset=voter.log.end_offset,
        pre_vote=pre_vote,
    )


def is_majority(granted: Set[int], voter: Voter) -> bool:
    return len(granted) > len(voter.config.voters) // 2

"""Creates the object of a voter's next role. `broker.quorum.transitions` says which role that is."""

from __future__ import annotations

from broker.quorum.roles.candidate import Candidate
from broker.quorum.roles.follower import Follower
from broker.quorum.roles.leader import Leader, VoterProgress
from broker.quorum.roles.prospective import Prospective
from broker.quorum.roles.resigned import Resigned
from broker.quorum.roles.role import Move, Role
from broker.quorum.roles.unattached import Unattached
from broker.quorum.transitions import RoleName
from broker.quorum.voter import Voter


def role_after(name: RoleName, previous: Role, move: Move, voter: Voter) -> Role:
    """The new role. Its time limits begin now."""
    match name:
        case RoleName.UNATTACHED:
            assert move.deadline_ms is not None
            return Unattached(stands_at_ms=move.deadline_ms)
        case RoleName.PROSPECTIVE:
            return Prospective(gives_up_at_ms=voter.draw_election_deadline_ms(), granted={voter.node_id})
        case RoleName.CANDIDATE:
            return Candidate(gives_up_at_ms=voter.draw_election_deadline_ms(), granted={voter.node_id})
        case RoleName.FOLLOWER:
            return Follower(fetch_deadline_ms=voter.now_ms + voter.config.fetch_timeout_ms)
        case RoleName.LEADER:
            assert isinstance(previous, Candidate)
            return Leader(
                epoch=voter.epoch,
                granting=frozenset(previous.granted),
                epoch_start_offset=voter.log.end_offset,
                progress={peer: VoterProgress(end_offset=0, last_fetch_ms=voter.now_ms) for peer in voter.peers},
            )
        case RoleName.RESIGNED:
            return Resigned()
        case RoleName.INITIAL:
            raise AssertionError("nothing leads back to the start of a life")

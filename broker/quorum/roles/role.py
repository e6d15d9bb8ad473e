"""What every role of a voter can do, and how a role asks for another role.

A role never changes the role itself. It returns a `Move`, and `Quorum` looks up the next role in the table of
transitions. The methods here do nothing. A role overrides those that mean something to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from broker.quorum.channels import Channel
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.types import NO_NODE, Request, Response
from broker.quorum.voter import Voter


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Why the role ends, and the epoch, the leader and the vote in the next role."""

    trigger: Trigger
    epoch: int | None = None  # None: unchanged
    leader_id: int = NO_NODE
    voted_id: int | None = None  # None: unchanged in the same epoch, and no vote in a newer one
    deadline_ms: int | None = None  # when an unattached voter stands for election


class Role(Protocol):
    NAME: ClassVar[RoleName]

    def entered(self, voter: Voter) -> Move | None:
        """Called first, when the epoch is on its way to the disk."""
        return None

    def left(self, voter: Voter) -> None:
        """Called last, when the epoch of the next role is already on its way to the disk."""
        return

    def election_deadline_ms(self) -> int | None:
        """When the voter becomes prospective (again) by itself; None if it does not wait for this."""
        return None

    def deadline_ms(self, voter: Voter) -> int | None:
        """When `expired` is due."""
        return self.election_deadline_ms()

    def expired(self, voter: Voter) -> Move | None:
        return None

    def other_deadlines_ms(self) -> list[int]:
        """When `tick` has something to do."""
        return []

    def tick(self, voter: Voter) -> None:
        """Act on whatever is due at `voter.now_ms`."""
        return

    def hears_leader(self) -> bool:
        """Whether a leader of this epoch is alive, as far as this voter can tell. If so, pre-votes are refused."""
        return False

    def request_due_ms(self, voter: Voter, peer_id: int, not_before_ms: int) -> int | None:
        """When the next request to this peer is due, if none is in flight to it. None: no request is wanted."""
        return None

    def request(self, voter: Voter) -> Request:
        raise AssertionError(f"a voter that is {self.NAME.value} asks nothing")

    def answered(self, voter: Voter, peer_id: int, response: Response, channel: Channel) -> Move | None:
        """A peer answered a request of this role, in the same epoch."""
        return None

    def check_invariants(self, voter: Voter) -> None:
        """What must be true in this role."""
        return


def observed(role: Role, voter: Voter, epoch: int, leader_id: int) -> Move | None:
    """A peer told us an epoch, and perhaps its leader."""
    is_foreign = leader_id in voter.peers
    if epoch > voter.epoch and is_foreign:
        return Move(trigger=Trigger.NEWER_LEADER, epoch=epoch, leader_id=leader_id)
    if epoch > voter.epoch:
        # A voter keeps the deadline of an election that has begun. Otherwise a candidate that cannot win could delay
        # a better candidate again and again.
        deadline_ms = role.election_deadline_ms()
        if deadline_ms is None:
            deadline_ms = voter.draw_election_deadline_ms()
        return Move(trigger=Trigger.NEWER_EPOCH, epoch=epoch, deadline_ms=deadline_ms)
    if epoch == voter.epoch and is_foreign and voter.leader_id == NO_NODE:
        return Move(trigger=Trigger.LEADER_FOUND, leader_id=leader_id)
    return None

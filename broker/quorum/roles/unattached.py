"""A voter that knows no leader of its epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from broker.quorum.roles.role import Move, Role
from broker.quorum.transitions import RoleName, Trigger
from broker.quorum.voter import Voter


@dataclass(slots=True, kw_only=True)
class Unattached(Role):
    """It knows no leader of its epoch. It waits for one, and stands for election if none appears in time.

    Kafka's role "voted" is this role with a vote. The vote belongs to the voter, because it stays when the role
    changes.
    """

    NAME: ClassVar = RoleName.UNATTACHED
    stands_at_ms: int

    def election_deadline_ms(self) -> int:
        return self.stands_at_ms

    def expired(self, voter: Voter) -> Move:
        return Move(trigger=Trigger.ELECTION_TIMEOUT)

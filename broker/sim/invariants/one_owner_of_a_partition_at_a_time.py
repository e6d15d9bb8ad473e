from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OneOwnerOfAPartitionAtATime(Invariant):
    """With the protocol of KIP-848 a partition has one owner at a time."""

    NAME = "one owner of a partition at a time"
    GROUP = Group.GROUPS

    def check(self, group: str, index: int, member: str, *, other: str | None) -> None:
        """`other` still owns the partition when `member` gets it. None if nobody owns it."""
        if other is not None:
            self.violated(f"{group}: partition {index} was given to {member} while it is {other}'s")

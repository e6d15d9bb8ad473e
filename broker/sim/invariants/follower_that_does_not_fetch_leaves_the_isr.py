from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class FollowerThatDoesNotFetchLeavesTheIsr(Invariant):
    """If a follower is cut off only from its leader, and there is something to replicate, it leaves the ISR within 1.5
    seconds.
    """

    NAME = "a follower that does not fetch leaves the ISR"
    GROUP = Group.END

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class FollowerThatDoesNotFetchLeavesTheIsr(Invariant):
    """A follower that only its leader cannot reach leaves the ISR within 1.5 seconds, if there is something to
    replicate.
    """

    NAME = "a follower that does not fetch leaves the ISR"
    GROUP = Group.END

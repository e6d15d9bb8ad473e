from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CommittedOffsetIsNeverOutOfRange(Invariant):
    """If a reader names the leader epoch, the leader does not say that a committed offset is out of range (KIP-320)."""

    # A follower of that epoch may say so (KIP-392), because it may not have the records yet. The reader then goes to
    # the leader.
    NAME = "a committed offset is never out of range"
    GROUP = Group.CLIENTS

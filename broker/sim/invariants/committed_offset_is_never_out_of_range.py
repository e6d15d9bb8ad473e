from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CommittedOffsetIsNeverOutOfRange(Invariant):
    """A leader does not tell a reader that names the leader epoch that a committed offset is out of range (KIP-320)."""

    # A follower of that epoch may say so (KIP-392): it has not got the records yet, and the reader goes to the leader.
    NAME = "a committed offset is never out of range"
    GROUP = Group.CLIENTS

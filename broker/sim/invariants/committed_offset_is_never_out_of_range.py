from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CommittedOffsetIsNeverOutOfRange(Invariant):
    """A reader that names the leader epoch is not told that a committed offset is out of range (KIP-320)."""

    NAME = "a committed offset is never out of range"
    GROUP = Group.CLIENTS

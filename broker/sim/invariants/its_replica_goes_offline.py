from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ItsReplicaGoesOffline(Invariant):
    """A replica whose compaction failed on the disk goes offline."""

    NAME = "its replica goes offline"
    GROUP = Group.AFTERMATH

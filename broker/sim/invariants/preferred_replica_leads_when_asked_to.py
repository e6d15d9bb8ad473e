from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class PreferredReplicaLeadsWhenAskedTo(Invariant):
    """The preferred replica of a partition leads after a preferred election."""

    NAME = "the preferred replica leads when asked to"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ReplicasCatchUp(Invariant):
    """All replicas come to hold what their leader has written."""

    NAME = "replicas catch up"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClusterRecoversAfterALossOfPower(Invariant):
    """The cluster is healthy again after a host that lost its power is back."""

    NAME = "the cluster recovers after a loss of power"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClusterRecoversAfterALossOfPower(Invariant):
    """The cluster is well again after a host without power is back."""

    NAME = "the cluster recovers after a loss of power"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClusterRecoversAfterARestart(Invariant):
    """The cluster is healthy again after a broker was restarted."""

    NAME = "the cluster recovers after a restart"
    GROUP = Group.AFTERMATH

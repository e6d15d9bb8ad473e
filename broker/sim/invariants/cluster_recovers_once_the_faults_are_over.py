from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClusterRecoversOnceTheFaultsAreOver(Invariant):
    """At the latest 12 seconds after the last fault every broker is up and unfenced, and every partition has a leader
    and all its replicas in sync.
    """

    NAME = "the cluster recovers once the faults are over"
    GROUP = Group.END

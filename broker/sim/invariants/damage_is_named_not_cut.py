from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DamageIsNamedNotCut(Invariant):
    """No broker starts with a damaged metadata log and cuts off committed entries."""

    NAME = "damage is named, not cut"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DamageIsNamedNotCut(Invariant):
    """No broker starts on a damaged metadata log and cuts what was committed."""

    NAME = "damage is named, not cut"
    GROUP = Group.AFTERMATH

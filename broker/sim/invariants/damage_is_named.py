from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DamageIsNamed(Invariant):
    """A broker that starts with a damaged metadata log reports the damage."""

    NAME = "damage is named"
    GROUP = Group.AFTERMATH

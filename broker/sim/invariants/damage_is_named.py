from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DamageIsNamed(Invariant):
    """A broker that starts on a damaged metadata log names the damage."""

    NAME = "damage is named"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class LeadershipIsHandedOn(Invariant):
    """A partition gets another leader when the replica of its leader goes offline."""

    NAME = "leadership is handed on"
    GROUP = Group.AFTERMATH

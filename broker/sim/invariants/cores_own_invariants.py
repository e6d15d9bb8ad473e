from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CoresOwnInvariants(Invariant):
    """The assertions of the cores themselves hold after every event."""

    NAME = "the cores' own invariants"
    GROUP = Group.PROCESSES

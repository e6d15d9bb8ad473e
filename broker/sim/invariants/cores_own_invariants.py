from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CoresOwnInvariants(Invariant):
    """What the cores assert of themselves holds after every event."""

    NAME = "the cores' own invariants"
    GROUP = Group.PROCESSES

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class RunEnds(Invariant):
    """A run takes a bounded number of events."""

    NAME = "a run ends"
    GROUP = Group.PROCESSES

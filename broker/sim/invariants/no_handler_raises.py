from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class NoHandlerRaises(Invariant):
    """No callback of a broker ends with an exception."""

    NAME = "no handler raises"
    GROUP = Group.PROCESSES

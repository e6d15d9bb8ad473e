from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class BrokerStopsWhenAskedTo(Invariant):
    """A broker that is asked to stop ends."""

    NAME = "a broker stops when asked to"
    GROUP = Group.AFTERMATH

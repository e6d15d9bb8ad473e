from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class BrokerStarts(Invariant):
    """Every broker starts, unless its disk refuses a call or its metadata log is damaged."""

    NAME = "a broker starts"
    GROUP = Group.PROCESSES

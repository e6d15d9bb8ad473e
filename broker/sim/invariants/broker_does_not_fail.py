from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class BrokerDoesNotFail(Invariant):
    """No broker ends itself, except when its disk refuses something that it needs."""

    NAME = "a broker does not fail"
    GROUP = Group.PROCESSES

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ProposedIsrCountsUntilItIsAnswered(Invariant):
    """A leader counts the members of an ISR that it has proposed until the controller has answered."""

    NAME = "a proposed ISR counts until it is answered"
    GROUP = Group.REPLICATION

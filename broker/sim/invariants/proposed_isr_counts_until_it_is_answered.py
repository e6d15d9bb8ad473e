from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ProposedIsrCountsUntilItIsAnswered(Invariant):
    """Until the controller has answered, a leader counts the members of an ISR that it has proposed."""

    NAME = "a proposed ISR counts until it is answered"
    GROUP = Group.REPLICATION

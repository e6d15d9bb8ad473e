from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class IdleProducerIsForgotten(Invariant):
    """Every broker forgets a producer that was idle for longer than producer.id.expiration.ms."""

    NAME = "an idle producer is forgotten"
    GROUP = Group.AFTERMATH

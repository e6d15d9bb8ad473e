from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ProducerThatWasForgottenGoesOn(Invariant):
    """A producer that was forgotten continues without a new epoch, also after a restart of the leader."""

    NAME = "a producer that was forgotten goes on"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class EverythingSentGetsAnOutcome(Invariant):
    """Every send is acknowledged or fails, and all replicas hold the same at last."""

    NAME = "everything sent gets an outcome"
    GROUP = Group.END

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class EverythingSentGetsAnOutcome(Invariant):
    """Every send is acknowledged or fails, and at the end all replicas hold the same records."""

    NAME = "everything sent gets an outcome"
    GROUP = Group.END

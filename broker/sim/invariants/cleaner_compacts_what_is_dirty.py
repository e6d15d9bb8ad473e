from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CleanerCompactsWhatIsDirty(Invariant):
    """The log cleaner compacts a log with dirty segments."""

    NAME = "a cleaner compacts what is dirty"
    GROUP = Group.AFTERMATH

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CompactionGoesOnAfterARestart(Invariant):
    """A compaction that was interrupted completes after a restart."""

    NAME = "a compaction goes on after a restart"
    GROUP = Group.AFTERMATH

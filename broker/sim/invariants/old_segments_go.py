from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class OldSegmentsGo(Invariant):
    """Segments that are older than retention.ms are deleted."""

    NAME = "old segments go"
    GROUP = Group.AFTERMATH

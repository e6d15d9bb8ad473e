from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class CompactionKeepsTheLastRecordOfEachKeyAndChangesNone(Invariant):
    """After a compaction every replica holds the last record of each key, and no record that was never written."""

    NAME = "compaction keeps the last record of each key, and changes none"
    GROUP = Group.AFTERMATH

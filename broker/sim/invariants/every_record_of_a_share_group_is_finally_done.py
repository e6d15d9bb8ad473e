from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class EveryRecordOfAShareGroupIsFinallyDone(Invariant):
    """Once the faults are over, share groups accept, reject or archive every record of the topic within 12 seconds."""

    NAME = "every record of a share group is finally done"
    GROUP = Group.END

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DamagedBatchIsRefused(Invariant):
    """No broker accepts a batch whose CRC is wrong."""

    NAME = "a damaged batch is refused"
    GROUP = Group.CLIENTS

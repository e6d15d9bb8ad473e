from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ShareStateIsReadBackAsConfirmed(Invariant):
    """A new leader of a share partition reads everything from the state that was confirmed to earlier leaders, and
    nothing that no leader wrote."""

    NAME = "a share state is read back as confirmed"
    GROUP = Group.SHARES

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class FollowersLearnWhatIsCommitted(Invariant):
    """Followers know the leader's high watermark 1.5 seconds after the last record."""

    NAME = "followers learn what is committed"
    GROUP = Group.END

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class LogBeginsWhereItsLeaderSays(Invariant):
    """The log of every replica begins where the leader's log begins."""

    NAME = "a log begins where its leader says"
    GROUP = Group.AFTERMATH

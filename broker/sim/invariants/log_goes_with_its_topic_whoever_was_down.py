from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class LogGoesWithItsTopicWhoeverWasDown(Invariant):
    """The log of a deleted topic is removed from every broker, also from one that was down meanwhile."""

    NAME = "a log goes with its topic, whoever was down"
    GROUP = Group.AFTERMATH

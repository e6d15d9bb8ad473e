from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class TopicIsMade(Invariant):
    """A topic that is asked for is made, with all its replicas."""

    NAME = "a topic is made"
    GROUP = Group.AFTERMATH

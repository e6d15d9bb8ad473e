from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class TopicIsMade(Invariant):
    """After CreateTopics the topic exists, with all its replicas."""

    NAME = "a topic is made"
    GROUP = Group.AFTERMATH

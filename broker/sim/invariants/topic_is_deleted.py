from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class TopicIsDeleted(Invariant):
    """After DeleteTopics the topic is no longer in the metadata."""

    NAME = "a topic is deleted"
    GROUP = Group.AFTERMATH

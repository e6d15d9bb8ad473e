from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class TopicIsDeleted(Invariant):
    """A topic that is to be deleted is gone from the metadata."""

    NAME = "a topic is deleted"
    GROUP = Group.AFTERMATH

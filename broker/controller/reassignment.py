"""Reassignment of partitions (KIP-455): the replicas during it, when it is complete, and how it is cancelled.

The steps are Kafka's (PartitionReassignmentReplicas, PartitionReassignmentRevert):

1. The added replicas join the list of replicas. The target comes first, followed by the replicas that are to be
   removed.
2. The leader brings the added replicas into the ISR, one after the other (AlterPartition).
3. When every replica of the target is in the ISR, the record of that change also removes the others. They are not
   removed earlier, because a removed replica might be the only one with a committed record.

A cancellation removes the added replicas and keeps those that were to be removed. If none of the remaining replicas is
in the ISR, this is an unclean election. It is then refused unless the topic allows it. Pure.
Shown by tests/broker_controller/test_controller_reassignment.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.image import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The brokers that have a replica. `adding` and `removing` are parts of `replicas`. If both are empty, there is no
    reassignment."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def assignment_of(state: PartitionState) -> Assignment:
    return Assignment(replicas=state.replicas, adding=state.adding, removing=state.removing)


def towards(state: PartitionState, target: tuple[int, ...]) -> Assignment:
    """The assignment during a reassignment to `target`. It replaces a reassignment in progress: replicas that the old
    one added and that are not in `target` are removed too.

    If the new reassignment adds no replica, `adding` keeps the replicas that the old one added and that are in
    `target`. So a cancellation removes them again. Apache Kafka does this too, because an empty list in its record
    leaves the old list unchanged. For the same reason Apache Kafka leaves an old `removing` unchanged, and in the end
    removes replicas that are wanted again. We do not do that.
    """
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas)))
    adding = adding or tuple(replica for replica in state.adding if replica in target)
    return Assignment(replicas=(*target, *removing), adding=adding, removing=removing)


def completed(assignment: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
    """The assignment and the ISR after the reassignment is complete. None: it is not complete, or there is none."""
    if not assignment.adding and not assignment.removing:
        return None
    target = assignment.target
    if not target or not set(target) <= set(isr):
        return None
    return Assignment(replicas=target), tuple(replica for replica in isr if replica in target)


def is_completion(was: PartitionState, now: PartitionState) -> bool:
    """Whether this change completed a reassignment. The same change may bring the last replica of the target into the
    ISR and make it the leader."""
    return was.is_reassigning and not now.is_reassigning and now.replicas == assignment_of(was).target


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    assignment: Assignment
    isr: tuple[int, ...]
    is_unclean: bool  # no original replica is in the ISR, so the first one was taken anyway


def reverted(state: PartitionState) -> Reverted:
    replicas = tuple(replica for replica in state.replicas if replica not in state.adding)
    isr = tuple(replica for replica in state.isr if replica not in state.adding)
    assert replicas, "a reassignment begins with some replicas"
    return Reverted(assignment=Assignment(replicas=replicas), isr=isr or replicas[:1], is_unclean=not isr)

"""Reassignment of partitions (KIP-455): which replicas a partition has on its way, when it is there, and the way back.

The steps are Kafka's (PartitionReassignmentReplicas, PartitionReassignmentRevert):

1. The replicas that are added go to the others: the target first, behind it those that are to go.
2. The leader's proposals bring the added ones into the ISR, one after the other (AlterPartition).
3. As soon as every replica of the target is in the ISR, the others go, in the record of that same change. Not earlier:
   whoever leaves might be the only one that holds a committed record.

Cancelling takes out what was added and keeps what was to go. If nobody of those is in the ISR, this is an unclean
election, and it is refused unless the topic allows it. Pure.
Shown by tests/broker_controller/test_controller_reassignment.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.image import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who has a replica. `adding` and `removing` are parts of `replicas`; both empty: no reassignment."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)


def assignment_of(state: PartitionState) -> Assignment:
    return Assignment(replicas=state.replicas, adding=state.adding, removing=state.removing)


def towards(state: PartitionState, target: tuple[int, ...]) -> Assignment:
    """On the way to `target`. A reassignment in progress is replaced: what it had added, and is not wanted any more,
    goes too.

    If the new one adds nobody, those that the old one adds, and that are wanted still, are told as being added: a
    cancellation takes them out again. So does Apache Kafka, whose record leaves an empty list as it was. It also leaves
    those that were to go, and then ends without them although they are wanted again. That is not done here.
    """
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas)))
    adding = adding or tuple(replica for replica in state.adding if replica in target)
    return Assignment(replicas=(*target, *removing), adding=adding, removing=removing)


def completed(assignment: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
    """What is left when the reassignment is over, and its ISR. None: it is not over, or there is none."""
    if not assignment.adding and not assignment.removing:
        return None
    target = assignment.target
    if not target or not set(target) <= set(isr):
        return None
    return Assignment(replicas=target), tuple(replica for replica in isr if replica in target)


def is_completion(was: PartitionState, now: PartitionState) -> bool:
    """Whether this change ended a reassignment because it is complete. It may bring the last of the target into the ISR
    and make it leader at once."""
    return was.is_reassigning and not now.is_reassigning and now.replicas == assignment_of(was).target


@dataclass(frozen=True, slots=True, kw_only=True)
class Reverted:
    assignment: Assignment
    isr: tuple[int, ...]
    is_unclean: bool  # nobody of the original replicas is in sync: the first one is taken all the same


def reverted(state: PartitionState) -> Reverted:
    replicas = tuple(replica for replica in state.replicas if replica not in state.adding)
    isr = tuple(replica for replica in state.isr if replica not in state.adding)
    assert replicas, "a reassignment begins with some replicas"
    return Reverted(assignment=Assignment(replicas=replicas), isr=isr or replicas[:1], is_unclean=not isr)

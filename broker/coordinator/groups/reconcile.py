"""One step of a KIP-848 member from its present state towards its target assignment. It is pure.

- First a member gives up the partitions that it must give up (UNREVOKED_PARTITIONS). It stays in its epoch until it no
  longer reports them.
- Then it enters the target's epoch, with the partitions that no other member has.
- It takes the rest when others release it (UNRELEASED_PARTITIONS).

So no partition has two owners at any time. Shown by tests/broker_coordinator/test_coordinator_model.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from broker.coordinator.groups.records import Assignment, Partition


class MemberState(IntEnum):
    """The numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The present assignment of a member. It contains no empty sets."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    pending_revocation: Assignment = field(default_factory=dict)
    epochs: Mapping[Partition, int] = field(default_factory=dict)  # the epoch in which it got each partition of both


def intersect(left: Assignment, right: Assignment) -> dict[UUID, frozenset[int]]:
    common = {topic_id: partitions & right.get(topic_id, frozenset()) for topic_id, partitions in left.items()}
    return {topic_id: partitions for topic_id, partitions in common.items() if partitions}


def subtract(left: Assignment, right: Assignment) -> dict[UUID, frozenset[int]]:
    rest = {topic_id: partitions - right.get(topic_id, frozenset()) for topic_id, partitions in left.items()}
    return {topic_id: partitions for topic_id, partitions in rest.items() if partitions}


def unite(left: Assignment, right: Assignment) -> dict[UUID, frozenset[int]]:
    return {
        topic_id: left.get(topic_id, frozenset()) | right.get(topic_id, frozenset())
        for topic_id in sorted(left.keys() | right.keys())
    }


def places(assignment: Assignment) -> Iterator[Partition]:
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition


def reconcile(
    current: Current,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[UUID, int], bool],
) -> Current:
    """`owned` are the partitions that the member says it owns; None if this heartbeat did not tell. `is_free` says
    whether no other member has the partition."""
    if current.state is MemberState.STABLE and current.member_epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, current.pending_revocation):
        return current
    kept = intersect(current.assigned, target)
    to_revoke = subtract(current.assigned, kept)
    if to_revoke and _still_owns(owned, to_revoke):
        return Current(
            member_epoch=current.member_epoch,
            previous_member_epoch=current.member_epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=to_revoke,
            # partitions that it has just given up are left out: its target may have changed meanwhile
            epochs={place: current.epochs[place] for place in places(current.assigned)},
        )
    wanted = subtract(target, kept)
    free = {
        topic_id: frozenset(partition for partition in partitions if is_free(topic_id, partition))
        for topic_id, partitions in wanted.items()
    }
    free = {topic_id: partitions for topic_id, partitions in free.items() if partitions}
    state = MemberState.UNRELEASED_PARTITIONS if subtract(wanted, free) else MemberState.STABLE
    after = Current(
        member_epoch=target_epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=unite(kept, free),
        epochs={
            **{place: current.epochs.get(place, current.member_epoch) for place in places(kept)},
            **{place: target_epoch for place in places(free)},
        },
    )
    is_waiting = current.state is state and not free and not to_revoke and current.member_epoch == target_epoch
    return current if is_waiting and not current.pending_revocation else after


def withdraw(current: Current, *, subscribed: Collection[UUID], owned: Assignment | None) -> Current:
    """Takes from a member what it no longer subscribes to. It does not wait for the next target for that."""
    kept = {topic_id: partitions for topic_id, partitions in current.assigned.items() if topic_id in subscribed}
    lost = subtract(current.assigned, kept)
    if not lost:
        return current
    pending = unite(current.pending_revocation, lost)
    is_owner = _still_owns(owned, pending)
    assert is_owner or not current.pending_revocation, "a member that gives up partitions waits until it has done so"
    left = current.assigned if is_owner else kept
    return Current(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.member_epoch,
        state=MemberState.UNREVOKED_PARTITIONS if is_owner else current.state,
        assigned=kept,
        pending_revocation=pending if is_owner else {},
        epochs={place: current.epochs[place] for place in (*places(left), *places(current.pending_revocation))},
    )


def _still_owns(owned: Assignment | None, revoked: Assignment) -> bool:
    return owned is None or bool(intersect(owned, revoked))

"""One step of a member of a streams group from its present tasks towards its target (KIP-1071). It is pure.

- First a member gives up the tasks that it must give up (UNREVOKED_TASKS). It stays in its epoch until it no longer
  reports them.
- Then it enters the target's epoch, with the tasks that are free.
- It takes the rest when others release it (UNRELEASED_TASKS).

An active task is free if no process has it as active task, and if the member's own process does not have it as standby
or warm-up task. A standby or warm-up task is free if the member's own process does not have it at all. So no active
task has two owners at any time, and no process has a task twice: its state directory has room for one.
Shown by tests/broker_coordinator/test_coordinator_streams_reconcile.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum

from broker.coordinator.groups.streams.tasks import EpochMap, HeldTasks, TaskId, TaskMap, Tasks


class MemberState(IntEnum):
    """The numbers are those of the record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127  # a newer version wrote the record


class FencedMemberError(Exception):
    """The member must abandon its tasks and join again. On the wire it is FENCED_MEMBER_EPOCH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The present assignment of a member."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = field(default_factory=HeldTasks)
    pending_revocation: HeldTasks = field(default_factory=HeldTasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Who has a task now, by process id. A task that is not yet revoked is still held."""

    active: Callable[[TaskId], str | None]
    standby: Callable[[TaskId], Set[str]]
    warmup: Callable[[TaskId], Set[str]]


def reconcile(
    current: Current, *, target: Tasks, target_epoch: int, process_id: str, owned: Tasks | None, holders: Holders
) -> Current:
    """`owned` are the tasks that the member says it owns; None if this heartbeat did not tell.

    The result differs from `current` only in the previous epoch if a member must go on waiting for tasks. Raises
    FencedMemberError.
    """
    revoked_epoch = current.member_epoch  # the epoch if it still has to give up tasks
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch == target_epoch:
                return current
        case MemberState.UNREVOKED_TASKS:
            if _still_owns(owned, current.pending_revocation):
                return current
            revoked_epoch += 1
        case MemberState.UNKNOWN:
            if owned is None or owned.active or owned.standby or owned.warmup:
                raise FencedMemberError(
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
            revoked_epoch = target_epoch
    kept = _kept(current.assigned, target)
    to_revoke = _rest(current.assigned, kept)
    if _has_any(to_revoke) and _still_owns(owned, to_revoke):
        return _moved(current, MemberState.UNREVOKED_TASKS, revoked_epoch, kept, to_revoke)
    wanted = _wanted(target, kept, target_epoch)
    free = _free(wanted, process_id, holders)
    state = MemberState.STABLE if free == wanted else MemberState.UNRELEASED_TASKS
    return _moved(current, state, target_epoch, _united(kept, free), HeldTasks())


def _moved(current: Current, state: MemberState, epoch: int, assigned: HeldTasks, pending: HeldTasks) -> Current:
    return replace(
        current,
        member_epoch=epoch,
        previous_member_epoch=current.member_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending,
    )


def _still_owns(owned: Tasks | None, revoked: HeldTasks) -> bool:
    return owned is None or (
        _overlaps(owned.active, revoked.active)
        or _overlaps(owned.standby, revoked.standby)
        or _overlaps(owned.warmup, revoked.warmup)
    )


def _overlaps(owned: TaskMap, revoked: Mapping[str, Iterable[int]]) -> bool:
    return any(not indexes.isdisjoint(revoked.get(name, ())) for name, indexes in owned.items())


def _has_any(tasks: HeldTasks) -> bool:
    return bool(tasks.active or tasks.standby or tasks.warmup)


def _kept(assigned: HeldTasks, target: Tasks) -> HeldTasks:
    """The active tasks keep the epochs in which the member got them."""
    return HeldTasks(
        active=_filter_epochs(assigned.active, lambda task: task[1] in target.active.get(task[0], ())),
        standby=_filter(assigned.standby, lambda task: task[1] in target.standby.get(task[0], ())),
        warmup=_filter(assigned.warmup, lambda task: task[1] in target.warmup.get(task[0], ())),
    )


def _rest(assigned: HeldTasks, kept: HeldTasks) -> HeldTasks:
    return HeldTasks(
        active=_filter_epochs(assigned.active, lambda task: task[1] not in kept.active.get(task[0], ())),
        standby=_filter(assigned.standby, lambda task: task[1] not in kept.standby.get(task[0], ())),
        warmup=_filter(assigned.warmup, lambda task: task[1] not in kept.warmup.get(task[0], ())),
    )


def _wanted(target: Tasks, kept: HeldTasks, epoch: int) -> HeldTasks:
    active = _filter(target.active, lambda task: task[1] not in kept.active.get(task[0], ()))
    return HeldTasks(
        active={name: dict.fromkeys(sorted(indexes), epoch) for name, indexes in active.items()},
        standby=_filter(target.standby, lambda task: task[1] not in kept.standby.get(task[0], ())),
        warmup=_filter(target.warmup, lambda task: task[1] not in kept.warmup.get(task[0], ())),
    )


def _free(wanted: HeldTasks, process_id: str, holders: Holders) -> HeldTasks:
    def is_copy_here(task: TaskId) -> bool:
        return process_id in holders.standby(task) or process_id in holders.warmup(task)

    def is_active_free(task: TaskId) -> bool:
        return holders.active(task) is None and not is_copy_here(task)

    def is_copy_free(task: TaskId) -> bool:
        return holders.active(task) != process_id and not is_copy_here(task)

    return HeldTasks(
        active=_filter_epochs(wanted.active, is_active_free),
        standby=_filter(wanted.standby, is_copy_free),
        warmup=_filter(wanted.warmup, is_copy_free),
    )


def _united(left: HeldTasks, right: HeldTasks) -> HeldTasks:
    names = sorted(left.active.keys() | right.active.keys())
    return HeldTasks(
        active={name: {**left.active.get(name, {}), **right.active.get(name, {})} for name in names},
        standby=_unite(left.standby, right.standby),
        warmup=_unite(left.warmup, right.warmup),
    )


def _unite(left: TaskMap, right: TaskMap) -> TaskMap:
    empty: frozenset[int] = frozenset()
    names = sorted(left.keys() | right.keys())
    return {name: left.get(name, empty) | right.get(name, empty) for name in names}


def _filter(tasks: TaskMap, is_wanted: Callable[[TaskId], bool]) -> TaskMap:
    """Without empty sets."""
    found = {name: frozenset(index for index in indexes if is_wanted((name, index))) for name, indexes in tasks.items()}
    return {name: indexes for name, indexes in found.items() if indexes}


def _filter_epochs(tasks: EpochMap, is_wanted: Callable[[TaskId], bool]) -> EpochMap:
    """Without empty maps."""
    found = {
        name: {index: epoch for index, epoch in indexes.items() if is_wanted((name, index))}
        for name, indexes in tasks.items()
    }
    return {name: indexes for name, indexes in found.items() if indexes}

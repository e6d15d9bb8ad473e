"""One step of a member of a streams group from its present tasks towards its target (KIP-1071). It is pure."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from enum import IntEnum

from broker.coordinator.groups.streams.tasks import HeldTasks, TaskId, Tasks


class MemberState(IntEnum):
    """The numbers are those of the record."""

    STABLE = 0
    UNREVOKED_TASKS = 1
    UNRELEASED_TASKS = 2
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
    """`owned` are the tasks that the member says it owns; None if this heartbeat did not tell. Raises
    FencedMemberError."""
    raise NotImplementedError

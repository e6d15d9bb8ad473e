"""Invariants of consumer groups, as their members see them.

- Classic protocol: a partition has one owner in a generation.
- KIP-848: a partition has one owner at a time. A member owns a partition from the answer that gives it. It owns it
  until it gives it up, or until the coordinator may have given it to another member. This is a session timeout after
  its last answered heartbeat.
- Committed offsets neither get lost nor go back, whatever happens to the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from broker.sim.coverage import Coverage
from broker.sim.invariants.groups import (
    CommittedOffsetIsNeitherLostNorGoesBack,
    OneOwnerOfAPartitionAtATime,
    OneOwnerOfAPartitionPerGeneration,
    OnlyWhatWasAskedForIsCommitted,
)
from broker.sim.invariants.invariant import Fail
from broker.sim.scheduler import Scheduler


@dataclass(slots=True, kw_only=True)
class _Lease:
    until_us: int = 0
    partitions: set[int] = field(default_factory=set)


class GroupChecker:
    def __init__(self, *, scheduler: Scheduler, fail: Fail, coverage: Coverage) -> None:
        self._scheduler, self._coverage = scheduler, coverage
        self._one_owner = OneOwnerOfAPartitionPerGeneration(fail)
        self._one_at_a_time = OneOwnerOfAPartitionAtATime(fail)
        self._offset_stays = CommittedOffsetIsNeitherLostNorGoesBack(fail)
        self._was_asked_for = OnlyWhatWasAskedForIsCommitted(fail)
        self._leases: dict[tuple[str, str], _Lease] = {}  # (group, member)
        self._acked: dict[tuple[str, int], int] = {}  # (group, partition) -> the largest offset that was acknowledged
        self._asked: dict[tuple[str, int], int] = {}  # the largest offset that any member tried to commit

    # -- ownership ---------------------------------------------------------------------------------------------------

    def assigned(self, group: str, generation: int, member: str, partitions: Iterable[int]) -> None:
        """Classic protocol: SyncGroup gave these partitions to a member for a generation."""
        for index in partitions:
            self._one_owner.assigned(group, generation, member, index)

    def owns(self, group: str, member: str, partitions: set[int], *, lease_until_us: int) -> None:
        """KIP-848: from this answer on, a member owns these partitions."""
        lease = self._leases.setdefault((group, member), _Lease())
        for index in partitions - lease.partitions:
            for (other_group, other), held in self._leases.items():
                is_live = held.until_us > self._scheduler.now_us and index in held.partitions
                is_others = other_group == group and other != member and is_live
                self._one_at_a_time.check(group, index, member, other=other if is_others else None)
        lease.partitions, lease.until_us = set(partitions), lease_until_us

    def lets_go(self, group: str, member: str, partitions: set[int] | None = None) -> None:
        """A member gives up these partitions, or all."""
        lease = self._leases.get((group, member))
        if lease is not None:
            lease.partitions = set() if partitions is None else lease.partitions - partitions

    # -- offsets -----------------------------------------------------------------------------------------------------

    def committing(self, group: str, index: int, offset: int) -> None:
        self._asked[(group, index)] = max(offset, self._asked.get((group, index), -1))

    def committed(self, group: str, index: int, offset: int) -> None:
        self._acked[(group, index)] = max(offset, self._acked.get((group, index), -1))
        self._coverage.reached("offset committed by a member")

    def floor(self, group: str, index: int) -> int:
        """The smallest offset that an OffsetFetch may return if it is sent now."""
        return self._acked.get((group, index), -1)

    def fetched(self, group: str, index: int, offset: int, *, floor: int) -> None:
        if self._offset_stays.fetched(group, index, offset, floor=floor):
            self._was_asked_for.check(group, index, offset, asked=self._asked.get((group, index), -1))

    def goes_on(self, group: str, index: int, member: str, offset: int, *, floor: int) -> None:
        """Check the offset where a member begins to read a partition that it was given."""
        self._offset_stays.goes_on(group, index, member, offset, floor=floor)

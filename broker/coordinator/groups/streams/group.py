"""One streams group (KIP-1071): its topology, members, epochs and tasks.

Only `apply` changes what is in the log, with a record that was just written or that is read from the log. protocol.py
decides what to write. The other fields are not durable: after a fail-over the next heartbeats make them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from broker.coordinator.groups.assignment_interval import NEVER_MS
from broker.coordinator.groups.consumer_group import FIRST_EPOCH
from broker.coordinator.groups.streams.configured import ConfiguredTopology
from broker.coordinator.groups.streams.events import EndpointPartitions
from broker.coordinator.groups.streams.reconcile import Current, Holders, MemberState
from broker.coordinator.groups.streams.records import (
    GroupValue,
    Kind,
    MemberValue,
    StreamsKey,
    TargetEpoch,
    Value,
)
from broker.coordinator.groups.streams.tasks import HeldTasks, TaskId, TaskMap, Tasks
from broker.coordinator.groups.streams.topology import Topology


@dataclass(slots=True, kw_only=True)
class StreamsMember:
    member_id: str
    value: MemberValue = field(default_factory=MemberValue)
    current: Current = field(default_factory=Current)
    session_deadline_ms: int = 0  # not durable
    revoke_deadline_ms: int | None = None  # not durable; set while the member has to give up tasks

    def next_deadline_ms(self) -> int:
        """When the member is removed, unless it does what it has to do before that."""
        if self.revoke_deadline_ms is None:
            return self.session_deadline_ms
        return min(self.session_deadline_ms, self.revoke_deadline_ms)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.current.state is MemberState.STABLE and self.current.member_epoch == target_epoch


class StreamsGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.value = GroupValue(epoch=FIRST_EPOCH, metadata_hash=0, validated_topology_epoch=0)
        self.target_epoch = FIRST_EPOCH  # the group epoch that `targets` was computed for; never above the epoch
        self.assigned_ms = NEVER_MS  # when `targets` were computed, by the wall clock
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}  # by member id
        self._active: dict[TaskId, str] = {}  # the process that has each task, or has not given it up yet
        self._standby: dict[TaskId, set[str]] = {}
        self._warmup: dict[TaskId, set[str]] = {}
        # From here on nothing is durable.
        self.configured: ConfiguredTopology | None = None  # the topology, fitted to the topics of the cluster
        self.is_metadata_stale = True  # topics may have changed since the metadata hash
        self.shutdown_member_id: str | None = None  # the member that asked for the end of the whole application
        self.endpoint_epoch = 0
        self.endpoints: dict[str, EndpointPartitions] = {}  # by member id, until its tasks change
        self.delay_deadline_ms: int | None = None  # no assignment before this time
        self.last_append = 0

    # -- records -----------------------------------------------------------------------------------------------------

    def apply(self, key: StreamsKey, value: Value | None) -> None:
        match key.kind, value:
            case Kind.GROUP, GroupValue():
                self.value = value
            case Kind.MEMBER, MemberValue():
                member = self._member(key.member_id)
                self._release(member)
                member.value = value
                self._hold(member)
            case Kind.MEMBER, None:
                self._remove(key.member_id)
            case Kind.TARGET_EPOCH, TargetEpoch():
                self.target_epoch, self.assigned_ms = value.epoch, value.timestamp_ms
            case Kind.TARGET_MEMBER, Tasks():
                self.targets[key.member_id] = value
            case Kind.TARGET_MEMBER, None:
                self.targets.pop(key.member_id, None)
            case Kind.CURRENT_MEMBER, Current():
                self._set_current(self._member(key.member_id), value)
            case Kind.CURRENT_MEMBER, None if key.member_id in self.members:
                self._set_current(self.members[key.member_id], Current())
            case Kind.TOPOLOGY, Topology():
                self.topology = value
            case Kind.TOPOLOGY, None:
                self.topology = None

    def _member(self, member_id: str) -> StreamsMember:
        """The member, which is created if it is not there: compaction may leave the record of its tasks before the
        record of its data."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = StreamsMember(member_id=member_id)
        return member

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._release(member)
        self.endpoints.pop(member_id, None)
        if not self.members:
            self.shutdown_member_id = None

    def _set_current(self, member: StreamsMember, current: Current) -> None:
        self._release(member)
        member.current = current
        self._hold(member)

    def _hold(self, member: StreamsMember) -> None:
        process_id = member.value.process_id
        for held in (member.current.assigned, member.current.pending_revocation):
            for task in tasks_of(held.active):
                self._active[task] = process_id
            for tasks, holders in ((held.standby, self._standby), (held.warmup, self._warmup)):
                for task in tasks_of(tasks):
                    holders.setdefault(task, set()).add(process_id)

    def _release(self, member: StreamsMember) -> None:
        process_id = member.value.process_id
        for held in (member.current.assigned, member.current.pending_revocation):
            for task in tasks_of(held.active):
                if self._active.get(task) == process_id:
                    del self._active[task]
            for tasks, holders in ((held.standby, self._standby), (held.warmup, self._warmup)):
                for task in tasks_of(tasks):
                    processes = holders.get(task, set())
                    processes.discard(process_id)
                    if not processes:
                        holders.pop(task, None)

    def forget_what_is_not_durable(self) -> None:
        """After its first heartbeat a group is made anew from its records, as in Apache Kafka. Only the initial delay
        and the sessions stay."""
        self.configured, self.is_metadata_stale = None, True
        self.shutdown_member_id = None
        self.endpoint_epoch = 0
        self.endpoints.clear()

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.value.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_stable = all(member.is_reconciled_to(self.target_epoch) for member in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    def holders(self) -> Holders:
        nobody: frozenset[str] = frozenset()
        return Holders(
            active=self._active.get,
            standby=lambda task: self._standby.get(task, nobody),
            warmup=lambda task: self._warmup.get(task, nobody),
        )

    def source_topics(self) -> dict[str, str]:
        """Subtopology id by the topic that it reads."""
        found = {}
        for each in () if self.topology is None else self.topology.subtopologies:
            for name in (*each.source_topics, *(topic.name for topic in each.repartition_source_topics)):
                found[name] = each.subtopology_id
        return found

    def subscribed_topics(self) -> frozenset[str]:
        """The topics whose offsets the group needs."""
        return frozenset(self.source_topics()) if self.members else frozenset()

    def next_deadline_ms(self) -> int | None:
        times = [member.next_deadline_ms() for member in self.members.values()]
        if self.delay_deadline_ms is not None:
            times.append(self.delay_deadline_ms)
        return min(times, default=None)

    # -- checks ------------------------------------------------------------------------------------------------------

    def durable(self) -> object:
        members = {member_id: (member.value, member.current) for member_id, member in self.members.items()}
        return self.value, self.target_epoch, self.assigned_ms, self.topology, members, dict(self.targets)

    def check_invariants(self) -> None:
        assert self.target_epoch <= self.epoch
        assert set(self.targets) <= set(self.members)
        held: dict[TaskId, str] = {}
        for member in self.members.values():
            assert member.current.previous_member_epoch <= member.current.member_epoch <= self.epoch
            assert _has(member.current.pending_revocation) == (member.current.state is MemberState.UNREVOKED_TASKS)
            for task in (
                *tasks_of(member.current.assigned.active),
                *tasks_of(member.current.pending_revocation.active),
            ):
                assert task not in held, f"{task} is held by {held[task]} and {member.member_id}"
                held[task] = member.value.process_id
        assert held == self._active
        targeted: set[TaskId] = set()
        for target in self.targets.values():
            for task in tasks_of(target.active):
                assert task not in targeted
                targeted.add(task)


def _has(held: HeldTasks) -> bool:
    return bool(held.active or held.standby or held.warmup)


def tasks_of(tasks: TaskMap | Mapping[str, Mapping[int, int]]) -> Iterator[TaskId]:
    for subtopology_id, indexes in tasks.items():
        for index in indexes:
            yield subtopology_id, index

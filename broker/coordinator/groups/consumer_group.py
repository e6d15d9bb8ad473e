"""One group of the new protocol (KIP-848): members, epochs and assignments. Everything except the timers is in records.

Only `apply` changes it, with a record that was just written or that is read from the log. consumer.py decides what to
write.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from broker.coordinator.groups.assignment_interval import NEVER_MS
from broker.coordinator.groups.events import DescribedConsumer, DescribedConsumerGroup, Topic
from broker.coordinator.groups.reconcile import Current, MemberState, places, unite
from broker.coordinator.groups.records import (
    Assignment,
    CurrentMemberKey,
    CurrentMemberValue,
    GroupEpochKey,
    GroupEpochValue,
    Key,
    MemberKey,
    MemberValue,
    Partition,
    PatternKey,
    PatternValue,
    Record,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
    Value,
)

FIRST_EPOCH = 1  # Nobody has joined yet. As since Apache Kafka 4.3, the first member gets epoch 2.
JOIN_EPOCH, LEAVE_EPOCH = 0, -1  # a member sends these epochs to join or to leave
LEFT_FOR_A_WHILE = -2  # the epoch of a static member that will come back


@dataclass(slots=True, kw_only=True)
class ConsumerMember:
    member_id: str
    value: MemberValue
    current: Current = field(default_factory=Current)
    session_deadline_ms: int = 0  # not durable
    revoke_deadline_ms: int | None = None  # not durable; set while the member has to give up partitions

    def next_deadline_ms(self) -> int:
        """When the member is removed, unless it does what it has to do before that."""
        if self.revoke_deadline_ms is None:
            return self.session_deadline_ms
        return min(self.session_deadline_ms, self.revoke_deadline_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """Patterns that are to be resolved after the heartbeat that asked for it. It is not durable."""

    patterns: frozenset[str]
    may_describe: Callable[[str], bool] | None  # It asks for the member that asked. None: there is no authorizer.
    at_ms: int


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH  # the group epoch that `targets` was computed for; never above `epoch`
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}  # The key is the member id.
        self.assigned_ms = NEVER_MS  # when `targets` were computed, by the wall clock
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.patterns: Counter[str] = Counter()  # how many members have each pattern
        self.resolved: dict[str, PatternValue] = {}  # what each pattern matched; one that is new waits for `refresh`
        self.refresh: Refresh | None = None
        # the holder of each partition: the partition is assigned to this member, or not yet revoked from it
        self._holders: dict[tuple[UUID, int], str] = {}
        # Of members whose own record comes later: it was written again after this one, and the cleaner left only that.
        self._early: dict[str, Current] = {}
        self.is_metadata_stale = True  # topics may have changed since `metadata_hash`
        self.last_append = 0

    # -- records -----------------------------------------------------------------------------------------------------

    def apply(self, key: Key, value: Value | None) -> None:
        match key, value:
            case GroupEpochKey(), GroupEpochValue():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case MemberKey(), MemberValue():
                self._set_member(key.member_id, value)
            case MemberKey(), None:
                self._remove_member(key.member_id)
            case TargetEpochKey(), TargetEpochValue():
                self.target_epoch, self.assigned_ms = value.assignment_epoch, value.timestamp_ms
            case TargetMemberKey(), TargetMemberValue():
                self.targets[key.member_id] = value.partitions
            case TargetMemberKey(), None:
                self.targets.pop(key.member_id, None)
            case CurrentMemberKey(), CurrentMemberValue():
                self._set_current(key.member_id, _current_of(value))
            case CurrentMemberKey(), None:
                self._set_current(key.member_id, Current())
            case PatternKey(), PatternValue():
                self.resolved[key.pattern] = value
            case PatternKey(), None:
                self.resolved.pop(key.pattern, None)

    def _set_member(self, member_id: str, value: MemberValue) -> None:
        member = self.members.get(member_id)
        if member is None:
            self.members[member_id] = ConsumerMember(member_id=member_id, value=value)
            if (current := self._early.pop(member_id, None)) is not None:
                self._set_current(member_id, current)
        else:
            self._count(member.value, -1)
            member.value = value
        self._count(value, 1)
        if value.instance_id is not None:
            self.static_members[value.instance_id] = member_id

    def _remove_member(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member is None:
            return
        self._set_current(member_id, Current())
        del self.members[member_id]
        self._count(member.value, -1)
        instance_id = member.value.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _count(self, value: MemberValue, change: int) -> None:
        if value.subscribed_topic_regex:
            _add(self.patterns, value.subscribed_topic_regex, change)

    def _set_current(self, member_id: str, current: Current) -> None:
        member = self.members.get(member_id)
        if member is None:
            if current == Current():
                self._early.pop(member_id, None)  # this tombstone comes after the tombstone of the member itself
            else:
                self._early[member_id] = current
            return
        for partition in _places(member.current):
            if self._holders.get(partition) == member_id:
                del self._holders[partition]
        member.current = current
        for partition in _places(current):
            self._holders[partition] = member_id

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        is_stable = all(
            member.current.member_epoch == self.target_epoch and member.current.state is MemberState.STABLE
            for member in self.members.values()
        )
        return "Stable" if is_stable else "Reconciling"

    def is_free(self, topic_id: UUID, partition: int) -> bool:
        return (topic_id, partition) not in self._holders

    def preferred_assignor(self, default: str) -> str:
        """The assignor that most members ask for."""
        votes = Counter(
            member.value.server_assignor for member in self.members.values() if member.value.server_assignor is not None
        )
        return max(sorted(votes), key=lambda name: votes[name]) if votes else default

    def next_deadline_ms(self) -> int | None:
        times = [member.next_deadline_ms() for member in self.members.values()]
        if self.refresh is not None:
            times.append(self.refresh.at_ms)
        return min(times, default=None)

    def tombstones(self) -> Iterator[Record]:
        """Tombstones for all records of the group."""
        group_id = self.group_id
        for member_id in sorted(self.members.keys() | self.targets.keys()):
            yield CurrentMemberKey(group_id=group_id, member_id=member_id), None
            yield TargetMemberKey(group_id=group_id, member_id=member_id), None
            yield MemberKey(group_id=group_id, member_id=member_id), None
        for pattern in sorted(self.resolved):
            yield PatternKey(group_id=group_id, pattern=pattern), None
        yield TargetEpochKey(group_id=group_id), None
        yield GroupEpochKey(group_id=group_id), None

    def described(self, default_assignor: str) -> DescribedConsumerGroup:
        members = tuple(
            DescribedConsumer(
                member_id=member.member_id,
                instance_id=member.value.instance_id,
                rack_id=member.value.rack_id,
                member_epoch=member.current.member_epoch,
                client_id=member.value.client_id,
                client_host=member.value.client_host,
                subscribed_topic_names=member.value.subscribed_topic_names,
                subscribed_topic_regex=member.value.subscribed_topic_regex,
                # The member still has the partitions that it has to give up.
                assignment=unite(member.current.assigned, member.current.pending_revocation),
                target=self.targets.get(member.member_id, {}),
            )
            for _, member in sorted(self.members.items())
        )
        return DescribedConsumerGroup(
            state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            assignor=self.preferred_assignor(default_assignor),
            members=members,
        )

    def durable(self) -> object:
        members = {
            member_id: (
                member.value,
                member.current.member_epoch,
                member.current.previous_member_epoch,
                member.current.state,
                dict(member.current.assigned),
                dict(member.current.pending_revocation),
                dict(member.current.epochs),
            )
            for member_id, member in self.members.items()
        }
        targets = {member_id: dict(target) for member_id, target in self.targets.items()}
        resolved = dict(self.resolved)
        return self.epoch, self.metadata_hash, self.target_epoch, self.assigned_ms, members, targets, resolved

    def check_invariants(self) -> None:
        assert self.target_epoch <= self.epoch
        held: dict[tuple[UUID, int], str] = {}
        for member in self.members.values():
            for partition in _places(member.current):
                assert partition not in held, f"{partition} is held by {held[partition]} and {member.member_id}"
                held[partition] = member.member_id
            assert set(member.current.epochs) == set(_places(member.current))
            assert bool(member.current.pending_revocation) == (member.current.state is MemberState.UNREVOKED_PARTITIONS)
        assert held == self._holders
        targeted: set[tuple[UUID, int]] = set()
        for target in self.targets.values():
            for topic_id, partitions in target.items():
                for index in partitions:
                    assert (topic_id, index) not in targeted
                    targeted.add((topic_id, index))
        assert set(self.static_members.values()) <= set(self.members)
        patterns = [member.value.subscribed_topic_regex for member in self.members.values()]
        assert self.patterns == Counter(each for each in patterns if each)
        assert set(self.resolved) <= set(self.patterns)


def _add(counts: Counter[str], name: str, change: int) -> None:
    counts[name] += change
    if not counts[name]:
        del counts[name]


def metadata_hash(topics: Mapping[str, Topic]) -> int:
    """The hash changes when a topic of the group appears, disappears, is created again or gets more partitions. It is
    0 only without topics, because 0 also means unknown."""
    if not topics:
        return 0
    text = ";".join(f"{name}={topic.topic_id}:{topic.partitions}" for name, topic in sorted(topics.items()))
    data = text.encode()
    return zlib.crc32(data) << 31 | zlib.adler32(data) & 0x7FFFFFFF | 1


def _places(current: Current) -> list[Partition]:
    return [*places(current.assigned), *places(current.pending_revocation)]


def _current_of(value: CurrentMemberValue) -> Current:
    return Current(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=value.assigned,
        pending_revocation=value.pending_revocation,
        epochs=value.epochs,
    )

"""One share group (KIP-932): members, epochs, assignments, and which partitions have a state.

Only `apply` changes it, with a record that was just written or that is read from the log. protocol.py decides
what to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from uuid import UUID

from broker.coordinator.groups.assignment_interval import NEVER_MS
from broker.coordinator.groups.consumer_group import FIRST_EPOCH
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.records import Assignment
from broker.node.features.share_groups.groups.events import DescribedShareGroup, DescribedShareMember
from broker.node.features.share_groups.groups.records import (
    CurrentMember,
    GroupEpoch,
    Kind,
    ShareKey,
    ShareMemberValue,
    States,
    TargetEpoch,
    TargetMember,
    TopicPartitions,
    Value,
)


@dataclass(slots=True, kw_only=True)
class ShareMember:
    member_id: str
    value: ShareMemberValue
    epoch: int = 0
    previous_epoch: int = 0
    assigned: Assignment = field(default_factory=dict)
    session_deadline_ms: int = 0  # not durable


class ShareGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH  # the group epoch that `targets` was computed for; never above `epoch`
        self.members: dict[str, ShareMember] = {}
        # How many members have each subscription. A thousand members may have the same thousands of names.
        self._subscriptions: Counter[tuple[str, ...]] = Counter()
        self.targets: dict[str, Assignment] = {}  # The key is the member id.
        # Of members whose own record comes later: it was written again after this one, and the cleaner left only that.
        self._early: dict[str, CurrentMember] = {}
        self.assigned_ms = NEVER_MS  # when `targets` were computed, by the wall clock
        self.states = States()
        self.is_metadata_stale = True  # topics may have changed since `metadata_hash`
        # When the initialization of the states of these topics last began. It is not durable: after a fail-over the
        # initialization is tried again.
        self.begun_ms: dict[UUID, int] = {}
        # The states, topics and epoch for which no subscribed partition is without a state. It is not durable.
        self.complete_for: tuple[States, Mapping[str, Topic], int] | None = None
        self.last_append = 0

    def apply(self, key: ShareKey, value: Value | None) -> None:
        member = self.members.get(key.member_id)
        match key.kind, value:
            case Kind.GROUP_EPOCH, GroupEpoch():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case Kind.MEMBER, ShareMemberValue():
                self._subscriptions[value.subscribed_topic_names] += 1
                if member is None:
                    self.members[key.member_id] = ShareMember(member_id=key.member_id, value=value)
                    if (current := self._early.pop(key.member_id, None)) is not None:
                        self._set_current(self.members[key.member_id], current)
                else:
                    self._unsubscribe(member.value.subscribed_topic_names)
                    member.value = value
            case Kind.MEMBER, None:
                if member is not None:
                    self._unsubscribe(member.value.subscribed_topic_names)
                    del self.members[key.member_id]
            case Kind.TARGET_EPOCH, TargetEpoch():
                self.target_epoch, self.assigned_ms = value.epoch, value.timestamp_ms
            case Kind.TARGET_MEMBER, TargetMember():
                self.targets[key.member_id] = value.partitions
            case Kind.TARGET_MEMBER, None:
                self.targets.pop(key.member_id, None)
            case Kind.CURRENT_MEMBER, CurrentMember():
                if member is None:
                    self._early[key.member_id] = value
                else:
                    self._set_current(member, value)
            case Kind.CURRENT_MEMBER, None:
                self._early.pop(key.member_id, None)
            case Kind.STATES, States():
                self.states = value
            case Kind.STATES, None:
                self.states = States()

    def _unsubscribe(self, names: tuple[str, ...]) -> None:
        self._subscriptions[names] -= 1
        if not self._subscriptions[names]:
            del self._subscriptions[names]

    def _set_current(self, member: ShareMember, current: CurrentMember) -> None:
        member.epoch, member.previous_epoch = current.member_epoch, current.previous_member_epoch
        member.assigned = current.assigned

    def subscribed_names(self) -> set[str]:
        return set(chain.from_iterable(self._subscriptions))

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    def next_deadline_ms(self) -> int | None:
        return min((member.session_deadline_ms for member in self.members.values()), default=None)

    def initialized(self) -> Assignment:
        return {topic_id: topic.partitions for topic_id, topic in self.states.initialized.items()}

    def has_states(self) -> bool:
        return bool(self.states.initializing or self.states.initialized or self.states.deleting)

    def described(self) -> DescribedShareGroup:
        return DescribedShareGroup(
            state=self.state,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            members=tuple(
                DescribedShareMember(
                    member_id=member.member_id,
                    rack_id=member.value.rack_id,
                    member_epoch=member.epoch,
                    client_id=member.value.client_id,
                    client_host=member.value.client_host,
                    subscribed_topic_names=member.value.subscribed_topic_names,
                    assignment=member.assigned,
                )
                for _, member in sorted(self.members.items())
            ),
        )

    def durable(self) -> object:
        members = {
            member_id: (member.value, member.epoch, member.previous_epoch, dict(member.assigned))
            for member_id, member in self.members.items()
        }
        targets = {member_id: dict(target) for member_id, target in self.targets.items()}
        return self.epoch, self.metadata_hash, self.target_epoch, self.assigned_ms, members, targets, self.states

    def check_invariants(self) -> None:
        assert self.target_epoch <= self.epoch
        assert set(self.targets) <= set(self.members)
        subscriptions = [member.value.subscribed_topic_names for member in self.members.values()]
        assert self._subscriptions == Counter(subscriptions)
        for member in self.members.values():
            assert member.previous_epoch <= member.epoch <= self.epoch
        for topic_id, topic in self.states.initializing.items():
            known = self.states.initialized.get(topic_id)
            assert known is None or not (topic.partitions & known.partitions), f"{topic.name} is both"


def with_partitions(
    topics: Mapping[UUID, TopicPartitions], added: Mapping[UUID, TopicPartitions]
) -> dict[UUID, TopicPartitions]:
    found = dict(topics)
    for topic_id, topic in added.items():
        known = found.get(topic_id)
        partitions = topic.partitions if known is None else known.partitions | topic.partitions
        found[topic_id] = TopicPartitions(name=topic.name, partitions=partitions)
    return found


def without_partitions(topics: Mapping[UUID, TopicPartitions], removed: Assignment) -> dict[UUID, TopicPartitions]:
    found = {}
    for topic_id, topic in topics.items():
        left = topic.partitions - removed.get(topic_id, frozenset())
        if left:
            found[topic_id] = TopicPartitions(name=topic.name, partitions=left)
    return found

"""Share groups (KIP-932): what one ShareGroupHeartbeat changes, and what happens when a member stays silent for too
long.

Members subscribe by topic names. Before a partition is assigned, the share coordinators must have a state for it. The
answer to a heartbeat names the partitions whose state must be initialized. A member enters the target's epoch at once:
several members may read a partition, so no member has to give it up first.
Shown by tests/broker_coordinator/test_coordinator_share_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from broker.coordinator.groups.assignment_interval import is_assignment_due
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, metadata_hash
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.events import Topic
from broker.coordinator.groups.records import Assignment
from broker.node.features.share_groups.delivery.state_batches import NO_START_OFFSET
from broker.node.features.share_groups.groups.assignor import assign
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import (
    Offsets,
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareSettingsChanged,
)
from broker.node.features.share_groups.groups.group import ShareGroup, ShareMember, with_partitions, without_partitions
from broker.node.features.share_groups.groups.records import (
    CurrentMember,
    GroupEpoch,
    Kind,
    ShareKey,
    ShareMemberValue,
    ShareRecord,
    States,
    TargetEpoch,
    TargetMember,
    TopicPartitions,
    Value,
)
from broker.wire.errors import ErrorCode


class ShareDraft:
    """The records of one event. They are applied to the group as they are added, so that the next step sees them."""

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[ShareRecord] = []

    def add(self, kind: Kind, value: Value | None, member_id: str = "") -> None:
        key = ShareKey(kind=kind, group_id=self.group.group_id, member_id=member_id)
        self.records.append((key, value))
        self.group.apply(key, value)


class ShareProtocol:
    """It changes groups through drafts. Its own state is what it was told about topics and session timeouts."""

    def __init__(self, config: ShareGroupConfig, *, wall_ms: Callable[[int], int]) -> None:
        self._config, self._wall_ms = config, wall_ms
        self.topics: Mapping[str, Topic] = {}
        # The key is the id of a group that has its own.
        self._session_timeouts_ms: Mapping[str, int] = {}
        self._assignment_intervals_ms: Mapping[str, int] = {}
        self._assignment_interval_ms = config.group_share_assignment_interval_ms

    def set_times(self, event: ShareSettingsChanged) -> None:
        self._session_timeouts_ms = event.session_timeouts_ms
        self._assignment_intervals_ms = event.assignment_intervals_ms
        if event.assignment_interval_ms is not None:
            self._assignment_interval_ms = event.assignment_interval_ms

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self, draft: ShareDraft, event: ShareHeartbeat, now_ms: int) -> ShareHeartbeatResult:
        """Handles the heartbeat of a member that joins or stays. Raises Refused before any record is added."""
        group = draft.group
        value = self._checked_value(group, event)
        before = group.members.get(event.member_id)
        is_new = before is None or before.value.subscribed_topic_names != value.subscribed_topic_names
        if before is None or before.value != value:
            draft.add(Kind.MEMBER, value, event.member_id)
        member = group.members[event.member_id]
        had = member.assigned
        self.raise_epoch(draft, is_needed=is_new)
        to_initialize = self._to_initialize(draft, now_ms)
        self._assign(draft, now_ms)
        self._enter(draft, member, has_new_topics=is_new)
        member.session_deadline_ms = now_ms + self._session_timeout_ms(group)
        tells_all = event.member_epoch == JOIN_EPOCH or dict(had) != dict(member.assigned)
        return ShareHeartbeatResult(
            error_code=ErrorCode.none,
            member_id=member.member_id,
            member_epoch=member.epoch,
            assignment=member.assigned if tells_all else None,
            to_initialize=to_initialize,
            state_epoch=group.epoch,
        )

    def _session_timeout_ms(self, group: ShareGroup) -> int:
        return self._session_timeouts_ms.get(group.group_id, self._config.group_share_session_timeout_ms)

    def _checked_value(self, group: ShareGroup, event: ShareHeartbeat) -> ShareMemberValue:
        """The member's data after this heartbeat. Raises Refused if the sender may not send it."""
        known = group.members.get(event.member_id)
        limit = self._config.group_share_max_size
        if event.member_epoch != JOIN_EPOCH:
            known = _checked_member(group, event)
        elif known is None and len(group.members) >= limit:
            text = f"The share group has reached its maximum capacity of {limit} members."
            raise Refused(ErrorCode.group_max_size_reached, text)
        names, rack_id = event.subscribed_topic_names, event.rack_id
        return ShareMemberValue(
            rack_id=known.value.rack_id if rack_id is None and known is not None else rack_id,
            client_id=event.client_id,
            client_host=event.client_host,
            subscribed_topic_names=known.value.subscribed_topic_names
            if names is None and known is not None
            else tuple(sorted(set(names or ()))),
        )

    # -- the group ---------------------------------------------------------------------------------------------------

    def subscribed(self, group: ShareGroup) -> dict[str, Topic]:
        """The existing topics that the members subscribe to."""
        return {name: self.topics[name] for name in sorted(group.subscribed_names()) if name in self.topics}

    def raise_epoch(self, draft: ShareDraft, *, is_needed: bool) -> None:
        group = draft.group
        if not is_needed and not group.is_metadata_stale:
            return
        hashed = metadata_hash(self.subscribed(group))
        if is_needed or hashed != group.metadata_hash:
            draft.add(Kind.GROUP_EPOCH, GroupEpoch(epoch=group.epoch + 1, metadata_hash=hashed))
        group.is_metadata_stale = False

    def _to_initialize(self, draft: ShareDraft, now_ms: int) -> Offsets:
        """Returns the partitions without a state, and notes that their initialization has begun. If it began recently
        (group_share_initialize_retry_ms), a partition is left out."""
        group, found = draft.group, dict[UUID, TopicPartitions]()
        # The usual heartbeat of a settled group looks at no topic. What a member subscribes to changes the epoch.
        if group.complete_for is not None and _is_same(group.complete_for, (group.states, self.topics, group.epoch)):
            return {}
        is_complete = True
        for name, topic in self.subscribed(group).items():
            known = group.states.initialized.get(topic.topic_id)
            missing = frozenset(range(topic.partitions)) - (frozenset() if known is None else known.partitions)
            is_complete = is_complete and not missing
            begun_ms = group.begun_ms.get(topic.topic_id)
            is_recent = begun_ms is not None and now_ms < begun_ms + self._config.group_share_initialize_retry_ms
            if is_recent:
                begun = group.states.initializing.get(topic.topic_id)
                missing -= frozenset() if begun is None else begun.partitions
            if missing and topic.topic_id not in group.states.deleting:
                found[topic.topic_id] = TopicPartitions(name=name, partitions=missing)
                group.begun_ms[topic.topic_id] = now_ms
        group.complete_for = (group.states, self.topics, group.epoch) if is_complete else None
        self.note_initializing(draft, found)
        return {topic_id: dict.fromkeys(topic.partitions, NO_START_OFFSET) for topic_id, topic in found.items()}

    def note_initializing(self, draft: ShareDraft, found: Mapping[UUID, TopicPartitions]) -> None:
        states = draft.group.states
        after = with_partitions(states.initializing, found)
        if after != states.initializing:
            draft.add(Kind.STATES, replace(states, initializing=after))

    def initialized(self, draft: ShareDraft, partitions: Assignment, *, is_done: bool) -> None:
        """The states are initialized (`is_done`), or could not be."""
        group, states = draft.group, draft.group.states
        done: dict[UUID, TopicPartitions] = {}
        for topic_id, topic in states.initializing.items():
            made = topic.partitions & partitions.get(topic_id, frozenset())
            if is_done and made:
                done[topic_id] = replace(topic, partitions=made)
        for topic_id in partitions:
            group.begun_ms.pop(topic_id, None)
        after = States(
            initializing=without_partitions(states.initializing, partitions),
            initialized=with_partitions(states.initialized, done),
            deleting=states.deleting,
        )
        if after != states:
            draft.add(Kind.STATES, after)
        if is_done and group.members and group.target_epoch == group.epoch:
            # There are more partitions to assign. An assignment that is still to come has them anyway.
            self.raise_epoch(draft, is_needed=True)

    def _assign(self, draft: ShareDraft, now_ms: int) -> None:
        """Computes the target assignment of the group's epoch, unless it exists, or an assignment was computed only a
        short time ago. Then the one before stays."""
        group, wall_ms = draft.group, self._wall_ms(now_ms)
        interval_ms = self._assignment_intervals_ms.get(group.group_id, self._assignment_interval_ms)
        is_due = is_assignment_due(last_ms=group.assigned_ms, interval_ms=interval_ms, wall_ms=wall_ms)
        if group.target_epoch >= group.epoch or not is_due:
            return
        ids = {name: topic.topic_id for name, topic in self.subscribed(group).items()}
        names = {member_id: member.value.subscribed_topic_names for member_id, member in group.members.items()}
        # Each subscription once: a thousand members may have the same thousands of topics. The names are in order.
        topic_ids = {each: frozenset(ids[name] for name in each if name in ids) for each in set(names.values())}
        subscriptions = {member_id: topic_ids[each] for member_id, each in names.items()}
        is_homogeneous = len(set(map(frozenset, topic_ids))) <= 1
        result = assign(subscriptions, group.initialized(), group.targets, is_homogeneous=is_homogeneous)
        for member_id in sorted(result):
            if member_id not in group.targets or dict(group.targets[member_id]) != result[member_id]:
                draft.add(Kind.TARGET_MEMBER, TargetMember(partitions=result[member_id]), member_id)
        draft.add(Kind.TARGET_EPOCH, TargetEpoch(epoch=group.epoch, timestamp_ms=wall_ms))

    def _enter(self, draft: ShareDraft, member: ShareMember, *, has_new_topics: bool) -> None:
        """Gives the member its target. A topic that it does not subscribe to is left out: it may have given it up while
        no assignment was due, and a target may keep what nobody subscribes to (assignor.py)."""
        group = draft.group
        is_behind = member.epoch != group.target_epoch
        if not is_behind and not has_new_topics:
            return
        topics = (self.topics.get(name) for name in member.value.subscribed_topic_names)
        ids = {topic.topic_id for topic in topics if topic is not None}
        target = group.targets.get(member.member_id, {})
        value = CurrentMember(
            member_epoch=group.target_epoch,
            previous_member_epoch=member.epoch if is_behind else member.previous_epoch,
            assigned={topic_id: indexes for topic_id, indexes in target.items() if topic_id in ids},
        )
        if is_behind or value.assigned != dict(member.assigned):
            draft.add(Kind.CURRENT_MEMBER, value, member.member_id)

    def remove(self, draft: ShareDraft, member_ids: Iterable[str]) -> None:
        """Removes members that left or were silent for too long. The group epoch is raised once for all of them."""
        for member_id in member_ids:
            draft.add(Kind.CURRENT_MEMBER, None, member_id)
            draft.add(Kind.TARGET_MEMBER, None, member_id)
            draft.add(Kind.MEMBER, None, member_id)
        draft.group.is_metadata_stale = True
        self.raise_epoch(draft, is_needed=True)

    def drop_deleted_topics(self, draft: ShareDraft) -> None:
        """Removes the states of topics that do not exist any more. The share coordinators forget such states by
        themselves."""
        states, known = draft.group.states, {topic.topic_id for topic in self.topics.values()}
        after = States(
            initializing={key: each for key, each in states.initializing.items() if key in known},
            initialized={key: each for key, each in states.initialized.items() if key in known},
            deleting={key: each for key, each in states.deleting.items() if key in known},
        )
        if after != states:
            draft.add(Kind.STATES, after)

    def loaded(self, group: ShareGroup, now_ms: int) -> None:
        for member in group.members.values():
            member.session_deadline_ms = now_ms + self._session_timeout_ms(group)


def _is_same(left: tuple[States, Mapping[str, Topic], int], right: tuple[States, Mapping[str, Topic], int]) -> bool:
    """Whether both name the same objects: States and topics are replaced, and never changed in place."""
    return left[0] is right[0] and left[1] is right[1] and left[2] == right[2]


def checked_leaver(group: ShareGroup, member_id: str) -> ShareMember:
    member = group.members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _checked_member(group: ShareGroup, event: ShareHeartbeat) -> ShareMember:
    """Raises Refused, with the messages of Kafka, if the sender is no member, or if its epoch is neither the present
    nor the previous one."""
    member, epoch = checked_leaver(group, event.member_id), event.member_epoch
    known = f"the one known by the group coordinator ({member.epoch})"
    rejoin = "The member must abandon all its partitions and rejoin."
    if epoch > member.epoch:
        text = f"The share group member has a greater member epoch ({epoch}) than {known}. {rejoin}"
        raise Refused(ErrorCode.fenced_member_epoch, text)
    if epoch < member.epoch and epoch != member.previous_epoch:
        text = (
            f"The share group member has a smaller member epoch ({epoch}) than {known}, and it does not match the "
            f"previous member epoch ({member.previous_epoch}). {rejoin}"
        )
        raise Refused(ErrorCode.fenced_member_epoch, text)
    return member


def tombstones(group: ShareGroup) -> list[ShareRecord]:
    """Tombstones for all records of a group without members."""
    kinds = (Kind.STATES, Kind.TARGET_EPOCH, Kind.GROUP_EPOCH)
    return [(ShareKey(kind=kind, group_id=group.group_id), None) for kind in kinds]

"""The new group protocol (KIP-848): what one ConsumerGroupHeartbeat changes, and what happens when a member stays
silent for too long.

Each change is written as records and applied from them. A change of members, subscriptions or topics raises the group
epoch. Then a server-side assignor computes the target assignment of that epoch. The heartbeats bring each member to its
own target, step by step (reconcile.py). Shown by tests/broker_coordinator/test_coordinator_consumer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from uuid import UUID

from broker.coordinator.groups.assignment_interval import is_assignment_due
from broker.coordinator.groups.assignors import ASSIGNORS, MemberSpec
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import (
    JOIN_EPOCH,
    LEFT_FOR_A_WHILE,
    ConsumerGroup,
    ConsumerMember,
    Refresh,
    metadata_hash,
)
from broker.coordinator.groups.draft import Draft, Refused, current_record
from broker.coordinator.groups.events import ConsumerHeartbeat, ConsumerHeartbeatResult, GroupSettingsChanged, Topic
from broker.coordinator.groups.reconcile import Current, MemberState, places, reconcile, subtract, withdraw
from broker.coordinator.groups.records import (
    Assignment,
    CurrentMemberKey,
    GroupEpochKey,
    GroupEpochValue,
    MemberKey,
    MemberValue,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
)
from broker.coordinator.groups.subscriptions import Subscriptions, compiled
from broker.wire.errors import ErrorCode

_NOBODY = MemberValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex=None,
    rebalance_timeout_ms=0,
    server_assignor=None,
)


class Change(Enum):
    """How a member's subscription differs from the one before."""

    NONE = auto()
    UNRESOLVED = auto()  # its pattern is new, and the topics will be known later
    KNOWN = auto()  # the group needs a new assignment


class ConsumerProtocol:
    """It changes groups through drafts. Its own state is what it was told about topics and session timeouts."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        new_id: Callable[[], str],
        wall_ms: Callable[[int], int],
        session_timeouts_ms: Mapping[str, int],  # by the id of a group that has its own
    ) -> None:
        self._config, self._new_id, self._wall_ms = config, new_id, wall_ms
        self.subscriptions = Subscriptions(config)
        self._session_timeouts_ms = session_timeouts_ms
        self._assignment_intervals_ms: Mapping[str, int] = {}
        self._assignment_interval_ms = config.group_consumer_assignment_interval_ms

    def set_times(self, event: GroupSettingsChanged) -> None:
        self._session_timeouts_ms = event.session_timeouts_ms
        self._assignment_intervals_ms = event.assignment_intervals_ms
        if event.assignment_interval_ms is not None:
            self._assignment_interval_ms = event.assignment_interval_ms

    # -- heartbeats --------------------------------------------------------------------------------------------------

    def heartbeat(self, draft: Draft, event: ConsumerHeartbeat, now_ms: int) -> ConsumerHeartbeatResult:
        """Handles the heartbeat of a member that joins or stays. Raises Refused before any record is added."""
        group = draft.group
        is_join = event.member_epoch == JOIN_EPOCH
        member_id = event.member_id or self._new_id()
        value = self._checked_value(group, member_id, event)
        self._plan_refresh(group, member_id, value, event, now_ms)
        if is_join:
            self.admit(draft, member_id, event.instance_id)
        change = self.subscribe(draft, member_id, value)
        before = group.members[member_id].current
        self.raise_epoch(draft, is_needed=change is Change.KNOWN)
        self.assign(draft, now_ms)
        self.reconcile(draft, member_id, {} if is_join else event.owned, change)
        member = group.members[member_id]
        self._limit_revocation(member, now_ms)
        member.session_deadline_ms = now_ms + self._session_timeout_ms(group)
        subscribes = event.subscribed_topic_names is not None or event.subscribed_topic_regex is not None
        is_full = event.rebalance_timeout_ms >= 0 and subscribes and event.owned is not None
        has_changed = dict(member.current.assigned) != dict(before.assigned)
        tells_all = is_join or is_full or has_changed  # is_full: a client that missed an answer sends all its fields
        return ConsumerHeartbeatResult(
            error_code=ErrorCode.none,
            member_id=member_id,
            member_epoch=member.current.member_epoch,
            assignment=member.current.assigned if tells_all else None,
        )

    def _plan_refresh(
        self, group: ConsumerGroup, member_id: str, value: MemberValue, event: ConsumerHeartbeat, now_ms: int
    ) -> None:
        """Plans that the group's patterns are resolved after this heartbeat, with the rights of its sender."""
        known = group.members.get(group.static_members.get(event.instance_id or "", member_id))
        old = None if known is None else known.value.subscribed_topic_regex
        wall_ms = self._wall_ms(now_ms)
        patterns = self.subscriptions.due_patterns(group, old, value.subscribed_topic_regex, wall_ms)
        if patterns:
            group.refresh = Refresh(patterns=patterns, may_describe=event.may_describe, at_ms=now_ms)

    def resolve_patterns(self, draft: Draft, now_ms: int) -> None:
        """Carries out the planned refresh. The next heartbeats bring the new assignment."""
        has_changed = self.subscriptions.resolve(draft, self._wall_ms(now_ms))
        draft.group.is_metadata_stale = True
        self.raise_epoch(draft, is_needed=has_changed)

    def _session_timeout_ms(self, group: ConsumerGroup) -> int:
        return self._session_timeouts_ms.get(group.group_id, self._config.group_consumer_session_timeout_ms)

    def _checked_value(self, group: ConsumerGroup, member_id: str, event: ConsumerHeartbeat) -> MemberValue:
        """The member's data after this heartbeat. Raises Refused if the sender may not send it."""
        known = group.members.get(member_id)
        if event.member_epoch == JOIN_EPOCH:
            limit = self._config.group_consumer_max_size
            is_new = known is None and event.instance_id not in group.static_members
            if is_new and len(group.members) >= limit:
                raise Refused(ErrorCode.group_max_size_reached, f"the group has its maximum of {limit} members")
            self._check_instance_is_free(group, member_id, event)
        else:
            known = self._checked_member(group, event)
        if event.subscribed_topic_regex:
            compiled(event.subscribed_topic_regex)
        base = _NOBODY if known is None else known.value
        names, regex = event.subscribed_topic_names, event.subscribed_topic_regex
        timeout_ms = event.rebalance_timeout_ms
        return MemberValue(
            instance_id=base.instance_id if event.instance_id is None else event.instance_id,
            rack_id=base.rack_id if event.rack_id is None else event.rack_id,
            client_id=event.client_id,
            client_host=event.client_host,
            subscribed_topic_names=base.subscribed_topic_names if names is None else tuple(sorted(set(names))),
            subscribed_topic_regex=base.subscribed_topic_regex if regex is None else regex or None,
            rebalance_timeout_ms=base.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
            server_assignor=base.server_assignor if event.server_assignor is None else event.server_assignor,
        )

    def _check_instance_is_free(self, group: ConsumerGroup, member_id: str, event: ConsumerHeartbeat) -> None:
        if event.instance_id is None:
            return
        holder = group.static_members.get(event.instance_id)
        if holder in (None, member_id):
            return
        member = group.members[str(holder)]
        if member.current.member_epoch != LEFT_FOR_A_WHILE:
            raise Refused(
                ErrorCode.unreleased_instance_id,
                f"instance id {event.instance_id} is in use by member {holder}",
            )

    def _checked_member(self, group: ConsumerGroup, event: ConsumerHeartbeat) -> ConsumerMember:
        member = group.members.get(event.member_id)
        if event.instance_id is not None:
            holder = group.static_members.get(event.instance_id)
            if holder is None:
                raise Refused(ErrorCode.unknown_member_id, f"instance id {event.instance_id} is not in the group")
            if holder != event.member_id:
                raise Refused(ErrorCode.fenced_instance_id, f"instance id {event.instance_id} belongs to {holder}")
        if member is None:
            raise Refused(ErrorCode.unknown_member_id, f"member {event.member_id} is not in the group")
        current = member.current
        is_answer_lost = event.member_epoch == current.previous_member_epoch and not subtract(
            event.owned or {}, current.assigned
        )
        if event.member_epoch != current.member_epoch and not is_answer_lost:
            raise Refused(
                ErrorCode.fenced_member_epoch,
                f"member {event.member_id} is at epoch {current.member_epoch}, not {event.member_epoch}: join again",
            )
        return member

    def admit(self, draft: Draft, member_id: str, instance_id: str | None) -> None:
        """Lets a static member that has come back take over the data and partitions of its old id. Others are admitted
        by `subscribe`."""
        group = draft.group
        old_id = None if instance_id is None else group.static_members.get(instance_id)
        if old_id is not None and old_id != member_id:
            old = group.members[old_id]
            target, current = group.targets.get(old_id, {}), replace(old.current, member_epoch=JOIN_EPOCH)
            old_value = old.value
            self.forget(draft, old_id)
            draft.add((MemberKey(group_id=group.group_id, member_id=member_id), old_value))
            draft.add(
                (TargetMemberKey(group_id=group.group_id, member_id=member_id), TargetMemberValue(partitions=target))
            )
            draft.add(current_record(group.group_id, member_id, current))

    def subscribe(self, draft: Draft, member_id: str, value: MemberValue) -> Change:
        """Writes the member's data. The member may be new."""
        group, known = draft.group, draft.group.members.get(member_id)
        if known is not None and value == known.value:
            return Change.NONE
        change = _change(group, _NOBODY if known is None else known.value, value)
        draft.add((MemberKey(group_id=group.group_id, member_id=member_id), value))
        self.subscriptions.drop_unused(draft)
        group.is_metadata_stale = group.is_metadata_stale or change is Change.KNOWN
        return change

    def check_leave(self, group: ConsumerGroup, event: ConsumerHeartbeat) -> None:
        """Raises Refused if the sender is not this member."""
        member_id = event.member_id
        if event.instance_id is not None:
            holder = group.static_members.get(event.instance_id)
            if holder is None:
                raise Refused(ErrorCode.unknown_member_id, f"instance id {event.instance_id} is not in the group")
            if holder != member_id:
                raise Refused(ErrorCode.fenced_instance_id, f"instance id {event.instance_id} belongs to {holder}")
        if member_id not in group.members:
            raise Refused(ErrorCode.unknown_member_id, f"member {member_id} is not in the group")

    def leave_for_a_while(self, draft: Draft, member_id: str) -> None:
        """A static member leaves for a while. The partitions that it had to give up become free. The rest is kept for
        it until its session times out."""
        group = draft.group
        member = group.members[member_id]
        kept = set(places(member.current.assigned))
        away = Current(
            member_epoch=LEFT_FOR_A_WHILE,
            previous_member_epoch=member.current.previous_member_epoch,
            assigned=member.current.assigned,
            epochs={place: epoch for place, epoch in member.current.epochs.items() if place in kept},
        )
        draft.add(current_record(group.group_id, member_id, away))
        member.revoke_deadline_ms = None

    # -- the group ---------------------------------------------------------------------------------------------------

    def members_left(self, draft: Draft) -> None:
        """Raises the group epoch once, for all members that were removed."""
        self.subscriptions.drop_unused(draft)
        draft.group.is_metadata_stale = True
        self.raise_epoch(draft, is_needed=True)

    def forget(self, draft: Draft, member_id: str) -> None:
        """Writes tombstones for all records of this member."""
        group_id = draft.group.group_id
        draft.add((CurrentMemberKey(group_id=group_id, member_id=member_id), None))
        draft.add((TargetMemberKey(group_id=group_id, member_id=member_id), None))
        draft.add((MemberKey(group_id=group_id, member_id=member_id), None))

    def raise_epoch(self, draft: Draft, *, is_needed: bool) -> None:
        group = draft.group
        if not is_needed and not group.is_metadata_stale:
            return
        hashed = metadata_hash(self.subscriptions.of_group(group))
        if is_needed or hashed != group.metadata_hash:
            value = GroupEpochValue(epoch=group.epoch + 1, metadata_hash=hashed)
            draft.add((GroupEpochKey(group_id=group.group_id), value))
        group.is_metadata_stale = False

    def is_assignment_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Whether the group's epoch has no target assignment, and one may be computed already."""
        return group.target_epoch < group.epoch and is_assignment_due(
            last_ms=group.assigned_ms,
            interval_ms=self._assignment_intervals_ms.get(group.group_id, self._assignment_interval_ms),
            wall_ms=self._wall_ms(now_ms),
        )

    def assign(self, draft: Draft, now_ms: int) -> None:
        """Computes the target assignment of the group's epoch, if it is due. Until then the one before stays."""
        group = draft.group
        if not self.is_assignment_due(group, now_ms):
            return
        by_member = self.subscriptions.of_members(group)
        # Members with the same subscription share the dict, and here the set.
        topic_ids = {id(each): frozenset(topic.topic_id for topic in each.values()) for each in _distinct(by_member)}
        members = tuple(
            MemberSpec(
                member_id=member_id,
                instance_id=member.value.instance_id,
                topic_ids=topic_ids[id(by_member[member_id])],
                owned=group.targets.get(member_id, {}),
            )
            for member_id, member in sorted(group.members.items())
        )
        topics: dict[UUID, int] = {
            topic.topic_id: topic.partitions for each in _distinct(by_member) for topic in each.values()
        }
        assignor = ASSIGNORS[group.preferred_assignor(self._config.group_consumer_assignors[0])]
        result = assignor(members, topics)
        for member_id in sorted(result):
            if member_id not in group.targets or dict(group.targets[member_id]) != result[member_id]:
                key = TargetMemberKey(group_id=group.group_id, member_id=member_id)
                draft.add((key, TargetMemberValue(partitions=result[member_id])))
        value = TargetEpochValue(assignment_epoch=group.epoch, timestamp_ms=self._wall_ms(now_ms))
        draft.add((TargetEpochKey(group_id=group.group_id), value))

    def reconcile(self, draft: Draft, member_id: str, owned: Assignment | None, change: Change) -> None:
        """`owned` are the partitions that the member says it owns; None if it did not tell. The target may be older
        than the member's subscription. Then the member gets only what it still subscribes to."""
        group = draft.group
        member = group.members[member_id]
        is_settled = member.current.state is MemberState.STABLE and member.current.member_epoch == group.target_epoch
        if is_settled and change is Change.NONE:
            return
        subscribed, target = self.subscriptions.topic_ids(group, member.value), group.targets.get(member_id, {})
        after = reconcile(
            member.current,
            target={topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed},
            target_epoch=group.target_epoch,
            owned=owned,
            is_free=group.is_free,
        )
        if change is not Change.NONE and after == member.current:
            after = withdraw(member.current, subscribed=subscribed, owned=owned)
        if after != member.current:
            draft.add(current_record(group.group_id, member_id, after))
            member.revoke_deadline_ms = None

    def _limit_revocation(self, member: ConsumerMember, now_ms: int) -> None:
        if member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            member.revoke_deadline_ms = None
        elif member.revoke_deadline_ms is None:
            member.revoke_deadline_ms = now_ms + member.value.rebalance_timeout_ms

    # -- time --------------------------------------------------------------------------------------------------------

    def late_members(self, group: ConsumerGroup, now_ms: int) -> list[str]:
        """The members that were silent for too long, or that did not do in time what they had to do."""
        return [member_id for member_id, member in group.members.items() if member.next_deadline_ms() <= now_ms]

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        for member in group.members.values():
            self.restart_session(group, member, now_ms)
            self._limit_revocation(member, now_ms)

    def restart_session(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        member.session_deadline_ms = now_ms + self._session_timeout_ms(group)


def _distinct(by_member: Mapping[str, dict[str, Topic]]) -> list[dict[str, Topic]]:
    return list({id(each): each for each in by_member.values()}.values())


def _change(group: ConsumerGroup, old: MemberValue, new: MemberValue) -> Change:
    """As in Kafka, another server-side assignor alone needs no new assignment."""
    pattern = new.subscribed_topic_regex
    if new.subscribed_topic_names != old.subscribed_topic_names:
        return Change.KNOWN
    if pattern == old.subscribed_topic_regex:
        return Change.NONE
    return Change.KNOWN if not pattern or pattern in group.resolved else Change.UNRESOLVED

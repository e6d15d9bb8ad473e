"""The requests of members to a group of either protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
ConsumerGroupHeartbeat.

This module decides which protocol a group uses. A group changes its protocol only while it has no members: one with
members refuses those of the other protocol. The rules of the two protocols are in classic.py and consumer.py. Shown by
tests/broker_coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from broker.coordinator.groups.classic import ClassicProtocol
from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer import ConsumerProtocol
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, LEFT_FOR_A_WHILE, ConsumerGroup
from broker.coordinator.groups.draft import Draft, Refused
from broker.coordinator.groups.events import (
    UNKNOWN_MEMBER,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    SyncGroup,
    SyncResult,
)
from broker.coordinator.groups.records import ClassicGroupKey, Record
from broker.coordinator.outbox import Outbox
from broker.wire.errors import ErrorCode

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup


class MemberedShard(Protocol):
    """The part of the shard that concerns members."""

    groups: dict[str, AnyGroup]

    def apply(self, record: Record, *, producer_id: int = -1) -> None: ...
    def write(self, records: list[Record], *, group: AnyGroup | None) -> int: ...
    def schedule(self, group: AnyGroup) -> None: ...
    def dropped(self, group: AnyGroup) -> bool: ...


class MemberRequests:
    """A part of the shard that reads and changes its groups."""

    def __init__(
        self,
        shard: MemberedShard,
        *,
        config: GroupConfig,
        outbox: Outbox,
        classic: ClassicProtocol,
        consumer: ConsumerProtocol,
        wall_ms: Callable[[int], int],
    ) -> None:
        self._shard, self._config, self._outbox, self._wall_ms = shard, config, outbox, wall_ms
        self._classic, self._consumer = classic, consumer

    # -- classic -----------------------------------------------------------------------------------------------------

    def join(self, event: JoinGroup, now_ms: int) -> None:
        error = ErrorCode.none
        low_ms, high_ms = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        group = self._shard.groups.get(event.group_id)
        if not low_ms <= event.session_timeout_ms <= high_ms:
            error = ErrorCode.invalid_session_timeout
        elif isinstance(group, ConsumerGroup) and group.members:
            error = ErrorCode.inconsistent_group_protocol
        elif not isinstance(group, ClassicGroup) and event.member_id:
            error = ErrorCode.unknown_member_id
        elif not isinstance(group, ClassicGroup) and not (event.protocol_type and event.protocols):
            error = ErrorCode.inconsistent_group_protocol
        if error is not ErrorCode.none:
            result = JoinResult(error_code=error, member_id=event.member_id)
            self._outbox.reply(event.token, result, after=0 if group is None else group.last_append)
            return
        classic = self._classic_group(event.group_id, self._wall_ms(now_ms))
        self._classic.join(classic, event, now_ms)
        if not self._shard.dropped(classic):
            self._shard.schedule(classic)

    def tick(self, group: ConsumerGroup, now_ms: int) -> None:
        """Removes members that are late, and resolves patterns that wait for it."""
        if late := self._consumer.late_members(group, now_ms):
            self.fence(group, late)
        if group.refresh is not None:
            draft = Draft(group)
            self._consumer.resolve_patterns(draft, now_ms)
            if draft.records:
                self._shard.write(draft.records, group=group)

    def fence(self, group: ConsumerGroup, member_ids: Collection[str]) -> None:
        """Removes these members (at least one)."""
        draft = Draft(group)
        for member_id in member_ids:
            self._consumer.forget(draft, member_id)
        self._consumer.members_left(draft)
        self._shard.write(draft.records, group=group)

    def _classic_group(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """The classic group of this name. It is created if there is none. A group of the new protocol without members
        is turned into a classic one."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        classic = ClassicGroup(group_id, state_timestamp_ms=wall_ms)
        if group is not None:
            records = list(group.tombstones())
            for record in records:
                self._shard.apply(record)
            self._shard.write([*records, classic.record()], group=classic)
        self._shard.groups[group_id] = classic
        return classic

    def sync(self, event: SyncGroup, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        if isinstance(group, ClassicGroup):
            self._classic.sync(group, event, now_ms)
            self._shard.schedule(group)
            return
        result = SyncResult(error_code=ErrorCode.unknown_member_id)
        self._outbox.reply(event.token, result, after=0 if group is None else group.last_append)

    def heartbeat(self, event: Heartbeat, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        if isinstance(group, ClassicGroup):
            # a heartbeat only moves a deadline to a later time, so no new timer is needed
            self._classic.heartbeat(group, event, now_ms)
            return
        after = 0 if group is None else group.last_append
        self._outbox.reply(event.token, ErrorCode.unknown_member_id, after=after)

    def leave(self, event: LeaveGroup, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            self._remove_by_admin(group, event)
            return
        if not isinstance(group, ClassicGroup):
            members = tuple((member_id, instance, ErrorCode.unknown_member_id) for member_id, instance in event.members)
            self._outbox.reply(event.token, LeaveResult(error_code=ErrorCode.none, members=members), after=0)
            return
        self._classic.leave(group, event, now_ms)
        if not self._shard.dropped(group):
            self._shard.schedule(group)

    def _remove_by_admin(self, group: ConsumerGroup, event: LeaveGroup) -> None:
        """An admin removes members by LeaveGroup, by instance id or by member id. Members leave by their heartbeat."""
        leaving: dict[str, None] = {}
        results = []
        for asked_id, instance_id in event.members:
            holder = asked_id if instance_id is None else group.static_members.get(instance_id, "")
            error = ErrorCode.none
            if holder not in group.members:
                error = ErrorCode.unknown_member_id
            elif asked_id not in (UNKNOWN_MEMBER, holder):
                error = ErrorCode.fenced_instance_id
            else:
                leaving[holder] = None
            results.append((asked_id, instance_id, error))
        if leaving:
            self.fence(group, leaving)
        self._shard.schedule(group)
        result = LeaveResult(error_code=ErrorCode.none, members=tuple(results))
        self._outbox.reply(event.token, result, after=group.last_append)

    # -- the new protocol ----------------------------------------------------------------------------------------------

    def consumer_heartbeat(self, event: ConsumerHeartbeat, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        after = group
        try:
            if isinstance(group, ConsumerGroup) and event.member_epoch in (LEAVE_EPOCH, LEFT_FOR_A_WHILE):
                result = self._leave_new_protocol(group, event)
            else:
                draft = self._draft(group, event)
                result = self._consumer.heartbeat(draft, event, now_ms)
                after = draft.group
                if draft.records:
                    self._shard.groups[event.group_id] = after
                    self._shard.write(draft.records, group=after)
        except Refused as refused:
            result = ConsumerHeartbeatResult(error_code=refused.error_code, error_message=str(refused))
        if after is not None:
            self._shard.schedule(after)
        self._outbox.reply(event.token, result, after=0 if after is None else after.last_append)

    def _draft(self, group: AnyGroup | None, event: ConsumerHeartbeat) -> Draft:
        """The draft for a member that joins or stays. A classic group without members becomes one of the new
        protocol."""
        if isinstance(group, ConsumerGroup):
            return Draft(group)
        if event.member_epoch != JOIN_EPOCH:
            kind = "does not exist" if group is None else "is not a consumer group"
            raise Refused(ErrorCode.group_id_not_found, f"group {event.group_id} {kind}")
        if group is not None and not group.is_in(State.EMPTY):
            raise Refused(
                ErrorCode.group_id_not_found,
                f"Cannot upgrade classic group {event.group_id} to consumer group because online upgrade is disabled.",
            )
        draft = Draft(ConsumerGroup(event.group_id))
        if group is not None and group.recorded is not None:
            draft.records.append((ClassicGroupKey(group_id=event.group_id), None))
        return draft

    def _leave_new_protocol(self, group: ConsumerGroup, event: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        self._consumer.check_leave(group, event)
        if event.member_epoch == LEAVE_EPOCH:
            self.fence(group, [event.member_id])
        else:
            draft = Draft(group)
            self._consumer.leave_for_a_while(draft, event.member_id)
            self._shard.write(draft.records, group=group)
        return ConsumerHeartbeatResult(
            error_code=ErrorCode.none, member_id=event.member_id, member_epoch=event.member_epoch, assignment=None
        )

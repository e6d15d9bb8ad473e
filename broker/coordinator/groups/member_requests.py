"""The requests of members to a group of either protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
ConsumerGroupHeartbeat.

This module decides which protocol a group uses, and when the protocol changes. The rules of the two protocols are in
classic.py and consumer.py. The rules for classic members in a group of the new protocol are in classic_members.py.
conversion.py makes the records of a change of protocol. Shown by tests/broker_coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeAlias

from broker.coordinator.groups.classic import ClassicProtocol
from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.classic_members import ClassicMembers
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer import ConsumerProtocol
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, LEFT_FOR_A_WHILE, ConsumerGroup
from broker.coordinator.groups.conversion import (
    as_classic_group,
    is_downgrade_due,
    is_last_replaced,
    tombstones,
    upgrade_records,
)
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
        classic_members: ClassicMembers,
        wall_ms: Callable[[int], int],
    ) -> None:
        self._shard, self._config, self._outbox, self._wall_ms = shard, config, outbox, wall_ms
        self._classic, self._consumer, self._classic_members = classic, consumer, classic_members

    # -- classic -----------------------------------------------------------------------------------------------------

    def join(self, event: JoinGroup, now_ms: int) -> None:
        error = ErrorCode.none
        low_ms, high_ms = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        group = self._shard.groups.get(event.group_id)
        if not low_ms <= event.session_timeout_ms <= high_ms:
            error = ErrorCode.invalid_session_timeout
        elif isinstance(group, ConsumerGroup) and group.members:
            self._join_consumer_group(group, event, now_ms)
            return
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

    def _join_consumer_group(self, group: ConsumerGroup, event: JoinGroup, now_ms: int) -> None:
        draft = Draft(group)
        is_last = is_last_replaced(group, event.instance_id, self._config)
        after: AnyGroup = group
        try:
            result = self._classic_members.join(draft, event, now_ms, is_last_replaced=is_last)
        except Refused as refused:
            result = JoinResult(error_code=refused.error_code, member_id=UNKNOWN_MEMBER)
        if is_last and result.error_code is ErrorCode.none:
            after = self._downgrade(draft, now_ms, is_settled=group.is_settled())
        elif draft.records:
            self._shard.write(draft.records, group=group)
        self._shard.schedule(after)
        self._outbox.reply(event.token, result, after=after.last_append)

    def _downgrade(self, draft: Draft, now_ms: int, *, is_settled: bool) -> ClassicGroup:
        """Writes the draft's records, and that the group is a classic one from now on. Unless every member has exactly
        its target and nobody has left, the classic group begins with a rebalance."""
        group = draft.group
        names, wall_ms = self._consumer.subscriptions.names, self._wall_ms(now_ms)
        classic = as_classic_group(group, names, state_timestamp_ms=wall_ms)
        if not is_settled:
            # the record has no leader either, so another coordinator also begins with a rebalance
            classic.leader = None
        self._shard.write([*draft.records, *tombstones(group), classic.record()], group=classic)
        self._shard.groups[group.group_id] = classic
        self._classic.adopt(classic, now_ms, is_settled=is_settled)
        return classic

    def tick(self, group: ConsumerGroup, now_ms: int) -> AnyGroup:
        """Removes members that are late, and resolves patterns that wait for it. Returns the group, which may be a
        classic one now."""
        late = self._consumer.late_members(group, now_ms)
        after: AnyGroup = self.fence(group, late, now_ms) if late else group
        if isinstance(after, ConsumerGroup) and after.refresh is not None:
            draft = Draft(after)
            self._consumer.resolve_patterns(draft, now_ms)
            if draft.records:
                self._shard.write(draft.records, group=after)
        return after

    def fence(self, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> AnyGroup:
        """Removes these members (at least one). Returns the group, which may be a classic one now."""
        draft = Draft(group)
        is_downgrade = is_downgrade_due(group, member_ids, self._config)
        for member_id in member_ids:
            self._consumer.forget(draft, member_id)
        if is_downgrade:
            return self._downgrade(draft, now_ms, is_settled=False)
        self._consumer.members_left(draft)
        self._shard.write(draft.records, group=group)
        return group

    def _classic_group(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """The classic group of this name. It is created if there is none. A group of the new protocol without members
        is turned into a classic one."""
        group = self._shard.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            return group
        classic = ClassicGroup(group_id, state_timestamp_ms=wall_ms)
        if group is not None:
            records = list(tombstones(group))
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
        if group is not None:
            try:
                result = self._classic_members.sync(group, event, now_ms)
            except Refused as refused:
                result = SyncResult(error_code=refused.error_code)
            self._shard.schedule(group)
        self._outbox.reply(event.token, result, after=0 if group is None else group.last_append)

    def heartbeat(self, event: Heartbeat, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        if isinstance(group, ClassicGroup):
            # a heartbeat only moves a deadline to a later time, so no new timer is needed
            self._classic.heartbeat(group, event, now_ms)
            return
        error = ErrorCode.unknown_member_id
        if group is not None:
            try:
                error = self._classic_members.heartbeat(group, event, now_ms)
            except Refused as refused:
                error = refused.error_code
            self._shard.schedule(group)
        self._outbox.reply(event.token, error, after=0 if group is None else group.last_append)

    def leave(self, event: LeaveGroup, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            self._leave_consumer_group(group, event, now_ms)
            return
        if not isinstance(group, ClassicGroup):
            members = tuple((member_id, instance, ErrorCode.unknown_member_id) for member_id, instance in event.members)
            self._outbox.reply(event.token, LeaveResult(error_code=ErrorCode.none, members=members), after=0)
            return
        self._classic.leave(group, event, now_ms)
        if not self._shard.dropped(group):
            self._shard.schedule(group)

    def _leave_consumer_group(self, group: ConsumerGroup, event: LeaveGroup, now_ms: int) -> None:
        """A classic member leaves, or an admin removes members of either protocol, by instance id or by member id."""
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
        after = self.fence(group, leaving, now_ms) if leaving else group
        self._shard.schedule(after)
        result = LeaveResult(error_code=ErrorCode.none, members=tuple(results))
        self._outbox.reply(event.token, result, after=after.last_append)

    # -- the new protocol ----------------------------------------------------------------------------------------------

    def consumer_heartbeat(self, event: ConsumerHeartbeat, now_ms: int) -> None:
        group = self._shard.groups.get(event.group_id)
        after = group
        try:
            if isinstance(group, ConsumerGroup) and event.member_epoch in (LEAVE_EPOCH, LEFT_FOR_A_WHILE):
                after, result = self._leave_new_protocol(group, event, now_ms)
            else:
                draft = self._draft(group, event, now_ms)
                result = self._consumer.heartbeat(draft, event, now_ms)
                after = draft.group
                if isinstance(group, ClassicGroup):
                    self._classic.give_up(group)
                if draft.records:
                    self._shard.groups[event.group_id] = after
                    self._shard.write(draft.records, group=after)
        except Refused as refused:
            result = ConsumerHeartbeatResult(error_code=refused.error_code, error_message=str(refused))
        if after is not None:
            self._shard.schedule(after)
        self._outbox.reply(event.token, result, after=0 if after is None else after.last_append)

    def _draft(self, group: AnyGroup | None, event: ConsumerHeartbeat, now_ms: int) -> Draft:
        """The draft for a member that joins or stays. If the group is a classic one, the draft converts it to the new
        protocol."""
        if isinstance(group, ConsumerGroup):
            return Draft(group)
        if event.member_epoch != JOIN_EPOCH:
            kind = "does not exist" if group is None else "is not a consumer group"
            raise Refused(ErrorCode.group_id_not_found, f"group {event.group_id} {kind}")
        draft = Draft(ConsumerGroup(event.group_id))
        if group is None:
            return draft
        if not group.is_in(State.EMPTY):
            for record in upgrade_records(group, self._consumer.subscriptions.topics, self._config):
                draft.add(record)
            for member in draft.group.members.values():
                self._consumer.restart_session(draft.group, member, now_ms)
        if group.recorded is not None:
            draft.records.insert(0, (ClassicGroupKey(group_id=event.group_id), None))
        return draft

    def _leave_new_protocol(
        self, group: ConsumerGroup, event: ConsumerHeartbeat, now_ms: int
    ) -> tuple[AnyGroup, ConsumerHeartbeatResult]:
        self._consumer.check_leave(group, event)
        after: AnyGroup = group
        if event.member_epoch == LEAVE_EPOCH:
            after = self.fence(group, [event.member_id], now_ms)
        else:
            draft = Draft(group)
            self._consumer.leave_for_a_while(draft, event.member_id)
            self._shard.write(draft.records, group=group)
        return after, ConsumerHeartbeatResult(
            error_code=ErrorCode.none, member_id=event.member_id, member_epoch=event.member_epoch, assignment=None
        )

"""The share groups of one partition of `__consumer_offsets`: dispatch of their events, records in and out, timers.

The group shard has it as a part (broker/coordinator/groups/kinds.py). A group of another kind with the same name is not
a share group. If members of other kinds send requests to a share group, this module answers them.
Shown by tests/broker_coordinator/test_coordinator_share_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.events import (
    CommitOffsets,
    CommitResult,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DeleteGroup,
    DeleteOffsets,
    DeleteOffsetsResult,
    GroupOfOtherKind,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    ListedGroup,
    StatesToDelete,
    SyncGroup,
    SyncResult,
    Topic,
)
from broker.coordinator.groups.records import Assignment
from broker.coordinator.groups.timers import GroupTimers
from broker.coordinator.outbox import Outbox
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import (
    AlteredShares,
    AlterShares,
    BegunShares,
    DeletedShares,
    DeleteShares,
    DescribeShareGroup,
    ShareHeartbeat,
    ShareHeartbeatResult,
    SharesDeleted,
    ShareSettingsChanged,
    SharesInitialized,
    SharesOf,
)
from broker.node.features.share_groups.groups.group import ShareGroup
from broker.node.features.share_groups.groups.offsets import alter, begin_deletion, begin_deletion_of_all, deleted
from broker.node.features.share_groups.groups.protocol import ShareDraft, ShareProtocol, checked_leaver, tombstones
from broker.node.features.share_groups.groups.records import Kind, ShareRecord, decode, encode
from broker.wire.errors import ErrorCode

GROUP_TYPE = "share"  # as in ListGroups
_Foreign: TypeAlias = (
    JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets | DeleteOffsets | ConsumerHeartbeat | DeleteGroup
)


class ShareGroups:
    """`is_other(group id)`: whether there is a group of another kind with that name."""

    def __init__(
        self,
        *,
        config: ShareGroupConfig,
        outbox: Outbox,
        is_other: Callable[[str], bool],
        wall_ms: Callable[[int], int],
    ) -> None:
        self._outbox, self._is_other = outbox, is_other
        self.groups: dict[str, ShareGroup] = {}
        self._protocol = ShareProtocol(config, wall_ms=wall_ms)
        self._is_cleanup_due = False
        self._timers = GroupTimers()

    @property
    def read_only(self) -> tuple[type, ...]:
        return DescribeShareGroup, SharesOf, ShareSettingsChanged

    def has(self, group_id: str) -> bool:
        return group_id in self.groups

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Applies a record. Returns whether it was a record of a share group."""
        record = decode(key, value)
        if record is None:
            return False
        typed_key, typed_value = record
        group = self.groups.get(typed_key.group_id)
        if typed_key.kind is Kind.GROUP_EPOCH and typed_value is None:
            self.groups.pop(typed_key.group_id, None)
        elif group is not None or typed_value is not None:
            if group is None:
                group = self.groups[typed_key.group_id] = ShareGroup(typed_key.group_id)
            group.apply(typed_key, typed_value)
        return True

    def _write(self, group: ShareGroup, records: Iterable[ShareRecord]) -> None:
        written = [encode(record) for record in records]
        if written:
            self.groups[group.group_id] = group
            group.last_append = self._outbox.append(written)

    # -- events ------------------------------------------------------------------------------------------------------

    def handle(self, event: object, now_ms: int) -> bool:
        """Handles an event. Returns whether it was about a share group. If not, another part of the shard must handle
        it."""
        match event:
            case ShareHeartbeat():
                self._heartbeat(event, now_ms)
            case SharesInitialized():
                self._change(event, lambda draft: self._initialized(draft, event))
            case AlterShares():
                self._alter(event, now_ms)
            case DeleteShares():
                self._delete_shares(event)
            case SharesDeleted():
                self._change(event, lambda draft: deleted(draft, event.topic_ids))
            case DescribeShareGroup() | SharesOf():
                self._describe(event)
            case ShareSettingsChanged():
                self._protocol.set_times(event)
            case _:
                group = self.groups.get(getattr(event, "group_id", ""))
                return group is not None and isinstance(event, _Foreign) and self._foreign(group, event)
        return True

    def _heartbeat(self, event: ShareHeartbeat, now_ms: int) -> None:
        group = self.groups.get(event.group_id)
        try:
            draft = ShareDraft(self._group_of(event))
            if event.member_epoch == LEAVE_EPOCH:
                self._protocol.remove(draft, [checked_leaver(draft.group, event.member_id).member_id])
                result = ShareHeartbeatResult(
                    error_code=ErrorCode.none, member_id=event.member_id, member_epoch=LEAVE_EPOCH
                )
            else:
                result = self._protocol.heartbeat(draft, event, now_ms)
            group = draft.group
            self._write(group, draft.records)
            self._schedule(group)
        except Refused as refused:
            result = ShareHeartbeatResult(error_code=refused.error_code, error_message=str(refused))
        self._reply(event.token, result, group)

    def _group_of(self, event: ShareHeartbeat) -> ShareGroup:
        group = self.groups.get(event.group_id)
        if group is not None:
            return group
        if self._is_other(event.group_id):
            raise Refused(ErrorCode.group_id_not_found, f"Group {event.group_id} is not a share group.")
        if event.member_epoch != JOIN_EPOCH:
            raise Refused(ErrorCode.group_id_not_found, f"Share group {event.group_id} not found.")
        return ShareGroup(event.group_id)

    def _change(self, event: SharesInitialized | SharesDeleted, change: Callable[[ShareDraft], None]) -> None:
        group = self.groups.get(event.group_id)
        if group is not None:  # it may have been deleted meanwhile
            draft = ShareDraft(group)
            change(draft)
            self._write(group, draft.records)
        self._reply(event.token, ErrorCode.none, group)

    def _initialized(self, draft: ShareDraft, event: SharesInitialized) -> None:
        self._protocol.initialized(draft, event.partitions, is_done=event.is_done)

    def _reply(self, token: int, result: object, group: ShareGroup | None) -> None:
        self._outbox.reply(token, result, after=0 if group is None else group.last_append)

    def _describe(self, event: DescribeShareGroup | SharesOf) -> None:
        group = self.groups.get(event.group_id)
        result: object = None
        if isinstance(event, DescribeShareGroup):
            if group is not None:
                result = group.described()
            elif self._is_other(event.group_id):
                result = GroupOfOtherKind()
        else:
            result = BegunShares(partitions={} if group is None else group.initialized())
        self._reply(event.token, result, group)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def _alter(self, event: AlterShares, now_ms: int) -> None:
        group = self.groups.get(event.group_id)
        if group is None and self._is_other(event.group_id):
            text = f"Group {event.group_id} is not a share group."
            result = AlteredShares(error_code=ErrorCode.group_id_not_found, error_message=text)
        else:
            draft = ShareDraft(group or ShareGroup(event.group_id))
            result = alter(draft, event, self._protocol, now_ms)
            self._write(draft.group, draft.records)
            group = draft.group
        self._reply(event.token, result, group)

    def _delete_shares(self, event: DeleteShares) -> None:
        group = self.groups.get(event.group_id)
        if group is None:
            kind = "is not a share group." if self._is_other(event.group_id) else "not found."
            text = f"Group {event.group_id} {kind}"
            result = DeletedShares(error_code=ErrorCode.group_id_not_found, error_message=text)
        else:
            draft = ShareDraft(group)
            result = begin_deletion(draft, event, self._protocol)
            self._write(group, draft.records)
        self._reply(event.token, result, group)

    def _delete_group(self, group: ShareGroup, event: DeleteGroup) -> None:
        result: ErrorCode | StatesToDelete = ErrorCode.none
        if group.members:
            result = ErrorCode.non_empty_group
        elif group.has_states() and not event.are_states_deleted:
            draft = ShareDraft(group)
            partitions: Assignment = begin_deletion_of_all(draft, self._protocol)
            self._write(group, draft.records)
            result = StatesToDelete(group_type=GROUP_TYPE, partitions=partitions)
        else:
            self._write(group, tombstones(group))
            del self.groups[group.group_id]
        self._reply(event.token, result, group)

    # -- members of other kinds ----------------------------------------------------------------------------------------

    def _foreign(self, group: ShareGroup, event: _Foreign) -> bool:
        """Answers a request of a member of another kind, as Kafka does."""
        not_found, unknown = ErrorCode.group_id_not_found, ErrorCode.unknown_member_id
        result: object = unknown
        match event:
            case DeleteGroup():
                self._delete_group(group, event)
                return True
            case JoinGroup():
                result = JoinResult(error_code=ErrorCode.inconsistent_group_protocol, member_id="")
            case SyncGroup():
                result = SyncResult(error_code=unknown)
            case LeaveGroup():
                members = tuple((member_id, instance_id, unknown) for member_id, instance_id in event.members)
                result = LeaveResult(error_code=ErrorCode.none, members=members)
            case CommitOffsets():
                result = CommitResult(error_code=not_found, partitions={})
            case DeleteOffsets():
                result = DeleteOffsetsResult(error_code=not_found, partitions={})
            case ConsumerHeartbeat():
                text = f"Group {group.group_id} is not a consumer group."
                result = ConsumerHeartbeatResult(error_code=not_found, error_message=text)
        self._reply(event.token, result, group)
        return True

    def listed(self) -> list[ListedGroup]:
        return [
            ListedGroup(group_id=group_id, protocol_type=GROUP_TYPE, state=group.state, group_type=GROUP_TYPE)
            for group_id, group in sorted(self.groups.items())
        ]

    # -- topics and time -----------------------------------------------------------------------------------------------

    def topics_changed(self, topics: Mapping[str, Topic], *, is_complete: bool) -> None:
        self._protocol.topics = topics
        known: set[UUID] = {topic.topic_id for topic in topics.values()}
        for group in self.groups.values():
            group.is_metadata_stale = True
            states = group.states
            if is_complete and {*states.initialized, *states.initializing, *states.deleting} - known:
                self._is_cleanup_due = True

    def loaded(self, now_ms: int) -> None:
        for group in self.groups.values():
            self._protocol.loaded(group, now_ms)
            self._schedule(group)

    def _schedule(self, group: ShareGroup) -> None:
        self._timers.plan(group.group_id, group.next_deadline_ms())

    def next_deadline_ms(self) -> int | None:
        if self._is_cleanup_due:
            return 0
        return self._timers.next_ms()

    def tick(self, now_ms: int) -> None:
        if self._is_cleanup_due:
            self._is_cleanup_due = False
            for group in self.groups.values():
                draft = ShareDraft(group)
                self._protocol.drop_deleted_topics(draft)
                self._write(group, draft.records)
        for group_id in self._timers.due(now_ms):
            silent = self.groups.get(group_id)
            if silent is None:
                continue
            late = [key for key, member in silent.members.items() if member.session_deadline_ms <= now_ms]
            if late:
                draft = ShareDraft(silent)
                self._protocol.remove(draft, late)
                self._write(silent, draft.records)
            self._schedule(silent)

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            assert not self._is_other(group_id), f"{group_id} is of two kinds"
            group.check_invariants()
            self._timers.check(group_id, group.next_deadline_ms())

    def durable(self) -> dict[str, object]:
        return {group_id: group.durable() for group_id, group in self.groups.items()}

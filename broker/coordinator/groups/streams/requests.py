"""The streams groups of one partition of `__consumer_offsets`: dispatch of their events, records in and out, timers.

It is a part of the group shard (shard.py). A group of another kind with the same name is not a streams group. If
members of other kinds send requests to a streams group, this module answers them. commits.py handles its offsets.
Shown by tests/broker_coordinator/test_coordinator_streams_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeAlias

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, LEFT_FOR_A_WHILE
from broker.coordinator.groups.draft import Refused
from broker.coordinator.groups.events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    GroupOfOtherKind,
    Heartbeat,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    ListedGroup,
    SyncGroup,
    SyncResult,
    Topic,
)
from broker.coordinator.groups.streams.checks import checked_leaver
from broker.coordinator.groups.streams.description import described
from broker.coordinator.groups.streams.draft import StreamsDraft, tombstones
from broker.coordinator.groups.streams.events import (
    DescribeStreamsGroup,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    StreamsSettingsChanged,
)
from broker.coordinator.groups.streams.group import StreamsGroup
from broker.coordinator.groups.streams.protocol import StreamsProtocol, request_shutdown
from broker.coordinator.groups.streams.record_codec import decode, encode
from broker.coordinator.groups.streams.records import Kind, StreamsRecord
from broker.coordinator.groups.timers import GroupTimers
from broker.coordinator.outbox import Outbox
from broker.wire.errors import ErrorCode

READ_ONLY = (DescribeStreamsGroup, StreamsSettingsChanged)
_Foreign: TypeAlias = JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerHeartbeat


class OtherGroups(Protocol):
    """The part of the shard that concerns the names of groups of other kinds."""

    def is_name_used(self, group_id: str) -> bool:
        """Whether a group that is not a streams group has this name. Committed offsets are enough for that."""
        ...

    def may_take_name(self, group_id: str) -> bool:
        """Whether a new streams group may have this name: nothing has it, or a classic group without members."""
        ...

    def vacate_name(self, group_id: str) -> None:
        """Removes the classic group without members that has this name."""
        ...


class StreamsGroups:
    def __init__(
        self, others: OtherGroups, *, config: GroupConfig, outbox: Outbox, wall_ms: Callable[[int], int]
    ) -> None:
        self._others, self._outbox = others, outbox
        self.groups: dict[str, StreamsGroup] = {}
        self._protocol = StreamsProtocol(config, wall_ms=wall_ms)
        self._timers = GroupTimers()

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> bool:
        """Applies a record. Returns whether it was a record of a streams group."""
        record = decode(key, value)
        if record is None:
            return False
        typed_key, typed_value = record
        group = self.groups.get(typed_key.group_id)
        if typed_key.kind is Kind.GROUP and typed_value is None:
            self.groups.pop(typed_key.group_id, None)
        elif group is not None or typed_value is not None:
            if group is None:
                group = self.groups[typed_key.group_id] = StreamsGroup(typed_key.group_id)
            group.apply(typed_key, typed_value)
        return True

    def _write(self, group: StreamsGroup, records: Iterable[StreamsRecord]) -> None:
        written = [encode(record) for record in records]
        if written:
            self.groups[group.group_id] = group
            group.last_append = self._outbox.append(written)

    # -- events ------------------------------------------------------------------------------------------------------

    def handle(self, event: object, now_ms: int) -> bool:
        """Handles an event. Returns whether it was about a streams group. If not, another part of the shard must handle
        it."""
        match event:
            case StreamsHeartbeat():
                self._heartbeat(event, now_ms)
            case DescribeStreamsGroup():
                self._describe(event)
            case StreamsSettingsChanged():
                self._protocol.settings = event
            case _:
                group = self.groups.get(getattr(event, "group_id", ""))
                return group is not None and isinstance(event, _Foreign) and self._foreign(group, event)
        return True

    def _reply(self, token: int, result: object, group: StreamsGroup | None) -> None:
        self._outbox.reply(token, result, after=0 if group is None else group.last_append)

    def _heartbeat(self, event: StreamsHeartbeat, now_ms: int) -> None:
        group = self.groups.get(event.group_id)
        try:
            if event.member_epoch in (LEAVE_EPOCH, LEFT_FOR_A_WHILE):
                result = self._leave(self._known(event), event)
            elif group is None and event.member_epoch == JOIN_EPOCH:
                result = self._found(event, now_ms)
            else:
                draft = StreamsDraft(self._known(event))
                result = self._protocol.heartbeat(draft, event, now_ms)
                self._write(draft.group, draft.records)
        except Refused as refused:
            result = StreamsHeartbeatResult(error_code=refused.error_code, error_message=str(refused))
        group = self.groups.get(event.group_id)
        if group is not None:
            self._schedule(group)
        self._reply(event.token, result, group)

    def _describe(self, event: DescribeStreamsGroup) -> None:
        group = self.groups.get(event.group_id)
        result: object = None
        if group is not None:
            result = described(group)
        elif self._others.is_name_used(event.group_id):
            result = GroupOfOtherKind()
        self._reply(event.token, result, group)

    def _known(self, event: StreamsHeartbeat) -> StreamsGroup:
        group = self.groups.get(event.group_id)
        if group is None:
            is_other = self._others.is_name_used(event.group_id)
            name = f"Group {event.group_id}"
            text = f"{name} is not a streams group." if is_other else self._absent(event)
            raise Refused(ErrorCode.group_id_not_found, text)
        return group

    def _absent(self, event: StreamsHeartbeat) -> str:
        is_leaving = event.member_epoch in (LEAVE_EPOCH, LEFT_FOR_A_WHILE)
        return f"Group {event.group_id} not found." if is_leaving else f"Streams group {event.group_id} not found."

    def _found(self, event: StreamsHeartbeat, now_ms: int) -> StreamsHeartbeatResult:
        """The first member founds the group."""
        if not self._others.may_take_name(event.group_id):
            raise Refused(ErrorCode.group_id_not_found, f"Group {event.group_id} is not a streams group.")
        draft = StreamsDraft(StreamsGroup(event.group_id))
        result = self._protocol.heartbeat(draft, event, now_ms)
        self._others.vacate_name(event.group_id)
        self._write(draft.group, draft.records)
        draft.group.forget_what_is_not_durable()
        return replace(result, endpoint_epoch=0)

    def _leave(self, group: StreamsGroup, event: StreamsHeartbeat) -> StreamsHeartbeatResult:
        if event.shutdown_application:
            request_shutdown(group, event.member_id)
        draft = StreamsDraft(group)
        self._protocol.remove(draft, checked_leaver(group, event.member_id).member_id)
        self._write(group, draft.records)
        return StreamsHeartbeatResult(
            error_code=ErrorCode.none, member_id=event.member_id, member_epoch=event.member_epoch
        )

    # -- for the shard -----------------------------------------------------------------------------------------------

    def forget(self, group: StreamsGroup) -> int:
        """Removes a group without members. Its offsets are the shard's. Returns the number of the append."""
        assert not group.members
        self._write(group, tombstones(group))
        del self.groups[group.group_id]
        return group.last_append

    def listed(self) -> list[ListedGroup]:
        return [
            ListedGroup(group_id=group_id, protocol_type="streams", state=group.state, group_type="streams")
            for group_id, group in sorted(self.groups.items())
        ]

    # -- members of other kinds ----------------------------------------------------------------------------------------

    def _foreign(self, group: StreamsGroup, event: _Foreign) -> bool:
        """Answers a request of a member of another kind, as Kafka does. A classic member takes the name of a group
        without members: then the shard handles its request."""
        unknown = ErrorCode.unknown_member_id
        result: object = unknown
        match event:
            case JoinGroup() if not group.members and not event.member_id:
                return False
            case JoinGroup():
                error = ErrorCode.inconsistent_group_protocol if group.members else unknown
                result = JoinResult(error_code=error, member_id="" if group.members else event.member_id)
            case SyncGroup():
                result = SyncResult(error_code=unknown)
            case LeaveGroup():
                members = tuple((member_id, instance_id, unknown) for member_id, instance_id in event.members)
                result = LeaveResult(error_code=ErrorCode.none, members=members)
            case ConsumerHeartbeat():
                text = f"Group {group.group_id} is not a consumer group."
                result = ConsumerHeartbeatResult(error_code=ErrorCode.group_id_not_found, error_message=text)
        self._reply(event.token, result, group)
        return True

    # -- topics and time -----------------------------------------------------------------------------------------------

    def topics_changed(self, topics: Mapping[str, Topic]) -> None:
        self._protocol.topics_changed(topics)
        for group in self.groups.values():
            group.is_metadata_stale = True

    def loaded(self, now_ms: int) -> None:
        for group in self.groups.values():
            self._protocol.loaded(group, now_ms)
            self._schedule(group)

    def _schedule(self, group: StreamsGroup) -> None:
        self._timers.plan(group.group_id, group.next_deadline_ms())

    def next_deadline_ms(self) -> int | None:
        return self._timers.next_ms()

    def tick(self, now_ms: int) -> None:
        for group_id in self._timers.due(now_ms):
            group = self.groups.get(group_id)
            if group is not None:
                draft = StreamsDraft(group)
                self._protocol.tick(draft, now_ms)
                self._write(group, draft.records)
                self._schedule(group)

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            assert self._others.may_take_name(group_id), f"{group_id} is of two kinds"
            group.check_invariants()
            self._timers.check(group_id, group.next_deadline_ms())

    def durable(self) -> dict[str, object]:
        return {group_id: group.durable() for group_id, group in self.groups.items()}

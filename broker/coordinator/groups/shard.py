"""The groups of one partition of `__consumer_offsets`: dispatch of events, records in and out, timers, retention.

Requests of members are in member_requests.py, commits in commits.py, and offsets in offsets.py. Groups of other kinds
than classic and consumer groups are asked first (kinds.py).
Shown by tests/broker_coordinator.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from uuid import UUID

from broker.coordinator.groups.classic import ClassicProtocol
from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.commits import OffsetRequests
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer import ConsumerProtocol
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import (
    READ_ONLY,
    CommitOffsets,
    CompleteTransaction,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeClassicGroup,
    DescribeConsumerGroup,
    DescribedGroup,
    ExpireOffsets,
    FetchOffsets,
    GroupOfOtherKind,
    GroupSettingsChanged,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListedGroup,
    ListGroups,
    SyncGroup,
    TopicsChanged,
)
from broker.coordinator.groups.kinds import GroupsOfKind, MakeGroups
from broker.coordinator.groups.member_requests import AnyGroup, MemberRequests
from broker.coordinator.groups.offsets import Offsets
from broker.coordinator.groups.record_codec import decode, encode
from broker.coordinator.groups.records import (
    ClassicGroupKey,
    ClassicGroupValue,
    GroupEpochKey,
    Key,
    OffsetKey,
    OffsetValue,
    Record,
    Value,
)
from broker.coordinator.groups.timers import GroupTimers
from broker.coordinator.outbox import Outbox
from broker.coordinator.runtime import CoordinatorAction, Loaded, LoadedMarker, LoadedRecord, Tick
from broker.wire.errors import ErrorCode


class GroupShard:
    """`wall_offset_ms`: wall clock minus monotonic clock, for the timestamps in records."""

    def __init__(
        self,
        *,
        config: GroupConfig,
        rng: random.Random,
        wall_offset_ms: int,
        # as in GroupSettingsChanged; needed while the shard loads
        session_timeouts_ms: Mapping[str, int] | None = None,
        kinds: Sequence[MakeGroups] = (),
    ) -> None:
        self._config, self._rng, self._wall_offset_ms = config, rng, wall_offset_ms
        self._outbox = Outbox()
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = Offsets()
        self._classic = ClassicProtocol(config=config, outbox=self._outbox, new_id=self._new_id, wall_ms=self._wall_ms)
        self._consumer = ConsumerProtocol(
            config=config,
            new_id=self._new_id,
            wall_ms=self._wall_ms,
            session_timeouts_ms=session_timeouts_ms or {},
        )
        self._member_requests = MemberRequests(
            self,
            config=config,
            outbox=self._outbox,
            classic=self._classic,
            consumer=self._consumer,
            wall_ms=self._wall_ms,
        )
        self._kinds: tuple[GroupsOfKind, ...] = tuple(
            make(outbox=self._outbox, is_other=self._is_used, wall_ms=self._wall_ms) for make in kinds
        )
        self._read_only = READ_ONLY + tuple(event for kind in self._kinds for event in kind.read_only)
        self._offset_requests = OffsetRequests(self, config=config, outbox=self._outbox)
        self._deleted_topics: set[str] = set()
        self._timers = GroupTimers()

    def _new_id(self) -> str:
        return str(UUID(int=self._rng.getrandbits(128), version=4))

    def _wall_ms(self, now_ms: int) -> int:
        return now_ms + self._wall_offset_ms

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, entry: LoadedRecord | LoadedMarker) -> None:
        if isinstance(entry, LoadedMarker):
            self.offsets.complete(entry.producer_id, is_commit=entry.is_commit)
            return
        if any(kind.replay(entry.key, entry.value) for kind in self._kinds):
            return
        record = decode(entry.key, entry.value)
        if record is not None:
            self.apply(record, producer_id=entry.producer_id if entry.is_transactional else -1)

    def apply(self, record: Record, *, producer_id: int = -1) -> None:
        key, value = record
        if isinstance(key, OffsetKey):
            assert value is None or isinstance(value, OffsetValue)
            self.offsets.apply(key, value, producer_id=producer_id)
        elif isinstance(key, ClassicGroupKey):
            assert value is None or isinstance(value, ClassicGroupValue)
            self._apply_classic(key.group_id, value)
        else:
            self._apply_consumer(key, value)

    def _apply_classic(self, group_id: str, value: ClassicGroupValue | None) -> None:
        if value is not None:
            self.groups[group_id] = ClassicGroup.from_record(group_id, value)
        elif isinstance(self.groups.get(group_id), ClassicGroup):
            del self.groups[group_id]

    def _apply_consumer(self, key: Key, value: Value | None) -> None:
        group = self.groups.get(key.group_id)
        if isinstance(key, GroupEpochKey) and value is None:
            if isinstance(group, ConsumerGroup):
                del self.groups[key.group_id]
            return
        if not isinstance(group, ConsumerGroup):
            if value is None:
                return  # compaction may leave the tombstone of a group that is gone
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id)
        group.apply(key, value)

    def write(self, records: list[Record], *, group: AnyGroup | None) -> int:
        """Appends records that are already applied. Answers about `group` wait until they are durable."""
        number = self._outbox.append(encode(record) for record in records)
        if group is not None:
            group.last_append = number
        return number

    # -- events ------------------------------------------------------------------------------------------------------

    def may_append(self, event: object) -> bool:
        return not isinstance(event, self._read_only)

    def handle(self, event: object, now_ms: int) -> list[CoordinatorAction]:
        if any(kind.handle(event, now_ms) for kind in self._kinds):
            return self._outbox.take()
        match event:
            case JoinGroup():
                self._member_requests.join(event, now_ms)
            case SyncGroup():
                self._member_requests.sync(event, now_ms)
            case Heartbeat():
                self._member_requests.heartbeat(event, now_ms)
            case LeaveGroup():
                self._member_requests.leave(event, now_ms)
            case CommitOffsets():
                self._offset_requests.commit(event, now_ms)
            case FetchOffsets():
                self._offset_requests.fetch(event)
            case DeleteOffsets():
                self._offset_requests.delete(event)
            case CompleteTransaction():
                self.offsets.complete(event.producer_id, is_commit=event.is_commit)
            case ConsumerHeartbeat():
                self._member_requests.consumer_heartbeat(event, now_ms)
            case DescribeClassicGroup() | DescribeConsumerGroup():
                self._describe(event)
            case ListGroups():
                self._outbox.reply(event.token, tuple(self._listed()), after=0)
            case DeleteGroup():
                self._delete_group(event)
            case TopicsChanged():
                self._topics_changed(event)
            case GroupSettingsChanged():
                self._consumer.set_times(event)
            case ExpireOffsets():
                self._offset_requests.expire(event.wall_ms)
            case Loaded():
                self._loaded(now_ms)
            case Tick():
                self._tick(now_ms)
            case _:
                raise TypeError(f"no event of a group coordinator: {event!r}")
        return self._outbox.take()

    # -- groups ------------------------------------------------------------------------------------------------------

    def _is_used(self, group_id: str) -> bool:
        """Whether a classic or consumer group uses this name. Committed offsets are enough for that."""
        return group_id in self.groups or self.offsets.has_any(group_id)

    def _is_foreign(self, group_id: str) -> bool:
        """Whether a group of another kind than classic and consumer groups uses this name."""
        return any(kind.has(group_id) for kind in self._kinds)

    def _describe(self, event: DescribeClassicGroup | DescribeConsumerGroup) -> None:
        group = self.groups.get(event.group_id)
        result: object
        if isinstance(event, DescribeClassicGroup):
            is_foreign = self._is_foreign(event.group_id)
            has_offsets = group is None and not is_foreign and self.offsets.has_any(event.group_id)
            is_other_kind = group is not None or is_foreign
            dead = DescribedGroup(state="Empty" if has_offsets else "Dead", is_other_kind=is_other_kind)
            result = group.described() if isinstance(group, ClassicGroup) else dead
        else:
            default = self._config.group_consumer_assignors[0]
            is_other_kind = self._is_used(event.group_id) or self._is_foreign(event.group_id)
            absent = GroupOfOtherKind() if is_other_kind else None
            result = group.described(default) if isinstance(group, ConsumerGroup) else absent
        self._outbox.reply(event.token, result, after=0 if group is None else group.last_append)

    def _listed(self) -> Iterator[ListedGroup]:
        for group_id, group in sorted(self.groups.items()):
            if isinstance(group, ClassicGroup):
                group_type, protocol_type, state = "classic", group.protocol_type or "", group.state.value
            else:
                group_type, protocol_type, state = "consumer", "consumer", group.state
            yield ListedGroup(group_id=group_id, protocol_type=protocol_type, state=state, group_type=group_type)
        for group_id in sorted(set(self.offsets.groups()) - set(self.groups)):
            yield ListedGroup(group_id=group_id, protocol_type="", state="Empty", group_type="classic")
        for kind in self._kinds:
            yield from kind.listed()

    def _delete_group(self, event: DeleteGroup) -> None:
        group = self.group(event.group_id)
        if group is None and not self.offsets.has_any(event.group_id):
            self._outbox.reply(event.token, ErrorCode.group_id_not_found, after=0)
            return
        is_used = group is not None and (bool(group.members) or self.is_rebalancing(group))
        if is_used or self.offsets.has_pending(event.group_id):
            after = 0 if group is None else group.last_append
            self._outbox.reply(event.token, ErrorCode.non_empty_group, after=after)
            return
        self._outbox.reply(event.token, ErrorCode.none, after=self.forget(event.group_id))

    def is_rebalancing(self, group: AnyGroup) -> bool:
        return isinstance(group, ClassicGroup) and (not group.is_in(State.EMPTY) or bool(group.pending))

    def forget(self, group_id: str) -> int:
        """Writes tombstones for all records of a group without members."""
        records: list[Record] = [
            (OffsetKey(group_id=group_id, topic=topic, partition=partition), None)
            for topic, partition in sorted(self.offsets.of_group(group_id))
        ]
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            records += group.tombstones()
        elif group is not None:
            records.append((ClassicGroupKey(group_id=group_id), None))
        for record in records:
            self.apply(record)
        self.groups.pop(group_id, None)
        return self.write(records, group=None) if records else 0

    def _topics_changed(self, event: TopicsChanged) -> None:
        self._consumer.subscriptions.topics_changed(event.topics, event.metadata_version)
        self._deleted_topics |= event.deleted
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.is_metadata_stale = True
        for kind in self._kinds:
            kind.topics_changed(event.topics, is_complete=event.is_complete)

    # -- time --------------------------------------------------------------------------------------------------------

    def _loaded(self, now_ms: int) -> None:
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                self._classic.loaded(group, now_ms)
            else:
                self._consumer.loaded(group, now_ms)
            self.schedule(group)
        for kind in self._kinds:
            kind.loaded(now_ms)

    def schedule(self, group: AnyGroup) -> None:
        self._timers.plan(group.group_id, group.next_deadline_ms())

    def next_deadline_ms(self) -> int | None:
        if self._deleted_topics:
            return 0
        deadlines = (self._timers.next_ms(), *(kind.next_deadline_ms() for kind in self._kinds))
        return min((each for each in deadlines if each is not None), default=None)

    def _tick(self, now_ms: int) -> None:
        for kind in self._kinds:
            kind.tick(now_ms)
        if self._deleted_topics:
            deleted, self._deleted_topics = self._deleted_topics, set()
            self._offset_requests.topics_deleted(deleted)
        for group_id in self._timers.due(now_ms):
            group = self.groups.get(group_id)
            if isinstance(group, ClassicGroup):
                self._classic.tick(group, now_ms)
            elif group is not None:
                self._member_requests.tick(group, now_ms)
            if group is not None and not self.dropped(group):
                self.schedule(group)

    def dropped(self, group: AnyGroup) -> bool:
        """Forgets a classic group that nobody has joined, and returns True. Such a group has no record."""
        is_unused = isinstance(group, ClassicGroup) and not (group.recorded or group.members or group.pending)
        if is_unused:
            self.groups.pop(group.group_id, None)
        return is_unused

    # -- for commits.py ------------------------------------------------------------------------------------------------

    @property
    def group_ids(self) -> Set[str]:
        return self.groups.keys()

    def group(self, group_id: str) -> AnyGroup | None:
        """A group that may have offsets."""
        return self.groups.get(group_id)

    def touch(self, group: ClassicGroup, member_id: str, now_ms: int) -> None:
        self._classic.touch(group, member_id, now_ms)

    def subscribed_topics(self, group: ConsumerGroup) -> frozenset[str]:
        return frozenset(self._consumer.subscriptions.of_group(group))

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        for kind in self._kinds:
            kind.check_invariants()
        for group_id, group in self.groups.items():
            assert group.group_id == group_id
            assert group.last_append <= self._outbox.appended
            group.check_invariants()
            self._timers.check(group_id, group.next_deadline_ms())

    def durable(self) -> object:
        """The part of the state that must be equal in a shard that replays the log."""
        groups = {group_id: state for kind in self._kinds for group_id, state in kind.durable().items()}
        for group_id, group in self.groups.items():
            if isinstance(group, ConsumerGroup):
                groups[group_id] = group.durable()
            elif group.recorded is not None:
                groups[group_id] = group.recorded
        return groups, self.offsets.durable()

"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, and the removal of offsets that nobody uses any more.

A commit is accepted from a member of the current generation (classic) or epoch (KIP-848), and from anybody while the
group has no members. Retention follows KIP-211: offsets are kept as long as their group has members, and
offsets.retention.minutes longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Protocol, TypeAlias

from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import (
    CommitOffsets,
    CommitResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    OffsetToCommit,
)
from broker.coordinator.groups.offsets import Offsets, Place
from broker.coordinator.groups.reconcile import Current
from broker.coordinator.groups.record_codec import encode
from broker.coordinator.groups.records import OffsetKey, OffsetValue, Record
from broker.coordinator.outbox import Outbox
from broker.wire.errors import ErrorCode

AnyGroup: TypeAlias = ClassicGroup | ConsumerGroup


class CommittingShard(Protocol):
    """The part of the shard that concerns committed offsets."""

    offsets: Offsets

    @property
    def group_ids(self) -> Set[str]: ...

    def group(self, group_id: str) -> AnyGroup | None: ...
    def apply(self, record: Record, *, producer_id: int = -1) -> None: ...
    def touch(self, group: ClassicGroup, member_id: str, now_ms: int) -> None: ...
    def subscribed_topics(self, group: ConsumerGroup) -> frozenset[str]: ...
    def is_rebalancing(self, group: AnyGroup) -> bool: ...
    def forget(self, group_id: str) -> int: ...


class OffsetRequests:
    """A part of the shard that reads and changes its groups and offsets."""

    def __init__(self, shard: CommittingShard, *, config: GroupConfig, outbox: Outbox) -> None:
        self._shard, self._config, self._outbox = shard, config, outbox
        self._last_append: dict[str, int] = {}  # The key is the id of a group that has only offsets.

    def _after(self, group_id: str) -> int:
        group = self._shard.group(group_id)
        return max(0 if group is None else group.last_append, self._last_append.get(group_id, 0))

    # -- commit ------------------------------------------------------------------------------------------------------

    def commit(self, event: CommitOffsets, now_ms: int) -> None:
        error = self._commit_problem(event)
        if error is not ErrorCode.none:
            result = CommitResult(error_code=error, partitions={})
            self._outbox.reply(event.token, result, after=self._after(event.group_id))
            return
        group = self._shard.group(event.group_id)
        if isinstance(group, ClassicGroup) and not event.is_transactional:
            self._shard.touch(group, event.member_id, now_ms)
        codes: dict[Place, ErrorCode] = {}
        records: list[Record] = []
        for each in event.offsets:
            is_too_large = len(each.metadata.encode()) > self._config.offset_metadata_max_bytes
            codes[each.topic, each.partition] = ErrorCode.offset_metadata_too_large if is_too_large else ErrorCode.none
            if not is_too_large:
                records.append(_record(event, each))
        if records:
            for record in records:
                self._shard.apply(record, producer_id=event.producer_id)
            number = self._outbox.append(
                (encode(record) for record in records),
                producer_id=event.producer_id,
                producer_epoch=event.producer_epoch,
                is_transactional=event.is_transactional,
            )
            self._note(event.group_id, number)
        result = CommitResult(error_code=ErrorCode.none, partitions=codes)
        self._outbox.reply(event.token, result, after=self._after(event.group_id))

    def _note(self, group_id: str, number: int) -> None:
        group = self._shard.group(group_id)
        if group is None:
            self._last_append[group_id] = number
        else:
            self._last_append.pop(group_id, None)
            group.last_append = number

    def _commit_problem(self, event: CommitOffsets) -> ErrorCode:
        group = self._shard.group(event.group_id)
        if group is None:
            if event.generation < 0:
                return ErrorCode.none
            if self._shard.offsets.has_any(event.group_id):
                return ErrorCode.unknown_member_id  # the group exists because it has offsets, but no member is there
            is_new = event.knows_member_epochs and not event.is_transactional
            return ErrorCode.group_id_not_found if is_new else ErrorCode.illegal_generation
        if isinstance(group, ConsumerGroup):
            return _consumer_commit_problem(group, event)
        return _classic_commit_problem(group, event)

    # -- fetch -------------------------------------------------------------------------------------------------------

    def fetch(self, event: FetchOffsets) -> None:
        group = self._shard.group(event.group_id)
        error = _fetch_problem(group, event)
        partitions: dict[Place, FetchedOffset] = {}
        if error is ErrorCode.none:
            partitions = {place: self._fetched(event, place) for place in self._places(event)}
        result = FetchResult(error_code=error, partitions=partitions)
        self._outbox.reply(event.token, result, after=self._after(event.group_id))

    def _places(self, event: FetchOffsets) -> list[Place]:
        if event.topics is None:
            return sorted(self._shard.offsets.of_group(event.group_id))
        return [(topic, partition) for topic, partitions in event.topics.items() for partition in partitions]

    def _fetched(self, event: FetchOffsets, place: Place) -> FetchedOffset:
        if event.require_stable and self._shard.offsets.is_pending(event.group_id, place):
            return FetchedOffset(error_code=ErrorCode.unstable_offset_commit)
        value = self._shard.offsets.get(event.group_id, place)
        if value is None:
            return FetchedOffset()
        return FetchedOffset(offset=value.offset, leader_epoch=value.leader_epoch, metadata=value.metadata)

    # -- delete ------------------------------------------------------------------------------------------------------

    def delete(self, event: DeleteOffsets) -> None:
        group = self._shard.group(event.group_id)
        if group is None and not self._shard.offsets.has_any(event.group_id):
            result = DeleteOffsetsResult(error_code=ErrorCode.group_id_not_found, partitions={})
            self._outbox.reply(event.token, result, after=self._after(event.group_id))
            return
        is_classic = isinstance(group, ClassicGroup) and not group.is_in(State.EMPTY)
        subscribed = self._subscribed(event.group_id)
        if is_classic and subscribed is None:
            result = DeleteOffsetsResult(error_code=ErrorCode.non_empty_group, partitions={})
            self._outbox.reply(event.token, result, after=self._after(event.group_id))
            return
        codes = {
            place: ErrorCode.group_subscribed_to_topic if place[0] in (subscribed or ()) else ErrorCode.none
            for place in event.partitions
        }
        self._remove(event.group_id, [place for place, code in codes.items() if code is ErrorCode.none])
        result = DeleteOffsetsResult(error_code=ErrorCode.none, partitions=codes)
        self._outbox.reply(event.token, result, after=self._after(event.group_id))

    def _subscribed(self, group_id: str) -> frozenset[str] | None:
        """The topics that the group's members subscribe to. None if they are not known."""
        group = self._shard.group(group_id)
        if isinstance(group, ConsumerGroup):
            return self._shard.subscribed_topics(group)
        if group is None or group.is_in(State.EMPTY):
            return frozenset()
        return group.subscribed_topics()

    def _remove(self, group_id: str, places: Iterable[Place]) -> None:
        """Writes tombstones for those places that have an offset."""
        there = self._shard.offsets.of_group(group_id)
        records: list[Record] = [
            (OffsetKey(group_id=group_id, topic=topic, partition=partition), None)
            for topic, partition in places
            if (topic, partition) in there
        ]
        if records:
            for record in records:
                self._shard.apply(record)
            self._note(group_id, self._outbox.append(encode(record) for record in records))

    def topics_deleted(self, names: set[str]) -> None:
        for group_id in self._shard.offsets.groups():
            self._remove(group_id, [place for place in self._shard.offsets.of_group(group_id) if place[0] in names])

    # -- retention ---------------------------------------------------------------------------------------------------

    def expire(self, wall_ms: int) -> None:
        for group_id in sorted({*self._shard.offsets.groups(), *self._shard.group_ids}):
            if self._shard.offsets.has_pending(group_id):
                continue
            offsets = self._shard.offsets.of_group(group_id)
            self._remove(group_id, self._expired(group_id, offsets, wall_ms))
            group = self._shard.group(group_id)
            is_unused = group is not None and not group.members and not self._shard.is_rebalancing(group)
            if is_unused and not self._shard.offsets.has_any(group_id) and (offsets or self._is_old(group_id, wall_ms)):
                self._shard.forget(group_id)

    def _is_old(self, group_id: str, wall_ms: int) -> bool:
        """Whether a group that never committed has been empty for the retention time."""
        group = self._shard.group(group_id)
        if isinstance(group, ClassicGroup):
            return wall_ms - group.state_timestamp_ms >= self._config.offsets_retention_ms
        return True

    def _expired(self, group_id: str, offsets: Mapping[Place, OffsetValue], wall_ms: int) -> list[Place]:
        group = self._shard.group(group_id)
        has_members = group is not None and bool(group.members)
        subscribed = self._subscribed(group_id) if has_members else frozenset()
        left_ms = 0  # when the last member of a classic group left
        if isinstance(group, ClassicGroup) and not has_members and group.protocol_type is not None:
            left_ms = group.state_timestamp_ms

        def is_expired(place: Place, value: OffsetValue) -> bool:
            if subscribed is None or place[0] in subscribed:
                return False
            return wall_ms - max(value.commit_timestamp_ms, left_ms) >= self._config.offsets_retention_ms

        return [place for place, value in offsets.items() if is_expired(place, value)]


def _record(event: CommitOffsets, each: OffsetToCommit) -> Record:
    key = OffsetKey(group_id=event.group_id, topic=each.topic, partition=each.partition)
    value = OffsetValue(
        offset=each.offset,
        leader_epoch=each.leader_epoch,
        metadata=each.metadata,
        commit_timestamp_ms=event.wall_ms,
        topic_id=each.topic_id,
    )
    return key, value


def _classic_commit_problem(group: ClassicGroup, event: CommitOffsets) -> ErrorCode:
    if event.generation < 0 and group.is_in(State.EMPTY):
        return ErrorCode.none  # the sender is an admin, or a consumer with manual assignment
    names_member = event.generation >= 0 or event.member_id != "" or event.instance_id is not None
    if not names_member:
        # A transactional producer older than KIP-447 does not send the id of the member.
        return ErrorCode.none if event.is_transactional else ErrorCode.unknown_member_id
    if event.instance_id is not None:
        holder = group.static_members.get(event.instance_id)
        if holder is None:
            return ErrorCode.unknown_member_id
        if holder != event.member_id:
            return ErrorCode.fenced_instance_id
    if event.member_id not in group.members:
        return ErrorCode.unknown_member_id
    if event.generation != group.generation:
        return ErrorCode.illegal_generation
    is_between = group.is_in(State.COMPLETING) and not event.is_transactional
    return ErrorCode.rebalance_in_progress if is_between else ErrorCode.none


def _consumer_commit_problem(group: ConsumerGroup, event: CommitOffsets) -> ErrorCode:
    if event.generation < 0 and (not group.members or (event.is_transactional and not event.member_id)):
        return ErrorCode.none
    member = group.members.get(event.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if not (event.knows_member_epochs or event.is_transactional):
        return ErrorCode.unsupported_version
    if not _may_commit(member.current, event):
        return ErrorCode.illegal_generation if event.is_transactional else ErrorCode.stale_member_epoch
    return ErrorCode.none


def _may_commit(current: Current, event: CommitOffsets) -> bool:
    """A commit in the member's epoch is allowed. A commit in an earlier epoch is allowed only for partitions that the
    member has had since that epoch (KIP-1251)."""
    if event.generation >= current.member_epoch:
        return event.generation == current.member_epoch
    epochs = [current.epochs.get((each.topic_id, each.partition)) for each in event.offsets]
    return all(epoch is not None and epoch <= event.generation for epoch in epochs)


def _fetch_problem(group: AnyGroup | None, event: FetchOffsets) -> ErrorCode:
    """The error if a member of a KIP-848 group fetches in another epoch. Only such members send their id and epoch
    (version 9 and above)."""
    if event.member_id is None or event.member_epoch < 0 or not isinstance(group, ConsumerGroup):
        return ErrorCode.none
    member = group.members.get(event.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if event.member_epoch == member.current.member_epoch:
        return ErrorCode.none
    return ErrorCode.stale_member_epoch

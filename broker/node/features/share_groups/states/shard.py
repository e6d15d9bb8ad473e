"""The share states of one partition of `__share_group_state` (KIP-932).

A state is written as a snapshot, followed by updates. After a number of updates the next record is a snapshot again.
The leader epoch fences earlier leaders. The state epoch fences leaders that know the group's offsets from before they
were initialized again.

Records before the last snapshots of all partitions are not needed: `redundant_offset` tells where these records end.
Shown by tests/broker_coordinator/test_coordinator_share_states.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.outbox import Outbox
from broker.coordinator.runtime import CoordinatorAction, Loaded, LoadedMarker, LoadedRecord, Tick
from broker.node.features.share_groups.delivery.state_batches import NO_START_OFFSET, StateBatch, combine
from broker.node.features.share_groups.states.records import (
    NO_COUNT,
    Record,
    Snapshot,
    StateKey,
    Update,
    decode,
    encode,
)
from broker.wire.errors import ErrorCode

NO_EPOCH = -1  # the leader epoch or state epoch was not told
FIRST_EPOCH = 0  # both epochs begin here if nobody has told one


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeState:
    token: int
    key: StateKey
    state_epoch: int
    start_offset: int
    exists: bool  # whether the partition exists, according to its coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """A new leader reads the state with its leader epoch. The shard keeps that epoch."""

    token: int
    key: StateKey
    leader_epoch: int
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    token: int
    key: StateKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteState:
    token: int
    key: StateKey
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSummary:
    token: int
    key: StateKey
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsKnown:
    """All topics that exist. States of other topics are removed with the next ticks, as soon as they can be."""

    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStale:
    """Write new snapshots of states that were not written since `before_ms` (wall clock), so that older parts of the
    log can be deleted."""

    before_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateResult:
    error_code: ErrorCode
    message: str | None = None
    state_epoch: int = FIRST_EPOCH
    leader_epoch: int = FIRST_EPOCH
    start_offset: int = NO_START_OFFSET
    delivery_complete_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()


Request: TypeAlias = InitializeState | ReadState | WriteState | DeleteState | ReadSummary
READ_ONLY = (ReadSummary, Loaded, TopicsKnown)
REMOVED_AT_ONCE_MAX = 1_000  # states in one tick
_OK = StateResult(error_code=ErrorCode.none)
_TEXTS: Mapping[ErrorCode, str] = {
    ErrorCode.fenced_leader_epoch: "The leader epoch in the request is older than the epoch on the broker.",
    ErrorCode.fenced_state_epoch: "The share coordinator rejected the request because the share-group state epoch did "
    "not match.",
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
}


@dataclass(slots=True, kw_only=True)
class _Kept:
    state: Snapshot
    updates: int = 0  # number of updates since the last snapshot


class ShareStateShard:
    """`wall_offset_ms`: wall clock minus monotonic clock, for the timestamps in records."""

    def __init__(self, *, updates_per_snapshot: int, wall_offset_ms: int) -> None:
        self._updates_per_snapshot, self._wall_offset_ms = updates_per_snapshot, wall_offset_ms
        self._outbox = Outbox()
        self._kept: dict[StateKey, _Kept] = {}
        self._snapshot_offsets: dict[StateKey, int] = {}  # the offset of the last snapshot, in ascending order
        self._last_append: dict[StateKey, int] = {}
        self._gone: list[StateKey] = []  # states of topics that do not exist any more

    # -- the log -----------------------------------------------------------------------------------------------------

    def replay(self, entry: LoadedRecord | LoadedMarker) -> None:
        if isinstance(entry, LoadedMarker):
            return
        record = decode(entry.key, entry.value)
        if record is not None:
            self._apply(record)
            self.stored(record, entry.offset)

    def _apply(self, record: Record) -> None:
        key, value = record
        kept = self._kept.get(key)
        if value is None:
            self._kept.pop(key, None)
            self._last_append.pop(key, None)
        elif isinstance(value, Snapshot):
            self._kept[key] = _Kept(state=value)
        elif kept is not None:  # an update without its snapshot has no meaning
            kept.state = _updated(kept.state, value)
            kept.updates += 1

    def stored(self, record: Record, offset: int) -> None:
        """Notes the offset of a record in the log. For records that this shard wrote, the host calls it."""
        key, value = record
        if not isinstance(value, Update):
            self._snapshot_offsets.pop(key, None)
        if isinstance(value, Snapshot):
            self._snapshot_offsets[key] = offset

    def redundant_offset(self, end_offset: int) -> int:
        """No record before this offset is needed. `end_offset` is the end of the log."""
        return min(self._snapshot_offsets.values(), default=end_offset)

    # -- events ------------------------------------------------------------------------------------------------------

    def may_append(self, event: object) -> bool:
        return not isinstance(event, READ_ONLY)

    def handle(self, event: object, now_ms: int) -> list[CoordinatorAction]:
        wall_ms = now_ms + self._wall_offset_ms
        match event:
            case InitializeState():
                self._answer(event, self._initialize(event, wall_ms))
            case ReadState():
                self._answer(event, self._read(event, wall_ms))
            case WriteState():
                self._answer(event, self._write(event, wall_ms))
            case DeleteState():
                self._answer(event, self._delete(event))
            case ReadSummary():
                self._answer(event, self._summary(event))
            case TopicsKnown():
                self._gone = [key for key in self._kept if key.topic_id not in event.topic_ids]
            case Tick():
                self._forget()
            case SnapshotStale():
                self._snapshot_stale(event.before_ms, wall_ms)
            case Loaded():
                pass
            case _:
                raise TypeError(f"no event of a share coordinator: {event!r}")
        return self._outbox.take()

    def next_deadline_ms(self) -> int | None:
        return 0 if self._gone else None

    def _answer(self, event: Request, result: StateResult) -> None:
        self._outbox.reply(event.token, result, after=self._last_append.get(event.key, 0))

    def _append(self, record: Record) -> None:
        self._apply(record)
        number = self._outbox.append([encode(record)])
        if record[1] is not None:
            self._last_append[record[0]] = number

    def _initialize(self, event: InitializeState, wall_ms: int) -> StateResult:
        kept = self._kept.get(event.key)
        known = None if kept is None else kept.state
        if known is not None and event.state_epoch != NO_EPOCH and known.state_epoch > event.state_epoch:
            return _refused(ErrorCode.fenced_state_epoch)
        if not event.exists:
            return _refused(ErrorCode.unknown_topic_or_partition)
        if known is not None and _is_repeated(event, known):
            return _OK
        snapshot = Snapshot(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=event.state_epoch,
            leader_epoch=FIRST_EPOCH if known is None else known.leader_epoch,  # so earlier leaders stay fenced
            start_offset=event.start_offset,
            delivery_complete_count=NO_COUNT if event.start_offset == NO_START_OFFSET else 0,
            batches=(),
            created_ms=wall_ms,
            written_ms=wall_ms,
        )
        self._append((event.key, snapshot))
        return _OK

    def _read(self, event: ReadState, wall_ms: int) -> StateResult:
        kept = self._kept.get(event.key)
        if kept is None:
            return _invalid("Read operation on uninitialized share partition not allowed.")
        if event.leader_epoch != NO_EPOCH and kept.state.leader_epoch > event.leader_epoch:
            return _refused(ErrorCode.fenced_leader_epoch)
        if not event.exists:
            return _refused(ErrorCode.unknown_topic_or_partition)
        result = _told(kept.state)
        if event.leader_epoch not in (NO_EPOCH, kept.state.leader_epoch):
            self._change(
                event.key,
                kept,
                wall_ms,
                leader_epoch=event.leader_epoch,
                start_offset=result.start_offset,
                delivery_complete_count=result.delivery_complete_count,
                batches=(),
            )
        return result

    def _write(self, event: WriteState, wall_ms: int) -> StateResult:
        kept = self._kept.get(event.key)
        if kept is None:
            return _invalid("Write operation on uninitialized share partition not allowed.")
        if event.leader_epoch != NO_EPOCH and kept.state.leader_epoch > event.leader_epoch:
            return _refused(ErrorCode.fenced_leader_epoch)
        if event.state_epoch != NO_EPOCH and kept.state.state_epoch > event.state_epoch:
            return _refused(ErrorCode.fenced_state_epoch)
        if not event.exists:
            return _refused(ErrorCode.unknown_topic_or_partition)
        self._change(
            event.key,
            kept,
            wall_ms,
            leader_epoch=kept.state.leader_epoch,  # a leader fences earlier ones when it reads, not when it writes
            start_offset=event.start_offset,
            delivery_complete_count=event.delivery_complete_count,
            batches=event.batches,
        )
        return _OK

    def _change(
        self,
        key: StateKey,
        kept: _Kept,
        wall_ms: int,
        *,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: tuple[StateBatch, ...],
    ) -> None:
        """Writes an update. After the configured number of updates, the next record is a snapshot."""
        update = Update(
            snapshot_epoch=kept.state.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            batches=combine((), batches, start_offset=start_offset),
        )
        if kept.updates < self._updates_per_snapshot:
            self._append((key, update))
            return
        state = _updated(kept.state, update)
        self._append((key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=wall_ms)))

    def _delete(self, event: DeleteState) -> StateResult:
        """Deletes the state. If there is none, this succeeds too."""
        if not event.exists:
            return _refused(ErrorCode.unknown_topic_or_partition)
        if event.key in self._kept:
            self._append((event.key, None))
        return _OK

    def _summary(self, event: ReadSummary) -> StateResult:
        if not event.exists:
            return _refused(ErrorCode.unknown_topic_or_partition)
        kept = self._kept.get(event.key)
        return _OK if kept is None else replace(_told(kept.state), batches=())

    def _forget(self) -> None:
        gone, self._gone = self._gone[:REMOVED_AT_ONCE_MAX], self._gone[REMOVED_AT_ONCE_MAX:]
        for key in gone:
            if key in self._kept:
                self._append((key, None))

    def _snapshot_stale(self, before_ms: int, wall_ms: int) -> None:
        for key, kept in list(self._kept.items()):
            state = kept.state
            if state.written_ms < before_ms:
                self._append((key, replace(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=wall_ms)))

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        for key, kept in self._kept.items():
            assert 0 <= kept.updates <= self._updates_per_snapshot, f"{key} has {kept.updates} updates"
            position = kept.state.start_offset
            for batch in kept.state.batches:
                assert position <= batch.first_offset <= batch.last_offset, f"{key}: {batch} before {position}"
                position = batch.last_offset + 1

    def durable(self) -> object:
        """The part of the state that must be equal in a shard that replays the log."""
        return {key: (kept.state, kept.updates) for key, kept in self._kept.items()}


def _is_repeated(event: InitializeState, known: Snapshot) -> bool:
    """Whether this initialization comes late: the group has already begun with the partition in this epoch. A group
    coordinator repeats its request until it gets an answer, and its successor asks too."""
    is_same_epoch = event.state_epoch == known.state_epoch != NO_EPOCH
    return is_same_epoch and event.start_offset == NO_START_OFFSET and known.start_offset != NO_START_OFFSET


def _updated(state: Snapshot, update: Update) -> Snapshot:
    """Within a state epoch the start offset never moves back. A write with an older one comes late: its leader had no
    answer, and has repeated it."""
    start_offset = max(state.start_offset, update.start_offset)
    return replace(
        state,
        leader_epoch=max(state.leader_epoch, update.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=combine(state.batches, update.batches, start_offset=start_offset),
    )


def _told(state: Snapshot) -> StateResult:
    return StateResult(
        error_code=ErrorCode.none,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        batches=state.batches,
    )


def _invalid(message: str) -> StateResult:
    return StateResult(error_code=ErrorCode.invalid_request, message=message)


def _refused(error: ErrorCode) -> StateResult:
    return StateResult(error_code=error, message=_TEXTS[error])

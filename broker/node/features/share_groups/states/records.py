"""The records of `__share_group_state`, as values and in Kafka's own bytes.

Type 0 is a snapshot, type 1 an update that follows a snapshot. Both have only version 0. A snapshot without a value is
a tombstone of the partition. Unknown types are skipped. Shown by
tests/broker_coordinator/test_coordinator_share_states.py, and with Kafka's own classes in tests/broker_node.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.runtime import StateRecord
from broker.coordinator.schema import Reader, SchemaError, Writer
from broker.node.features.share_groups.delivery.state_batches import StateBatch

SNAPSHOT_TYPE, UPDATE_TYPE = 0, 1
NO_COUNT = -1  # the number of completed deliveries was not told
_COUNT_TAG = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKey:
    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """The key as text. FindCoordinator uses this text, and its hash chooses the partition of the topic."""
        topic = base64.urlsafe_b64encode(self.topic_id.bytes).decode().rstrip("=")
        return f"{self.group_id}:{topic}:{self.partition}"


def is_key(text: str) -> bool:
    """Whether FindCoordinator may ask for this text. It must be GROUP:TOPIC-ID:PARTITION, as in Kafka."""
    group_id, _, rest = text.partition(":")
    topic, separator, partition = rest.partition(":")
    if not (group_id.strip() and topic.strip() and separator):
        return False
    try:
        topic_id = base64.b64decode(f"{topic}==", altchars=b"-_", validate=True)
        return len(topic_id) == 16 and int(partition) >= 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole state of a partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    created_ms: int  # wall clock
    written_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What has changed since the last record. An epoch or an offset that is -1 has not changed."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


Record: TypeAlias = tuple[StateKey, Snapshot | Update | None]


def encode(record: Record) -> StateRecord:
    key, value = record
    kind = UPDATE_TYPE if isinstance(value, Update) else SNAPSHOT_TYPE
    written = bytes(Writer(kind).string(key.group_id).uuid(key.topic_id).int32(key.partition))
    return StateRecord(key=written, value=None if value is None else _encode(value))


def _encode(value: Snapshot | Update) -> bytes:
    writer = Writer(0).int32(value.snapshot_epoch)
    if isinstance(value, Snapshot):
        writer.int32(value.state_epoch).int32(value.leader_epoch).int64(value.start_offset)
        writer.int64(value.created_ms).int64(value.written_ms)
    else:
        writer.int32(value.leader_epoch).int64(value.start_offset)

    def write(batch: StateBatch) -> None:
        writer.int64(batch.first_offset).int64(batch.last_offset)
        writer.int8(batch.state).int16(batch.delivery_count).tags()

    writer.compact_array(value.batches, write)
    count = value.delivery_complete_count
    return bytes(writer.tags({} if count == NO_COUNT else {_COUNT_TAG: bytes(Writer.part().int32(count))}))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """None for a type that this broker does not keep. Raises SchemaError for a damaged record or an unknown version."""
    reader = Reader(key)
    kind = reader.version
    if kind not in (SNAPSHOT_TYPE, UPDATE_TYPE):
        return None
    typed_key = StateKey(group_id=reader.string(), topic_id=reader.uuid(), partition=reader.int32())
    if value is None:
        return (typed_key, None) if kind == SNAPSHOT_TYPE else None
    fields = Reader(value)
    if fields.version != 0:
        raise SchemaError(f"version {fields.version} of a share state; 0 is known")
    return typed_key, _decode_snapshot(fields) if kind == SNAPSHOT_TYPE else _decode_update(fields)


def _decode_snapshot(reader: Reader) -> Snapshot:
    snapshot_epoch, state_epoch, leader_epoch = reader.int32(), reader.int32(), reader.int32()
    start_offset, created_ms, written_ms = reader.int64(), reader.int64(), reader.int64()
    batches, count = _rest(reader)
    return Snapshot(
        snapshot_epoch=snapshot_epoch,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=count,
        batches=batches,
        created_ms=created_ms,
        written_ms=written_ms,
    )


def _decode_update(reader: Reader) -> Update:
    snapshot_epoch, leader_epoch, start_offset = reader.int32(), reader.int32(), reader.int64()
    batches, count = _rest(reader)
    return Update(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=count,
        batches=batches,
    )


def _rest(reader: Reader) -> tuple[tuple[StateBatch, ...], int]:
    def read() -> StateBatch:
        batch = StateBatch(
            first_offset=reader.int64(), last_offset=reader.int64(), state=reader.int8(), delivery_count=reader.int16()
        )
        reader.tags()
        return batch

    batches = reader.compact_array(read)
    tagged = reader.tags().get(_COUNT_TAG)
    return batches, NO_COUNT if tagged is None else Reader.part(tagged).int32()

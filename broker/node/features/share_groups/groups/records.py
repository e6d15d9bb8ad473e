"""The records of share groups in `__consumer_offsets` (types 10 to 15), as values and in Kafka's own bytes.

Shown by tests/broker_coordinator/test_coordinator_share_groups.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.groups.assignment_interval import timestamp_of, timestamp_tag
from broker.coordinator.groups.records import Assignment
from broker.coordinator.runtime import StateRecord
from broker.coordinator.schema import Reader, SchemaError, Writer


class Kind(IntEnum):
    MEMBER = 10
    GROUP_EPOCH = 11
    TARGET_EPOCH = 12
    TARGET_MEMBER = 13
    CURRENT_MEMBER = 14
    STATES = 15

    @property
    def has_member(self) -> bool:
        return self in (Kind.MEMBER, Kind.TARGET_MEMBER, Kind.CURRENT_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareKey:
    kind: Kind
    group_id: str
    member_id: str = ""  # Only some kinds of record have one.


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberValue:
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    epoch: int
    timestamp_ms: int = 0  # when the assignment was computed


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMember:
    partitions: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMember:
    member_epoch: int
    previous_member_epoch: int
    assigned: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The partitions whose state the share coordinators initialize, have, or delete, by topic id."""

    initializing: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    initialized: Mapping[UUID, TopicPartitions] = field(default_factory=dict)
    deleting: Mapping[UUID, str] = field(default_factory=dict)


Value: TypeAlias = ShareMemberValue | GroupEpoch | TargetEpoch | TargetMember | CurrentMember | States
ShareRecord: TypeAlias = tuple[ShareKey, Value | None]
_STABLE = 0  # the only state that a member can have


def encode(record: ShareRecord) -> StateRecord:
    key, value = record
    writer = Writer(key.kind).string(key.group_id)
    if key.kind.has_member:
        writer.string(key.member_id)
    tags = timestamp_tag(value.timestamp_ms) if isinstance(value, TargetEpoch) else {}
    return StateRecord(key=bytes(writer), value=None if value is None else bytes(_encode(value, Writer(0)).tags(tags)))


def _encode(value: Value, writer: Writer) -> Writer:
    match value:
        case ShareMemberValue():
            writer.compact_nullable_string(value.rack_id)
            writer.compact_string(value.client_id).compact_string(value.client_host)
            writer.compact_array(value.subscribed_topic_names, writer.compact_string)
        case GroupEpoch():
            writer.int32(value.epoch).int64(value.metadata_hash)
        case TargetEpoch():
            writer.int32(value.epoch)
        case TargetMember():
            _write_assignment(writer, value.partitions)
        case CurrentMember():
            writer.int32(value.member_epoch).int32(value.previous_member_epoch).int8(_STABLE)
            _write_assignment(writer, value.assigned)
        case States():
            _write_topics(writer, value.initializing)
            _write_topics(writer, value.initialized)

            def write(item: tuple[UUID, str]) -> None:
                writer.uuid(item[0]).compact_string(item[1]).tags()

            writer.compact_array(sorted(value.deleting.items()), write)
    return writer


def _write_assignment(writer: Writer, assignment: Assignment) -> None:
    def write(item: tuple[UUID, frozenset[int]]) -> None:
        writer.uuid(item[0]).compact_array(sorted(item[1]), writer.int32).tags()

    writer.compact_array(sorted(assignment.items()), write)


def _write_topics(writer: Writer, topics: Mapping[UUID, TopicPartitions]) -> None:
    def write(item: tuple[UUID, TopicPartitions]) -> None:
        topic_id, topic = item
        writer.uuid(topic_id).compact_string(topic.name).compact_array(sorted(topic.partitions), writer.int32).tags()

    writer.compact_array(sorted(topics.items(), key=lambda item: item[0]), write)


def decode(key: bytes, value: bytes | None) -> ShareRecord | None:
    """None for a record of another kind of group. Raises SchemaError for a damaged record or an unknown version."""
    reader = Reader(key)
    if reader.version not in tuple(Kind):
        return None
    kind = Kind(reader.version)
    typed_key = ShareKey(kind=kind, group_id=reader.string(), member_id=reader.string() if kind.has_member else "")
    if value is None:
        return typed_key, None
    fields = Reader(value)
    if fields.version != 0:
        raise SchemaError(f"version {fields.version} of a share group's {kind.name.lower()}; 0 is known")
    found = _decode(kind, fields)
    tags = fields.tags()  # a value that ends before the tagged fields is truncated
    if isinstance(found, TargetEpoch):
        found = replace(found, timestamp_ms=timestamp_of(tags))
    return typed_key, found


def _decode(kind: Kind, reader: Reader) -> Value:
    match kind:
        case Kind.MEMBER:
            return ShareMemberValue(
                rack_id=reader.compact_nullable_string(),
                client_id=reader.compact_string(),
                client_host=reader.compact_string(),
                subscribed_topic_names=reader.compact_array(reader.compact_string),
            )
        case Kind.GROUP_EPOCH:
            return GroupEpoch(epoch=reader.int32(), metadata_hash=reader.int64())
        case Kind.TARGET_EPOCH:
            return TargetEpoch(epoch=reader.int32())
        case Kind.TARGET_MEMBER:
            return TargetMember(partitions=_read_assignment(reader))
        case Kind.CURRENT_MEMBER:
            epochs = reader.int32(), reader.int32()
            reader.int8()
            return CurrentMember(
                member_epoch=epochs[0], previous_member_epoch=epochs[1], assigned=_read_assignment(reader)
            )
        case Kind.STATES:
            return States(
                initializing=_read_topics(reader),
                initialized=_read_topics(reader),
                deleting=dict(reader.compact_array(lambda: _read_name(reader))),
            )


def _read_assignment(reader: Reader) -> dict[UUID, frozenset[int]]:
    def read() -> tuple[UUID, frozenset[int]]:
        found = reader.uuid(), frozenset(reader.compact_array(reader.int32))
        reader.tags()
        return found

    return dict(reader.compact_array(read))


def _read_topics(reader: Reader) -> dict[UUID, TopicPartitions]:
    def read() -> tuple[UUID, TopicPartitions]:
        topic_id, name = reader.uuid(), reader.compact_string()
        topic = TopicPartitions(name=name, partitions=frozenset(reader.compact_array(reader.int32)))
        reader.tags()
        return topic_id, topic

    return dict(reader.compact_array(read))


def _read_name(reader: Reader) -> tuple[UUID, str]:
    found = reader.uuid(), reader.compact_string()
    reader.tags()
    return found

"""Encodes and decodes the records of `__consumer_offsets`, in Kafka's own formats.

A key begins with the record's type (int16), a value with its version. Written are type 1 (offset, value version 4,
which contains the topic id), type 2 (classic group, version 3) and types 3 to 8 and 16 (KIP-848, version 0). Only
these are read: no broker of ours has ever written other versions. Types that other software may have written are
skipped. Shown by tests/broker_coordinator/test_coordinator_group_records.py, and with Kafka's own dump tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from broker.coordinator.groups.assignment_interval import timestamp_of, timestamp_tag
from broker.coordinator.groups.records import (
    ZERO_ID,
    Assignment,
    ClassicGroupKey,
    ClassicGroupValue,
    ClassicMemberValue,
    CurrentMemberKey,
    CurrentMemberValue,
    GroupEpochKey,
    GroupEpochValue,
    Key,
    MemberKey,
    MemberValue,
    OffsetKey,
    OffsetValue,
    Partition,
    PatternKey,
    PatternValue,
    Record,
    TargetEpochKey,
    TargetEpochValue,
    TargetMemberKey,
    TargetMemberValue,
    Value,
)
from broker.coordinator.runtime import StateRecord
from broker.coordinator.schema import Reader, SchemaError, Writer

ASSIGNMENT_EPOCHS_TAG = 0
OFFSET_TYPE, CLASSIC_GROUP_TYPE, PATTERN_TYPE = 1, 2, 16
OFFSET_VERSION, CLASSIC_GROUP_VERSION = 4, 3
_GROUP_TYPES: dict[type, int] = {ClassicGroupKey: 2, GroupEpochKey: 3, TargetEpochKey: 6}
_MEMBER_TYPES: dict[type, int] = {MemberKey: 5, TargetMemberKey: 7, CurrentMemberKey: 8}


# -- encoding ----------------------------------------------------------------------------------------------------------


def encode(record: Record) -> StateRecord:
    key, value = record
    return StateRecord(key=_encode_key(key), value=None if value is None else _encode_value(value))


def _encode_key(key: Key) -> bytes:
    if isinstance(key, OffsetKey):
        return bytes(Writer(OFFSET_TYPE).string(key.group_id).string(key.topic).int32(key.partition))
    if isinstance(key, ClassicGroupKey | GroupEpochKey | TargetEpochKey):
        return bytes(Writer(_GROUP_TYPES[type(key)]).string(key.group_id))
    if isinstance(key, PatternKey):
        return bytes(Writer(PATTERN_TYPE).string(key.group_id).string(key.pattern))
    return bytes(Writer(_MEMBER_TYPES[type(key)]).string(key.group_id).string(key.member_id))


def _encode_value(value: Value) -> bytes:
    match value:
        case OffsetValue():
            return _encode_offset(value)
        case ClassicGroupValue():
            return _encode_classic_group(value)
        case GroupEpochValue():
            hashed = value.metadata_hash.to_bytes(8, "big", signed=True)
            return bytes(Writer(0).int32(value.epoch).tags({0: hashed} if value.metadata_hash else {}))
        case MemberValue():
            return _encode_member(value)
        case TargetEpochValue():
            return bytes(Writer(0).int32(value.assignment_epoch).tags(timestamp_tag(value.timestamp_ms)))
        case TargetMemberValue():
            writer = Writer(0)
            _write_assignment(writer, value.partitions)
            return bytes(writer.tags())
        case CurrentMemberValue():
            writer = Writer(0).int32(value.member_epoch).int32(value.previous_member_epoch).int8(value.state)
            _write_assignment(writer, value.assigned, value.epochs)
            _write_assignment(writer, value.pending_revocation, value.epochs)
            return bytes(writer.tags())
        case PatternValue():
            writer = Writer(0)
            writer.compact_array(sorted(value.topics), writer.compact_string)
            return bytes(writer.int64(value.metadata_version).int64(value.timestamp_ms).tags())


def _encode_offset(value: OffsetValue) -> bytes:
    writer = Writer(OFFSET_VERSION).int64(value.offset).int32(value.leader_epoch).compact_string(value.metadata)
    topic_id = {} if value.topic_id == ZERO_ID else {0: value.topic_id.bytes}
    return bytes(writer.int64(value.commit_timestamp_ms).tags(topic_id))


def _encode_classic_group(value: ClassicGroupValue) -> bytes:
    writer = Writer(CLASSIC_GROUP_VERSION).string(value.protocol_type).int32(value.generation)
    writer.nullable_string(value.protocol).nullable_string(value.leader).int64(value.state_timestamp_ms)

    def write(member: ClassicMemberValue) -> None:
        writer.string(member.member_id).nullable_string(member.instance_id)
        writer.string(member.client_id).string(member.client_host)
        writer.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        writer.bytes_(member.subscription).bytes_(member.assignment)

    return bytes(writer.array(value.members, write))


def _encode_member(value: MemberValue) -> bytes:
    writer = Writer(0).compact_nullable_string(value.instance_id).compact_nullable_string(value.rack_id)
    writer.compact_string(value.client_id).compact_string(value.client_host)
    writer.compact_array(value.subscribed_topic_names, writer.compact_string)
    writer.compact_nullable_string(value.subscribed_topic_regex).int32(value.rebalance_timeout_ms)
    return bytes(writer.compact_nullable_string(value.server_assignor).tags())


def _write_assignment(writer: Writer, assignment: Assignment, epochs: Mapping[Partition, int] | None = None) -> None:
    def write(item: tuple[UUID, frozenset[int]]) -> None:
        topic_id, partitions = item[0], sorted(item[1])
        tags = {}
        if epochs:  # they stand in the order of the partitions
            tagged = Writer.part()
            tagged.compact_array([epochs[topic_id, partition] for partition in partitions], tagged.int32)
            tags[ASSIGNMENT_EPOCHS_TAG] = bytes(tagged)
        writer.uuid(topic_id).compact_array(partitions, writer.int32).tags(tags)

    writer.compact_array(sorted(assignment.items()), write)


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode(key: bytes, value: bytes | None) -> Record | None:
    """None for a type that this broker does not keep. Raises SchemaError for a damaged record or an unknown version."""
    typed_key = _decode_key(Reader(key))
    if typed_key is None:
        return None
    return typed_key, None if value is None else _decode_value(typed_key, Reader(value))


def _decode_key(reader: Reader) -> Key | None:
    if reader.version == OFFSET_TYPE:
        return OffsetKey(group_id=reader.string(), topic=reader.string(), partition=reader.int32())
    match reader.version:
        case 2:
            return ClassicGroupKey(group_id=reader.string())
        case 3:
            return GroupEpochKey(group_id=reader.string())
        case 5:
            return MemberKey(group_id=reader.string(), member_id=reader.string())
        case 6:
            return TargetEpochKey(group_id=reader.string())
        case 7:
            return TargetMemberKey(group_id=reader.string(), member_id=reader.string())
        case 8:
            return CurrentMemberKey(group_id=reader.string(), member_id=reader.string())
        case 16:
            return PatternKey(group_id=reader.string(), pattern=reader.string())
    return None


def _decode_value(key: Key, reader: Reader) -> Value:
    if isinstance(key, OffsetKey):
        return _decode_offset(reader)
    if isinstance(key, ClassicGroupKey):
        return _decode_classic_group(reader)
    if reader.version != 0:
        raise SchemaError(f"version {reader.version} of a {type(key).__name__} value; 0 is known")
    value = _decode_flexible(key, reader)
    if not isinstance(key, GroupEpochKey | TargetEpochKey):
        reader.tags()  # no tagged field is kept; a value that ends before the tagged fields is truncated
    return value


def _decode_flexible(
    key: GroupEpochKey | MemberKey | TargetEpochKey | TargetMemberKey | CurrentMemberKey | PatternKey, reader: Reader
) -> Value:
    match key:
        case GroupEpochKey():
            epoch, tags = reader.int32(), reader.tags()
            return GroupEpochValue(epoch=epoch, metadata_hash=int.from_bytes(tags.get(0, b""), "big", signed=True))
        case MemberKey():
            return _decode_member(reader)
        case TargetEpochKey():
            epoch, tags = reader.int32(), reader.tags()
            return TargetEpochValue(assignment_epoch=epoch, timestamp_ms=timestamp_of(tags))
        case TargetMemberKey():
            return TargetMemberValue(partitions=_read_assignment(reader))
        case CurrentMemberKey():
            epochs: dict[Partition, int] = {}
            return CurrentMemberValue(
                member_epoch=reader.int32(),
                previous_member_epoch=reader.int32(),
                state=reader.int8(),
                assigned=_read_assignment(reader, epochs),
                pending_revocation=_read_assignment(reader, epochs),
                epochs=epochs,
            )
        case PatternKey():
            return PatternValue(
                topics=frozenset(reader.compact_array(reader.compact_string)),
                metadata_version=reader.int64(),
                timestamp_ms=reader.int64(),
            )


def _decode_offset(reader: Reader) -> OffsetValue:
    if reader.version != OFFSET_VERSION:
        raise SchemaError(f"version {reader.version} of an offset value; {OFFSET_VERSION} is known")
    offset, leader_epoch = reader.int64(), reader.int32()
    metadata, commit_timestamp_ms = reader.compact_string(), reader.int64()
    topic_id = reader.tags().get(0)
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        topic_id=ZERO_ID if topic_id is None else UUID(bytes=topic_id),
    )


def _decode_classic_group(reader: Reader) -> ClassicGroupValue:
    if reader.version != CLASSIC_GROUP_VERSION:
        raise SchemaError(f"version {reader.version} of a classic group; {CLASSIC_GROUP_VERSION} is known")

    def read() -> ClassicMemberValue:
        return ClassicMemberValue(
            member_id=reader.string(),
            instance_id=reader.nullable_string(),
            client_id=reader.string(),
            client_host=reader.string(),
            rebalance_timeout_ms=reader.int32(),
            session_timeout_ms=reader.int32(),
            subscription=reader.bytes_(),
            assignment=reader.bytes_(),
        )

    return ClassicGroupValue(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_timestamp_ms=reader.int64(),
        members=reader.array(read),
    )


def _decode_member(reader: Reader) -> MemberValue:
    return MemberValue(
        instance_id=reader.compact_nullable_string(),
        rack_id=reader.compact_nullable_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        subscribed_topic_names=reader.compact_array(reader.compact_string),
        subscribed_topic_regex=reader.compact_nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.compact_nullable_string(),
    )


def _read_assignment(reader: Reader, epochs: dict[Partition, int] | None = None) -> dict[UUID, frozenset[int]]:
    """The epochs in the record are added to `epochs`."""

    def read() -> tuple[UUID, frozenset[int]]:
        topic_id, partitions = reader.uuid(), reader.compact_array(reader.int32)
        tagged = reader.tags().get(ASSIGNMENT_EPOCHS_TAG)
        if tagged is not None and epochs is not None:
            part = Reader.part(tagged)
            epochs.update(zip([(topic_id, each) for each in partitions], part.compact_array(part.int32), strict=False))
        return topic_id, frozenset(partitions)

    return dict(reader.compact_array(read))

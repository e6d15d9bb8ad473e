"""The records of streams groups in Kafka's own bytes.

Shown by tests/broker_coordinator/test_coordinator_streams_records.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broker.coordinator.groups.assignment_interval import timestamp_of, timestamp_tag
from broker.coordinator.groups.streams.events import Endpoint
from broker.coordinator.groups.streams.reconcile import Current, MemberState
from broker.coordinator.groups.streams.records import (
    NO_TOPOLOGY_EPOCH,
    GroupValue,
    Kind,
    MemberValue,
    StreamsKey,
    StreamsRecord,
    TargetEpoch,
    Value,
)
from broker.coordinator.groups.streams.tasks import EpochMap, HeldTasks, TaskMap, Tasks
from broker.coordinator.groups.streams.topology import Topology
from broker.coordinator.groups.streams.topology_codec import read_topology, write_topology
from broker.coordinator.runtime import StateRecord
from broker.coordinator.schema import Reader, SchemaError, Writer

_VALIDATED_TAG, _CONFIGS_TAG = 0, 1  # of a group
_EPOCHS_TAG = 0  # of active tasks
_PRESENT, _ABSENT = 1, -1  # the marks before a nullable structure
_KNOWN_STATES = frozenset(int(state) for state in MemberState)


def encode(record: StreamsRecord) -> StateRecord:
    key, value = record
    writer = Writer(key.kind).string(key.group_id)
    if key.kind.has_member:
        writer.string(key.member_id)
    return StateRecord(key=bytes(writer), value=None if value is None else bytes(_encode(value, Writer(0))))


def _encode(value: Value, writer: Writer) -> Writer:
    tags: Mapping[int, bytes] = {}
    match value:
        case GroupValue():
            writer.int32(value.epoch).int64(value.metadata_hash)
            tags = _group_tags(value)
        case MemberValue():
            _write_member(writer, value)
        case TargetEpoch():
            writer.int32(value.epoch)
            tags = timestamp_tag(value.timestamp_ms)
        case Tasks():
            for tasks in (value.active, value.standby, value.warmup):
                _write_tasks(writer, tasks)
        case Current():
            writer.int32(value.member_epoch).int32(value.previous_member_epoch).int8(value.state)
            for held in (value.assigned, value.pending_revocation):
                _write_active(writer, held.active)
                _write_tasks(writer, held.standby)
                _write_tasks(writer, held.warmup)
        case Topology():
            write_topology(writer, value)
    return writer.tags(tags)


def _group_tags(value: GroupValue) -> dict[int, bytes]:
    tags = {}
    if value.validated_topology_epoch != NO_TOPOLOGY_EPOCH:
        tags[_VALIDATED_TAG] = bytes(Writer.part().int32(value.validated_topology_epoch))
    if value.assignment_configs:
        configs = Writer.part()
        _write_pairs(configs, value.assignment_configs)
        tags[_CONFIGS_TAG] = bytes(configs)
    return tags


def _write_member(writer: Writer, value: MemberValue) -> None:
    writer.compact_nullable_string(value.instance_id).compact_nullable_string(value.rack_id)
    writer.compact_string(value.client_id).compact_string(value.client_host)
    writer.int32(value.rebalance_timeout_ms).int32(value.topology_epoch).compact_string(value.process_id)
    if value.user_endpoint is None:
        writer.int8(_ABSENT)
    else:
        host, port = value.user_endpoint
        writer.int8(_PRESENT).compact_string(host)
        writer.int8(_signed(port >> 8)).int8(_signed(port & 0xFF)).tags()
    _write_pairs(writer, value.client_tags)


def _signed(octet: int) -> int:
    """An unsigned byte as the int8 with the same bits: the port is a uint16."""
    return octet - 256 if octet > 127 else octet


def _write_pairs(writer: Writer, pairs: Mapping[str, str]) -> None:
    def write(item: tuple[str, str]) -> None:
        writer.compact_string(item[0]).compact_string(item[1]).tags()

    writer.compact_array(sorted(pairs.items()), write)


def _write_tasks(writer: Writer, tasks: TaskMap) -> None:
    def write(item: tuple[str, frozenset[int]]) -> None:
        writer.compact_string(item[0]).compact_array(sorted(item[1]), writer.int32).tags()

    writer.compact_array(sorted(tasks.items()), write)


def _write_active(writer: Writer, tasks: EpochMap) -> None:
    def write(item: tuple[str, Mapping[int, int]]) -> None:
        indexes = sorted(item[1])
        epochs = Writer.part()
        epochs.compact_array([item[1][index] for index in indexes], epochs.int32)
        writer.compact_string(item[0]).compact_array(indexes, writer.int32).tags({_EPOCHS_TAG: bytes(epochs)})

    writer.compact_array(sorted(tasks.items(), key=lambda item: item[0]), write)


# -- reading ---------------------------------------------------------------------------------------------------------


def decode(key: bytes, value: bytes | None) -> StreamsRecord | None:
    """None for a record of another kind of group. Raises SchemaError for a damaged record or an unknown version."""
    reader = Reader(key)
    if reader.version not in tuple(Kind):
        return None
    kind = Kind(reader.version)
    typed_key = StreamsKey(kind=kind, group_id=reader.string(), member_id=reader.string() if kind.has_member else "")
    if value is None:
        return typed_key, None
    fields = Reader(value)
    if fields.version != 0:
        raise SchemaError(f"version {fields.version} of a streams group's {kind.name.lower()}; 0 is known")
    found = _decode(kind, fields)
    tags = fields.tags()  # a value that ends before the tagged fields is truncated
    if isinstance(found, TargetEpoch):
        found = replace(found, timestamp_ms=timestamp_of(tags))
    elif isinstance(found, GroupValue):
        found = _with_tags(found, tags)
    return typed_key, found


def _decode(kind: Kind, reader: Reader) -> Value:
    match kind:
        case Kind.GROUP:
            return GroupValue(epoch=reader.int32(), metadata_hash=reader.int64())
        case Kind.MEMBER:
            return MemberValue(
                instance_id=reader.compact_nullable_string(),
                rack_id=reader.compact_nullable_string(),
                client_id=reader.compact_string(),
                client_host=reader.compact_string(),
                rebalance_timeout_ms=reader.int32(),
                topology_epoch=reader.int32(),
                process_id=reader.compact_string(),
                user_endpoint=_read_endpoint(reader),
                client_tags=_read_pairs(reader),
            )
        case Kind.TARGET_EPOCH:
            return TargetEpoch(epoch=reader.int32())
        case Kind.TARGET_MEMBER:
            return Tasks(active=_read_tasks(reader), standby=_read_tasks(reader), warmup=_read_tasks(reader))
        case Kind.CURRENT_MEMBER:
            return Current(
                member_epoch=reader.int32(),
                previous_member_epoch=reader.int32(),
                state=_read_state(reader),
                assigned=_read_held(reader),
                pending_revocation=_read_held(reader),
            )
        case Kind.TOPOLOGY:
            return read_topology(reader)


def _with_tags(value: GroupValue, tags: Mapping[int, bytes]) -> GroupValue:
    validated, configs = tags.get(_VALIDATED_TAG), tags.get(_CONFIGS_TAG)
    return replace(
        value,
        validated_topology_epoch=NO_TOPOLOGY_EPOCH if validated is None else Reader.part(validated).int32(),
        assignment_configs={} if configs is None else _read_pairs(Reader.part(configs)),
    )


def _read_state(reader: Reader) -> MemberState:
    state = reader.int8()
    return MemberState(state) if state in _KNOWN_STATES else MemberState.UNKNOWN


def _read_endpoint(reader: Reader) -> Endpoint | None:
    if reader.int8() < 0:
        return None
    host = reader.compact_string()
    port = int.from_bytes(reader.raw(2), "big")
    reader.tags()
    return host, port


def _read_pairs(reader: Reader) -> dict[str, str]:
    def read() -> tuple[str, str]:
        found = reader.compact_string(), reader.compact_string()
        reader.tags()
        return found

    return dict(reader.compact_array(read))


def _read_tasks(reader: Reader) -> dict[str, frozenset[int]]:
    def read() -> tuple[str, frozenset[int]]:
        found = reader.compact_string(), frozenset(reader.compact_array(reader.int32))
        reader.tags()
        return found

    return dict(reader.compact_array(read))


def _read_active(reader: Reader) -> dict[str, dict[int, int]]:
    """A task without an epoch was written by an older version: it counts as assigned in epoch 0."""

    def read() -> tuple[str, dict[int, int]]:
        subtopology_id, indexes = reader.compact_string(), reader.compact_array(reader.int32)
        encoded = reader.tags().get(_EPOCHS_TAG)
        epochs: tuple[int, ...] = (0,) * len(indexes)
        if encoded is not None and encoded != b"\0":
            part = Reader.part(encoded)
            epochs = part.compact_array(part.int32)
        if len(epochs) != len(indexes):
            raise SchemaError(f"{len(indexes)} tasks of {subtopology_id} have {len(epochs)} epochs")
        return subtopology_id, dict(zip(indexes, epochs, strict=True))

    return dict(reader.compact_array(read))


def _read_held(reader: Reader) -> HeldTasks:
    return HeldTasks(active=_read_active(reader), standby=_read_tasks(reader), warmup=_read_tasks(reader))

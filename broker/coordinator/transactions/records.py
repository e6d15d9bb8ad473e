"""Transactions as records of `__transaction_state`, in Kafka's format (TransactionLogKey 0, TransactionLogValue 0-1).

As in Kafka, version 1 is written from level 1 of transaction.version on, and version 0 at level 0. Both are read. At
level 0 Kafka drops the values for which version 0 has no field. This coordinator writes version 1 while a transaction
has such values. The transaction began before the level was lowered, and without these values another coordinator would
end it wrongly. Shown by tests/broker_coordinator/test_coordinator_transaction_records.py, which compares with Kafka's
own decoder.
"""

from __future__ import annotations

import struct

from broker.coordinator.runtime import StateRecord
from broker.coordinator.schema import Reader, SchemaError, Writer
from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    TransactionState,
)

KEY_VERSION = 0
FLEXIBLE_VERSION = 1  # version of values; also the level of transaction.version from which it is written
VALUE_VERSION_MAX = 1
_PREVIOUS_PRODUCER_ID, _NEXT_PRODUCER_ID, _CLIENT_VERSION, _NEXT_PRODUCER_EPOCH = 0, 1, 2, 3  # tags
_INT16, _INT64 = struct.Struct(">h"), struct.Struct(">q")


def encode_key(transactional_id: str) -> bytes:
    return bytes(Writer(KEY_VERSION).string(transactional_id))


def decode_key(key: bytes) -> str | None:
    """None for a key of another version. It comes from a later Kafka and is skipped."""
    reader = Reader(key)
    return reader.string() if reader.version == KEY_VERSION else None


def encode(transaction: Transaction, *, level: int = FLEXIBLE_VERSION) -> StateRecord:
    """`level` is the level of the feature transaction.version."""
    is_flexible = level >= FLEXIBLE_VERSION or _needs_tags(transaction)
    value = _flexible_value(transaction) if is_flexible else _classic_value(transaction)
    return StateRecord(key=encode_key(transaction.transactional_id), value=value)


def _needs_tags(transaction: Transaction) -> bool:
    """Whether version 0 would lose any value except the client's version. That value is of no use for an older
    client."""
    ids = (transaction.previous_producer_id, transaction.next_producer_id)
    return (
        any(each != NO_PRODUCER_ID for each in ids)
        or transaction.next_producer_epoch != NO_PRODUCER_EPOCH
        or transaction.client_transaction_version >= EPOCH_BUMP_VERSION
    )


def tombstone(transactional_id: str) -> StateRecord:
    return StateRecord(key=encode_key(transactional_id), value=None)


def _classic_value(transaction: Transaction) -> bytes:
    writer = Writer(0)
    writer.int64(transaction.producer_id).int16(transaction.producer_epoch).int32(transaction.timeout_ms)
    writer.int8(int(transaction.state))
    if transaction.state is TransactionState.EMPTY:
        writer.int32(-1)  # null, as Kafka writes it
    else:
        topics = _by_topic(transaction.partitions)

        def write_topic(topic: str) -> None:
            writer.string(topic).array(topics[topic], writer.int32)

        writer.array(sorted(topics), write_topic)
    return bytes(writer.int64(transaction.last_update_ms).int64(transaction.start_ms))


def _flexible_value(transaction: Transaction) -> bytes:
    writer = Writer(FLEXIBLE_VERSION)
    writer.int64(transaction.producer_id).int16(transaction.producer_epoch).int32(transaction.timeout_ms)
    writer.int8(int(transaction.state))
    if transaction.state is TransactionState.EMPTY:
        writer.uvarint(0)  # null, as Kafka writes it
    else:
        topics = _by_topic(transaction.partitions)

        def write_topic(topic: str) -> None:
            writer.compact_string(topic).compact_array(topics[topic], writer.int32).tags()

        writer.compact_array(sorted(topics), write_topic)
    writer.int64(transaction.last_update_ms).int64(transaction.start_ms)
    tags = {}
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        tags[_PREVIOUS_PRODUCER_ID] = _INT64.pack(transaction.previous_producer_id)
    if transaction.next_producer_id != NO_PRODUCER_ID:
        tags[_NEXT_PRODUCER_ID] = _INT64.pack(transaction.next_producer_id)
    if transaction.client_transaction_version:
        tags[_CLIENT_VERSION] = _INT16.pack(transaction.client_transaction_version)
    if transaction.next_producer_epoch != NO_PRODUCER_EPOCH:
        tags[_NEXT_PRODUCER_EPOCH] = _INT16.pack(transaction.next_producer_epoch)
    return bytes(writer.tags(tags))


def _by_topic(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    """Raises SchemaError for bytes that cannot be read. The shard is then not served, because it would be served
    wrongly."""
    reader = Reader(value)
    if not 0 <= reader.version <= VALUE_VERSION_MAX:
        raise SchemaError(f"transaction {transactional_id!r}: value version {reader.version}, known are 0 to 1")
    is_flexible = reader.version >= 1
    producer_id, producer_epoch, timeout_ms, state = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    partitions = _read_partitions(reader, is_flexible=is_flexible)
    last_update_ms, start_ms = reader.int64(), reader.int64()
    tags = reader.tags() if is_flexible else {}
    try:
        known_state = TransactionState(state)
    except ValueError as error:
        raise SchemaError(f"transaction {transactional_id!r}: unknown state {state}") from error
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=known_state,
        partitions=partitions,
        last_update_ms=last_update_ms,
        start_ms=start_ms,
        previous_producer_id=_tag(tags, _PREVIOUS_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        next_producer_id=_tag(tags, _NEXT_PRODUCER_ID, _INT64, NO_PRODUCER_ID),
        next_producer_epoch=_tag(tags, _NEXT_PRODUCER_EPOCH, _INT16, NO_PRODUCER_EPOCH),
        client_transaction_version=_tag(tags, _CLIENT_VERSION, _INT16, 0),
    )


def _read_partitions(reader: Reader, *, is_flexible: bool) -> frozenset[TopicPartition]:
    found: set[TopicPartition] = set()
    count = reader.uvarint() - 1 if is_flexible else reader.int32()
    for _ in range(max(0, count)):
        topic = reader.compact_string() if is_flexible else reader.string()
        indexes = reader.compact_array(reader.int32) if is_flexible else reader.array(reader.int32)
        found.update((topic, index) for index in indexes)
        if is_flexible:
            reader.tags()
    return frozenset(found)


def _tag(tags: dict[int, bytes], tag: int, layout: struct.Struct, default: int) -> int:
    if tag not in tags:
        return default
    try:
        value: int = layout.unpack(tags[tag])[0]
    except struct.error as error:
        raise SchemaError(f"tag {tag} has {len(tags[tag])} bytes, expected {layout.size}") from error
    return value

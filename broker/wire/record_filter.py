"""Removes records from a batch, for compaction. The records that stay keep their offsets, sequences and order.

Owns: where each record of a decompressed body begins and ends, and the new batch of the records that are kept. Kept
records are copied as bytes. Only a new delete horizon (KIP-534) changes them, because it is stored in place of the base
timestamp. Shown by tests/broker_wire/test_wire_record_filter.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import crc32c

from broker.wire.batch import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_OVERHEAD_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    RawBatch,
)
from broker.wire.compression import Buffer, CodecId, compress, decompress
from broker.wire.errors import CorruptBatchError
from broker.wire.record_check import TIME_MAX, TIME_MIN
from broker.wire.varints import decode_varint, varint

CODEC_MASK = 0x07
# With this flag, base_timestamp is the time from which tombstones and markers of this batch may be removed.
DELETE_HORIZON_FLAG = 0x40


class RecordSpan(NamedTuple):
    """One record in a body: its bytes are [start, end). `after_timestamp` is where its offset delta begins."""

    start: int
    end: int
    after_timestamp: int
    timestamp_delta: int
    offset: int
    key: bytes | None
    has_value: bool


# (offset, key, has a value) -> keep it?
Keep: TypeAlias = Callable[[int, bytes | None, bool], bool]


def delete_horizon_ms(header: BatchHeader) -> int | None:
    return header.base_timestamp if header.attributes & DELETE_HORIZON_FLAG else None


def body_of(batch: RawBatch) -> bytes:
    """The records of a batch, decompressed. Raises CorruptBatchError, and UnpackedTooBigError before it unpacks more
    than allowed."""
    payload = batch.buffer[BATCH_OVERHEAD_BYTES : batch.header.size_bytes]
    try:
        codec = batch.header.codec
    except ValueError as error:
        raise CorruptBatchError(str(error)) from error
    return bytes(payload) if codec is CodecId.NONE else decompress(codec, payload)


def record_spans(header: BatchHeader, body: bytes) -> Iterator[RecordSpan]:
    """Every record of the body. Raises CorruptBatchError at the first that is torn or has a timestamp of more than 64
    bits, or at the end if they do not fill the body."""
    position, base_timestamp = 0, header.base_timestamp
    try:
        for _ in range(header.record_count):
            start = position
            size, position = decode_varint(body, position)
            end = position + size
            if size < 0 or end > len(body):
                raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {len(body)} bytes")
            timestamp_delta, after_timestamp = decode_varint(body, position + 1)
            if not TIME_MIN <= base_timestamp + timestamp_delta <= TIME_MAX:
                raise CorruptBatchError(f"a record with the timestamp {base_timestamp + timestamp_delta}")
            offset_delta, position = decode_varint(body, after_timestamp)
            key_size, position = decode_varint(body, position)
            key = None if key_size < 0 else body[position : position + key_size]
            position += max(0, key_size)
            value_size, _ = decode_varint(body, position)
            offset = header.base_offset + offset_delta
            yield RecordSpan(start, end, after_timestamp, timestamp_delta, offset, key, value_size >= 0)
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record of the batch at offset {header.base_offset} is torn: {error}") from error
    if position != len(body):
        raise CorruptBatchError(f"{len(body) - position} bytes after the last of {header.record_count} records")


def filter_batch(
    batch: RawBatch, body: bytes, spans: Sequence[RecordSpan], keep: Keep, *, new_horizon_ms: int
) -> bytes | None:
    """The batch with the records for which `keep` is true. None if no record is left. The same bytes if all stay.
    `spans` are all records of `body`, which is what the batch unpacks to.

    A marker, or a batch that keeps a record without a value, gets `new_horizon_ms` unless it has a horizon already.
    """
    header = batch.header
    kept = [span for span in spans if keep(span.offset, span.key, span.has_value)]
    if not kept:
        return None
    needs_horizon = header.is_control or any(not span.has_value for span in kept)
    sets_horizon = needs_horizon and delete_horizon_ms(header) is None
    if sets_horizon:  # the times are then relative to it, and must still be of 64 bits
        sets_horizon = header.base_timestamp + min(each.timestamp_delta for each in kept) - new_horizon_ms >= TIME_MIN
    if len(kept) == len(spans) and not sets_horizon:
        return bytes(batch.buffer)
    largest = max(span.timestamp_delta for span in kept) + header.base_timestamp
    changed = header._replace(
        record_count=len(kept),
        max_timestamp=header.max_timestamp if header.has_log_append_time else largest,
    )
    if sets_horizon:
        shift_ms = header.base_timestamp - new_horizon_ms
        changed = changed._replace(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=new_horizon_ms)
        records = b"".join(_shifted(body, span, shift_ms) for span in kept)
    else:
        records = b"".join(body[span.start : span.end] for span in kept)
    return with_body(changed, compress(header.codec, records))


def _shifted(body: bytes, span: RecordSpan, shift_ms: int) -> bytes:
    """The record with its timestamp delta relative to another base timestamp."""
    rest = b"\x00" + varint(span.timestamp_delta + shift_ms) + body[span.after_timestamp : span.end]
    return varint(len(rest)) + rest


def without_records(header: BatchHeader) -> bytes:
    """The header without records. It keeps the last sequence of a producer whose records are gone."""
    return with_body(header._replace(record_count=0), b"")


def recompress(header: BatchHeader, body: Buffer, codec: CodecId, *, level: int | None = None) -> bytes:
    """The same records (unpacked in `body`) compressed with another codec."""
    attributes = header.attributes & ~CODEC_MASK | codec
    return with_body(header._replace(attributes=attributes), compress(codec, body, level=level))


def with_body(header: BatchHeader, body: bytes) -> bytes:
    """A batch of this header and an already compressed body. Length and CRC are computed."""
    length = BATCH_OVERHEAD_BYTES - LENGTH_OVERHEAD_BYTES + len(body)
    unsigned = BATCH_HEADER.pack(*header._replace(batch_length=length, crc=0))
    crc = crc32c.crc32c(unsigned[ATTRIBUTES_POSITION:] + body)
    return BATCH_HEADER.pack(*header._replace(batch_length=length, crc=crc)) + body

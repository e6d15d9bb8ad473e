"""A batch to its records. Pure Python, with the one-byte varint case inlined; all codecs.

Owns: the record layout on the way in, and its checks against the batch header. Shown by test_wire_records.py.
"""

from __future__ import annotations

from typing import TypeAlias

from broker.wire.batch import BATCH_OVERHEAD_BYTES, BatchHeader, Buffer, RawBatch, parse_batch_header
from broker.wire.compression import DECOMPRESSED_BYTES_MAX, CodecId, decompress
from broker.wire.errors import CorruptBatchError
from broker.wire.varints import decode_varint

# (offset, timestamp_ms, key, value, headers)
DecodedRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def decode_records(
    batch: RawBatch | Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[DecodedRecord]:
    """All records of one batch as (offset, timestamp_ms, key, value, headers). The CRC is not checked here.

    Raises CorruptBatchError if the records do not fill the batch exactly or disagree with its header.
    """
    header, body = _header_and_body(batch, decompressed_bytes_max)
    records: list[DecodedRecord] = []
    position, end = 0, len(body)
    try:
        for _ in range(header.record_count):
            size, start = decode_varint(body, position)
            position = start + size
            if size < 0 or position > end:
                raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {end} bytes")
            records.append(_decode_record(body, start, position, header))
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"record {len(records)} of {header.record_count} is torn: {error}") from error
    if position != end:
        raise CorruptBatchError(f"{end - position} bytes after the last of {header.record_count} records")
    return records


def uncompressed_size_bytes(batch: RawBatch | Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> int:
    """What the batch would take with `compression.type=none`, header included."""
    header, body = _header_and_body(batch, decompressed_bytes_max)
    assert header.record_count >= 0
    return BATCH_OVERHEAD_BYTES + len(body)


def _header_and_body(batch: RawBatch | Buffer, decompressed_bytes_max: int) -> tuple[BatchHeader, bytes]:
    if isinstance(batch, RawBatch):
        header, buffer = batch.header, batch.buffer
    else:
        header, buffer = parse_batch_header(batch), memoryview(batch)
    if len(buffer) < header.size_bytes:
        raise CorruptBatchError(f"a batch of {header.size_bytes} bytes in a buffer of {len(buffer)} bytes")
    payload = buffer[BATCH_OVERHEAD_BYTES : header.size_bytes]
    try:
        codec = header.codec
    except ValueError as error:
        raise CorruptBatchError(str(error)) from error
    if codec == CodecId.NONE:
        return header, bytes(payload)
    return header, decompress(codec, payload, size_bytes_max=decompressed_bytes_max)


def _decode_record(body: bytes, position: int, end: int, header: BatchHeader) -> DecodedRecord:
    position += 1  # attributes of a record: none are defined
    timestamp_delta, position = decode_varint(body, position)
    offset_delta, position = decode_varint(body, position)
    size, position = decode_varint(body, position)
    key: bytes | None = None
    if size >= 0:
        key = body[position : position + size]
        position += size
    size, position = decode_varint(body, position)
    value: bytes | None = None
    if size >= 0:
        value = body[position : position + size]
        position += size
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if body[position]:
        headers, position = _decode_headers(body, position)
    else:
        position += 1
    if position != end:
        raise CorruptBatchError(f"a record ends at byte {position}, its length says {end}")
    timestamp = header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
    return header.base_offset + offset_delta, timestamp, key, value, headers


def _decode_headers(body: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(body, position)
    if not 0 <= count <= len(body) - position:
        raise CorruptBatchError(f"a record claims {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = decode_varint(body, position)
        if size < 0:
            raise CorruptBatchError("a header without a name")
        name = body[position : position + size].decode()
        position += size
        size, position = decode_varint(body, position)
        value: bytes | None = None
        if size >= 0:
            value = body[position : position + size]
            position += size
        headers.append((name, value))
    return tuple(headers), position

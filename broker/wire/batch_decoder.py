"""Decodes a batch to its records, with all codecs. Pure Python. Varints of one byte are read inline.

Owns: decoding of records, the checks against the batch header, and the limit on what is unpacked from a batch that a
broker serves. Shown by test_wire_records.py and test_wire_fetched.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from broker.wire.batch import BATCH_OVERHEAD_BYTES, BatchHeader, Buffer, RawBatch, parse_batch_header
from broker.wire.compression import DECOMPRESSED_BYTES_MAX, CodecId, decompress
from broker.wire.errors import CorruptBatchError, UnpackedTooBigError
from broker.wire.varints import decode_varint

# (offset, timestamp_ms, key, value, headers)
DecodedRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]

# Limits for one batch that a broker serves. They are checked before any of it is unpacked. From a producer our own
# broker accepts a quarter of these bytes, unless max.message.bytes is more, and a sixteenth of these records. To decode
# this many records takes 2 s and 300 MB.
FETCHED_BYTES_MAX = DECOMPRESSED_BYTES_MAX
FETCHED_RECORDS_MAX = 1 << 20
_OFFSET_MAX = 2**63 - 1


def decode_fetched(batch: RawBatch) -> list[DecodedRecord]:
    """Like `decode_records`, but for a batch from a process that is not trusted. Any process that listens on the
    address may have sent it."""
    header = batch.header
    check_fetched(header)
    records = decode_records(batch, decompressed_bytes_max=FETCHED_BYTES_MAX)
    first, last = header.base_offset, header.last_offset
    for record in records:
        if not first <= record[0] <= last:
            raise CorruptBatchError(f"the batch of offsets {first} to {last} has a record at offset {record[0]}")
    return records


def check_fetched(header: BatchHeader) -> None:
    """Raises CorruptBatchError if the header claims too many records, or offsets that no log can have."""
    if header.record_count > FETCHED_RECORDS_MAX:
        raise UnpackedTooBigError(
            f"the batch at offset {header.base_offset} claims {header.record_count} records, "
            f"expected at most {FETCHED_RECORDS_MAX}"
        )
    if header.base_offset < 0 or header.next_offset > _OFFSET_MAX:
        raise CorruptBatchError(
            f"a batch of offsets {header.base_offset} to {header.last_offset}, expected 0 to {_OFFSET_MAX - 1}"
        )


def control_key(batch: RawBatch) -> bytes | None:
    """The key of a control batch's one record, which says what it is; None if it has none."""
    records = decode_fetched(batch)
    return records[0][2] if records else None


def decode_records(
    batch: RawBatch | Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> list[DecodedRecord]:
    """All records of one batch as (offset, timestamp_ms, key, value, headers). The CRC is not checked here.

    Raises CorruptBatchError if the records do not fill the batch exactly or disagree with its header.
    """
    header, body = _header_and_body(batch, decompressed_bytes_max)
    try:
        records, position = _decode_all(body, header)
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record of the batch at offset {header.base_offset} is torn: {error}") from error
    except CorruptBatchError as error:
        raise CorruptBatchError(f"the batch at offset {header.base_offset}: {error}") from error
    if position != len(body):
        text = f"{len(body) - position} bytes after the last of {header.record_count} records"
        raise CorruptBatchError(f"the batch at offset {header.base_offset}: {text}")
    return records


def uncompressed_size_bytes(batch: RawBatch | Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> int:
    """The size in bytes that the batch would have with `compression.type=none`, header included."""
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
        raise CorruptBatchError(f"the batch at offset {header.base_offset}: {error}") from error
    if codec == CodecId.NONE:
        return header, bytes(payload)
    try:
        return header, decompress(codec, payload, size_bytes_max=decompressed_bytes_max)
    except CorruptBatchError as error:
        raise type(error)(f"the batch at offset {header.base_offset}: {error}") from error


def _decode_all(body: bytes, header: BatchHeader) -> tuple[list[DecodedRecord], int]:
    """Every record, and the position after the last one. Varints of one byte are read inline, which halves the time for
    small records."""
    records: list[DecodedRecord] = []
    position, base_offset, base_timestamp = 0, header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.has_log_append_time else None
    headers: tuple[tuple[str, bytes | None], ...]
    for _ in range(header.record_count):
        size, position = decode_varint(body, position)
        end = position + size
        if size < 0 or end > len(body):
            raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {len(body)} bytes")
        position += 1  # attributes of a record: none are defined
        if (byte := body[position]) < 0x80:
            timestamp_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            timestamp_delta, position = decode_varint(body, position)
        if (byte := body[position]) < 0x80:
            offset_delta, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            offset_delta, position = decode_varint(body, position)
        key: bytes | None = None
        if body[position] == 1:  # -1: null
            position += 1
        else:
            key, position = _read_sized(body, position)
        value: bytes | None
        value, position = _read_sized(body, position)
        if body[position]:
            headers, position = _decode_headers(body, position)
        else:
            headers, position = (), position + 1
        if position != end:
            raise CorruptBatchError(f"a record ends at byte {position}, its length says {end}")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        records.append((base_offset + offset_delta, timestamp, key, value, headers))
    return records, position


def iter_fields(header: BatchHeader, body: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """(offset, timestamp_ms, key, value) of each record, one after the other. Headers are not read. Raises
    CorruptBatchError at the first record that is torn."""
    position = 0
    append_time = header.max_timestamp if header.has_log_append_time else None
    try:
        for _ in range(header.record_count):
            size, position = decode_varint(body, position)
            end = position + size
            if size < 0 or end > len(body):
                raise CorruptBatchError(f"a record of {size} bytes ends after its batch of {len(body)} bytes")
            timestamp_delta, position = decode_varint(body, position + 1)
            offset_delta, position = decode_varint(body, position)
            key, position = _read_sized(body, position)
            value, position = _read_sized(body, position)
            if position > end:
                raise CorruptBatchError(f"a record ends at byte {position}, its length says {end}")
            timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
            yield header.base_offset + offset_delta, timestamp, key, value
            position = end
    except (IndexError, ValueError) as error:
        raise CorruptBatchError(f"a record is torn: {error}") from error


def _read_sized(body: bytes, position: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes. A negative length is null. The caller finds a length beyond the body."""
    size, position = decode_varint(body, position)
    if size < 0:
        return None, position
    return body[position : position + size], position + size


def _decode_headers(body: bytes, position: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = decode_varint(body, position)
    if not 0 <= count <= len(body) - position:
        raise CorruptBatchError(f"a record claims {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = decode_varint(body, position)
        if size < 0:
            raise CorruptBatchError("a header without a name")
        # As in Java: a name may be any bytes, and what is not UTF-8 is replaced. No broker checks names at Produce.
        name = body[position : position + size].decode("utf-8", "replace")
        position += size
        value, position = _read_sized(body, position)
        headers.append((name, value))
    return tuple(headers), position

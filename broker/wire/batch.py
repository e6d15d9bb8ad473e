"""Record batches, format 2 (KIP-98): what producers send, logs hold and consumers read.

Owns: the layout of a batch header, its checks, the two fields that a leader rewrites, and how to walk over batches.
Making batches is in batch_encoder.py, taking them apart in batch_decoder.py; records.py offers all three. Batches stay
opaque to a broker: it checks the header and the CRC, and never looks at a record.
Shown by tests/broker_wire/test_wire_records.py, which compares with kio's, aiokafka's and kafka-python's readers.

    offset  0 base_offset int64          | not covered by the CRC: base_offset, batch_length, leader epoch, magic, crc.
            8 batch_length int32         | It counts from after itself (byte 12).
           12 partition_leader_epoch i32 |
           16 magic int8 = 2             | 17 crc uint32 (CRC-32C of byte 21 to the end)
           21 attributes int16           | bits 0-2 codec, 3 log append time, 4 transactional, 5 control
           23 last_offset_delta int32    | 27 base_timestamp int64 | 35 max_timestamp int64
           43 producer_id int64          | 51 producer_epoch int16 | 53 base_sequence int32 | 57 record_count int32
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import crc32c

from broker.wire.compression import CodecId
from broker.wire.errors import CorruptBatchError

Buffer: TypeAlias = bytes | bytearray | memoryview

BATCH_OVERHEAD_BYTES = 61
LENGTH_OVERHEAD_BYTES = 12  # base_offset and batch_length themselves
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_unpack_header = BATCH_HEADER.unpack_from
_new_tuple = tuple.__new__  # like BatchHeader._make, without its check of the length; unpacking has checked it already
_CODEC_MASK = 0x07
_CODEC_MAX = int(CodecId.ZSTD)
_TIMESTAMP_TYPE_FLAG = 0x08
_TRANSACTIONAL_FLAG = 0x10
_CONTROL_FLAG = 0x20
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_SEQUENCE_MODULUS = 2**31


class BatchHeader(NamedTuple):
    """The header fields in their order on disk. It is a tuple, because making one costs 0.3 us, and 3 us for a frozen
    dataclass."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def placed(self, base_offset: int, leader_epoch: int) -> BatchHeader:
        """The header as a leader appends it (0.3 us; `_replace` takes 0.9 us)."""
        header: BatchHeader = _new_tuple(BatchHeader, (base_offset, self[1], leader_epoch, *self[3:]))
        return header

    @property
    def size_bytes(self) -> int:
        """The whole batch, header included."""
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS

    @property
    def codec(self) -> CodecId:
        return CodecId(self.attributes & _CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL_FLAG)

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & _TIMESTAMP_TYPE_FLAG)


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One whole batch: its header and its bytes, header included. `position` is where it began in the walked buffer."""

    header: BatchHeader
    buffer: memoryview
    position: int = 0

    @property
    def size_bytes(self) -> int:
        return self.header.size_bytes

    def is_crc_valid(self) -> bool:
        return crc32c.crc32c(self.buffer[ATTRIBUTES_POSITION:]) == self.header.crc


def parse_batch_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises CorruptBatchError if there are too few bytes, the magic is not 2, or the length
    is impossible.

    The batch itself may reach beyond the buffer. Neither the CRC nor the counts are checked.
    """
    try:
        header: BatchHeader = _new_tuple(BatchHeader, _unpack_header(buffer, position))
    except struct.error:
        left = len(buffer) - position
        raise CorruptBatchError(
            f"{left} bytes are too few for a batch header of {BATCH_OVERHEAD_BYTES}", position=position
        ) from None
    if header.magic != 2:
        raise CorruptBatchError(f"magic {header.magic} at byte {position}: expected 2", position=position)
    if header.batch_length < BATCH_OVERHEAD_BYTES - LENGTH_OVERHEAD_BYTES:
        raise CorruptBatchError(
            f"batch length {header.batch_length} at byte {position} is too small", position=position
        )
    return header


def iter_batches(buffer: Buffer) -> Iterator[RawBatch]:
    """Every whole batch, one after another. Stops silently at an incomplete batch at the end, because a fetch response
    may end with one.

    Raises CorruptBatchError at bytes that are not a batch header. CRCs are not checked: see `validate_batches`.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= BATCH_OVERHEAD_BYTES:
        header = parse_batch_header(view, position)
        next_position = position + header.size_bytes
        if next_position > end:
            return
        yield RawBatch(header, view[position:next_position], position)
        position = next_position


def check_header(header: BatchHeader, position: int = 0, *, is_stored: bool = False) -> None:
    """Raise CorruptBatchError if the header's fields contradict each other. The CRC is not checked.

    `is_stored`: the batch is from a log, where compaction may have removed records. A batch of a producer has a record
    for each offset.
    """
    missing = header.last_offset_delta + 1 - header.record_count
    if (missing != 0 and not (is_stored and missing > 0 and header.record_count >= 0)) or header.last_offset_delta < 0:
        raise CorruptBatchError(
            f"{header.record_count} records with last offset delta {header.last_offset_delta} at byte {position}",
            position=position,
        )
    if header.attributes & _CODEC_MASK > _CODEC_MAX:
        raise CorruptBatchError(f"unknown codec {header.attributes & _CODEC_MASK}", position=position)
    # Control batches, and offsets that a group coordinator writes within a transaction, have no sequences.
    has_sequence = header.base_sequence >= 0 or header.is_control or header.is_transactional
    if header.producer_id >= 0 and (header.producer_epoch < 0 or not has_sequence):
        raise CorruptBatchError(
            f"producer {header.producer_id} with epoch {header.producer_epoch}, sequence {header.base_sequence}",
            position=position,
        )


def validate_batches(buffer: Buffer, *, is_stored: bool = False) -> list[BatchHeader]:
    """Check lengths, magic, counts and CRC-32C of every batch; the buffer must hold whole batches and at least one.

    Returns their headers in order; raises CorruptBatchError with the position of the first bad batch.
    """
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    end, position = len(view), 0
    headers: list[BatchHeader] = []
    while position < end:
        header = parse_batch_header(view, position)
        next_position = position + header.batch_length + LENGTH_OVERHEAD_BYTES
        if next_position > end:
            raise CorruptBatchError(f"a batch of {header.size_bytes} bytes ends after its buffer", position=position)
        # The same test as check_header, without a call, for nearly every batch. All others go to check_header.
        is_plain = header.record_count == header.last_offset_delta + 1 > 0 and header.producer_id < 0
        if not is_plain or header.attributes & _CODEC_MASK > _CODEC_MAX:
            check_header(header, position, is_stored=is_stored)
        crc = crc32c.crc32c(view[position + ATTRIBUTES_POSITION : next_position])
        if crc != header.crc:
            raise CorruptBatchError(f"CRC at byte {position}: header {header.crc:#x}, data {crc:#x}", position=position)
        headers.append(header)
        position = next_position
    if not headers:
        raise CorruptBatchError("no batch in an empty buffer")
    return headers


def set_base_offset_and_epoch(
    buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0
) -> None:
    """Rewrite both fields in place, as a leader does before an append. The CRC does not cover them."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + 12, leader_epoch)


def set_log_append_time(buffer: bytearray | memoryview, timestamp_ms: int) -> None:
    """Mark the batch as stamped by the broker (KIP-32). Compute its CRC again, because it covers the changed fields."""
    header = parse_batch_header(buffer)
    fields = header._replace(attributes=header.attributes | _TIMESTAMP_TYPE_FLAG, max_timestamp=timestamp_ms)
    _write_header(buffer, fields)


def set_max_timestamp(buffer: bytearray | memoryview, timestamp_ms: int) -> None:
    """Write the largest timestamp of the records, and compute the CRC again."""
    _write_header(buffer, parse_batch_header(buffer)._replace(max_timestamp=timestamp_ms))


def _write_header(buffer: bytearray | memoryview, fields: BatchHeader) -> None:
    BATCH_HEADER.pack_into(buffer, 0, *fields)
    crc = crc32c.crc32c(memoryview(buffer)[ATTRIBUTES_POSITION : fields.size_bytes])
    BATCH_HEADER.pack_into(buffer, 0, *fields._replace(crc=crc))


def set_base_offset(buffer: bytearray | memoryview, base_offset: int) -> None:
    _OFFSET.pack_into(buffer, 0, base_offset)


def last_batch_next_offset(buffer: Buffer) -> int:
    """The offset after the last of these whole batches. Only lengths are read. The buffer holds at least one batch."""
    position, end = 0, len(buffer)
    while True:
        _, length = _OFFSET_AND_LENGTH.unpack_from(buffer, position)
        next_position = position + LENGTH_OVERHEAD_BYTES + length
        if length < 0 or next_position >= end:
            return parse_batch_header(buffer, position).next_offset
        position = next_position

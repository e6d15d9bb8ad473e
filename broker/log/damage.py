"""Tells rot from a torn write, by looking for whole batches behind a damaged one.

A killed process leaves a prefix of its last write, so nothing whole follows it. If something whole follows, the disk
has changed data that was written and perhaps acknowledged. That must be reported and not cut off. Only a loss of power
may leave a hole in data that was not synced. This module does not know what was synced; the caller does. It also tells
rot from records that a client wrote so that nobody can read them. Shown by tests/broker_log/test_log_damage.py and
test_log_time_search.py.
"""

from __future__ import annotations

from broker.log.errors import LogCorruptError, UnreadableBatchError
from broker.log.filesystem import File
from broker.wire.errors import CorruptBatchError
from broker.wire.records import BATCH_OVERHEAD_BYTES, BatchHeader, RawBatch, check_header, parse_batch_header

CHUNK_BYTES = 1 << 20
_MAGIC_AT = 16  # position of the magic byte in a batch's header
_MAGIC = b"\x02"
OFFSETS_AHEAD_MAX = 2**31  # largest distance between two offsets in the same file


def next_whole_batch(file: File, position: int, *, min_offset: int) -> tuple[int, BatchHeader] | None:
    """The first whole batch at or after `position` whose offset is `min_offset` or later, and where it begins."""
    file_bytes = file.size_bytes()
    while position + BATCH_OVERHEAD_BYTES <= file_bytes:
        chunk = file.read_at(position, CHUNK_BYTES + BATCH_OVERHEAD_BYTES)
        found = chunk.find(_MAGIC, _MAGIC_AT)
        while 0 <= found - _MAGIC_AT < CHUNK_BYTES:
            start = found - _MAGIC_AT
            header = _header_at(chunk, start, min_offset)
            if header is not None and _is_whole(file, position + start, header, file_bytes):
                return position + start, header
            found = chunk.find(_MAGIC, found + 1)
        position += CHUNK_BYTES
    return None


def _header_at(chunk: bytes, start: int, min_offset: int) -> BatchHeader | None:
    """Most bytes that look like a magic byte are not one. The offset shows this for nearly all of them."""
    offset = int.from_bytes(chunk[start : start + 8], "big")
    if not min_offset <= offset < min_offset + OFFSETS_AHEAD_MAX or start + BATCH_OVERHEAD_BYTES > len(chunk):
        return None
    try:
        header = parse_batch_header(chunk[start : start + BATCH_OVERHEAD_BYTES])
        check_header(header, 0, is_stored=True)
    except (CorruptBatchError, ValueError):
        return None
    return header


def _is_whole(file: File, position: int, header: BatchHeader, file_bytes: int) -> bool:
    if position + header.size_bytes > file_bytes:
        return False
    data = memoryview(file.read_at(position, header.size_bytes))
    return RawBatch(header, data, 0).is_crc_valid()


def unreadable(batch: RawBatch, error: CorruptBatchError) -> LogCorruptError | UnreadableBatchError:
    """The error for a batch of a log whose records cannot be read because of `error`."""
    text = f"the batch at offset {batch.header.base_offset}: {error}"
    if not batch.is_crc_valid():
        return LogCorruptError(f"{text}. Its CRC is wrong, so the disk has changed what was written")
    return UnreadableBatchError(text, offset=batch.header.base_offset)

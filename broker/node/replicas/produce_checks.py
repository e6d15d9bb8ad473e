"""The checks of a batch that depend on the topic's settings: timestamps in range, keys if the topic is compacted, the
topic's codec.

Of each record only the structure and the time are checked. Keys are checked only for compacted topics. The answer says
which record is wrong and why (KIP-467).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.node.process.clock import wall_ms
from broker.node.settings.topic_config import TopicConfig
from broker.wire.compression import DECOMPRESSED_BYTES_MAX, Buffer, CodecId, decompress
from broker.wire.errors import CorruptBatchError, ErrorCode, UnpackedTooBigError
from broker.wire.record_check import RECORDS_MAX, TIME_MAX, TIME_MIN, check_records, record_heads
from broker.wire.record_filter import recompress
from broker.wire.records import BATCH_OVERHEAD_BYTES, BatchHeader, RawBatch, parse_batch_header, validate_batches

LENGTH_POSITION, LENGTH_OVERHEAD_BYTES, MAGIC_POSITION = 8, 12, 16  # the same positions in every format since magic 0
CODEC_POSITION, CODEC_MASK = 22, 7  # the lower byte of the attributes in magic 2
TIMESTAMP_TYPE_FLAG = 0x08
MAGIC = 2
# With RECORDS_MAX and HEADERS_MAX (record_check.py), it limits the time that one batch uses the event loop to about 50
# ms. It is sixteen times the default of message.max.bytes. If max.message.bytes is more, that counts, up to the limit
# of whoever reads the log.
UNPACKED_BYTES_MAX = 16 << 20
RECORD_ERRORS_MAX = 100  # so many errors are told for one batch


def second_look(records: memoryview, *, knows_zstd: bool) -> tuple[memoryview, list[BatchHeader], ErrorCode]:
    """Checks records again that are not complete valid batches, by the rules of Apache Kafka:

    - Bytes after the batch that are no batch themselves are removed.
    - If there is no complete batch of magic 2, the error is INVALID_RECORD.
    - If the batch is damaged, the error is CORRUPT_MESSAGE.
    """
    size_bytes = _whole_batch_bytes(records)
    if (
        size_bytes is None
        or len(records) <= CODEC_POSITION
        or records[MAGIC_POSITION] != MAGIC
        or _whole_batch_bytes(records[size_bytes:]) is not None
    ):
        return records, [], ErrorCode.invalid_record
    if not knows_zstd and records[CODEC_POSITION] & CODEC_MASK == CodecId.ZSTD:
        return records, [], ErrorCode.unsupported_compression_type
    whole = records[:size_bytes]
    try:
        return whole, validate_batches(whole), ErrorCode.none
    except CorruptBatchError:
        is_sound = size_bytes >= BATCH_OVERHEAD_BYTES and RawBatch(parse_batch_header(whole), whole).is_crc_valid()
        return records, [], ErrorCode.invalid_record if is_sound else ErrorCode.corrupt_message


def _whole_batch_bytes(data: memoryview) -> int | None:
    """The size of the batch at the beginning of these bytes, of any magic. None if the bytes end before the batch
    does."""
    if len(data) <= MAGIC_POSITION:
        return None
    size_bytes = int.from_bytes(data[LENGTH_POSITION : LENGTH_POSITION + 4], signed=True) + LENGTH_OVERHEAD_BYTES
    return size_bytes if 0 <= size_bytes <= len(data) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """Why one record made the broker refuse its whole batch (KIP-467). `batch_index` counts from 0."""

    batch_index: int
    text: str
    code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """The refusal of a batch because of some of its records. Since version 8 the answer lists these records."""

    code: ErrorCode
    text: str
    records: Sequence[RecordError] = ()


class Unpacked(NamedTuple):
    """The records of a batch, and the times of the earliest and the latest of them. As in Kafka's LogValidator, the
    times are those of the records, whatever the batch header says."""

    body: Buffer
    min_timestamp: int
    max_timestamp: int


def unpack(records: memoryview, header: BatchHeader, config: TopicConfig) -> Unpacked | Rejection:
    """The records of a producer's batch, decompressed and checked. The number of complete records must be the one in
    the header, and the offset deltas must begin at 0. Records of an uncompressed batch stay in `records` and are not
    copied.

    Kafka's LogValidator does the same. Above a limit the error is MESSAGE_TOO_LARGE. A producer then splits its batch.
    The number of records is checked before anything is unpacked, and decompression stops at the limit of bytes.
    """
    if header.record_count > RECORDS_MAX:
        text = f"The batch holds {header.record_count} records, more than {RECORDS_MAX}"
        return Rejection(code=ErrorCode.message_too_large, text=text)
    if not header.attributes & CODEC_MASK:
        return _checked(records[BATCH_OVERHEAD_BYTES : header.size_bytes], header)
    try:
        size_bytes_max = min(max(UNPACKED_BYTES_MAX, config.max_message_bytes), DECOMPRESSED_BYTES_MAX)
        packed = records[BATCH_OVERHEAD_BYTES : header.size_bytes]
        body = decompress(CodecId(header.attributes & CODEC_MASK), packed, size_bytes_max=size_bytes_max)
    except UnpackedTooBigError as error:
        return Rejection(code=ErrorCode.message_too_large, text=str(error))
    except CorruptBatchError as error:
        return Rejection(code=ErrorCode.corrupt_message, text=str(error))
    return _checked(body, header)


def _checked(body: Buffer, header: BatchHeader) -> Unpacked | Rejection:
    try:
        lowest, highest = check_records(body, header.record_count)
    except UnpackedTooBigError as error:
        return Rejection(code=ErrorCode.message_too_large, text=str(error))
    except CorruptBatchError as error:
        return Rejection(code=ErrorCode.invalid_record, text=str(error))
    return Unpacked(body, header.base_timestamp + lowest, header.base_timestamp + highest)


def rejection_of(
    unpacked: Unpacked, header: BatchHeader, config: TopicConfig, partition: tuple[str, int]
) -> Rejection | None:
    """Checks keys and timestamps.

    - A compacted topic keeps the last record of each key. So compaction could neither keep nor remove a record without
      a key.
    - Timestamps must be in range (message.timestamp.before.max.ms and .after.max.ms).

    Records are checked one by one only if one may be wrong: the earliest or the latest is out of range, or the topic is
    compacted.
    """
    if header.attributes & TIMESTAMP_TYPE_FLAG:
        text = "Producer should not set timestamp type to LogAppendTime"
        return Rejection(code=ErrorCode.invalid_timestamp, text=text)
    body, earliest, latest = unpacked
    if latest > TIME_MAX or earliest < TIME_MIN:
        text = f"The timestamps of the batch are from {earliest} to {latest}, beyond 64 bits"
        return Rejection(code=ErrorCode.invalid_timestamp, text=text)
    now_ms = wall_ms()
    is_late = not _is_timely(earliest, latest, config, now_ms) and not config.has_log_append_time
    if not config.is_compacted and not is_late:
        return None
    told: list[RecordError] = []
    name = "-".join(map(str, partition))
    wrong_times = count = 0
    for index, (timestamp_delta, _, has_key) in enumerate(record_heads(body, header.record_count)):
        if config.is_compacted and not has_key:
            text = f"Compacted topic cannot accept message without key in topic partition {name}"
            error = RecordError(batch_index=index, text=text, code=ErrorCode.invalid_record)
        elif is_late and (wrong := _wrong_time(header.base_timestamp + timestamp_delta, index, config, now_ms)):
            error = RecordError(batch_index=index, text=wrong, code=ErrorCode.invalid_timestamp)
            wrong_times += 1
        else:
            continue
        count += 1
        if len(told) < RECORD_ERRORS_MAX:
            told.append(error)
    if not count:
        return None
    if wrong_times:
        text = "One or more records have been rejected due to invalid timestamp"
        return Rejection(code=ErrorCode.invalid_timestamp, text=text, records=told)
    text = f"One or more records have been rejected due to {count} record errors in total"
    return Rejection(code=ErrorCode.invalid_record, text=text, records=told)


def _is_timely(earliest: int, latest: int, config: TopicConfig, now_ms: int) -> bool:
    after_ms, before_ms = config.timestamp_after_max_ms, config.timestamp_before_max_ms
    if latest < 0:
        return True  # the batch has no timestamp
    return (after_ms is None or latest - now_ms <= after_ms) and (before_ms is None or now_ms - earliest <= before_ms)


def _wrong_time(timestamp_ms: int, index: int, config: TopicConfig, now_ms: int) -> str | None:
    after_ms, before_ms = config.timestamp_after_max_ms, config.timestamp_before_max_ms
    lowest = None if before_ms is None else now_ms - before_ms
    highest = None if after_ms is None else now_ms + after_ms
    if (lowest is None or timestamp_ms >= lowest) and (highest is None or timestamp_ms <= highest):
        return None
    return (
        f"Timestamp {timestamp_ms} of message with offset {index} is out of range. The timestamp should be within "
        f"[{'any' if lowest is None else lowest}, {'any' if highest is None else highest}]"
    )


def recompressed(
    body: Buffer, header: BatchHeader, codec: CodecId, level: int | None
) -> tuple[memoryview, list[BatchHeader]]:
    """The batch, compressed by the topic's compression.type. The header keeps the CRC that the client sent. By this CRC
    the journal identifies the batch on the wire."""
    data = memoryview(bytearray(recompress(header, body, codec, level=level)))
    return data, [parse_batch_header(data)._replace(crc=header.crc)]

"""What the settings of a topic ask of a batch: timestamps in range, keys where it is compacted, the topic's codec.

Batches stay opaque where they can: timestamps are judged by the header, and records are looked at for compacted topics
and for a foreign compression.type only.
"""

from __future__ import annotations

from broker.node.clock import wall_ms
from broker.node.topic_config import TopicConfig
from broker.wire.compression import CodecId
from broker.wire.errors import CorruptBatchError, ErrorCode
from broker.wire.record_filter import body_of, recompress, record_spans
from broker.wire.records import BatchHeader, RawBatch, parse_batch_header, validate_batches

LENGTH_POSITION, LENGTH_OVERHEAD_BYTES, MAGIC_POSITION = 8, 12, 16  # of every magic since 0
CODEC_POSITION, CODEC_MASK = 22, 7  # the low byte of the attributes of magic 2
MAGIC = 2


def second_look(records: memoryview, *, knows_zstd: bool) -> tuple[memoryview, list[BatchHeader], ErrorCode]:
    """Records that did not pass as whole sound batches, judged as Apache Kafka does: bytes after the batch that are
    none themselves are cut off, no whole batch of magic 2 is INVALID_RECORD, a damaged one CORRUPT_MESSAGE."""
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
        return records, [], ErrorCode.corrupt_message


def _whole_batch_bytes(data: memoryview) -> int | None:
    """The size of the batch that these bytes begin with, of any magic; None if they end before it does."""
    if len(data) <= MAGIC_POSITION:
        return None
    size_bytes = int.from_bytes(data[LENGTH_POSITION : LENGTH_POSITION + 4], signed=True) + LENGTH_OVERHEAD_BYTES
    return size_bytes if 0 <= size_bytes <= len(data) else None


def has_keys(records: memoryview, header: BatchHeader) -> bool:
    """A compacted topic keeps the last record of each key, so one without a key could never be kept or let go."""
    try:
        return all(span.key is not None for span in record_spans(header, body_of(RawBatch(header, records))))
    except CorruptBatchError:
        return False


def is_timely(header: BatchHeader, config: TopicConfig) -> bool:
    """message.timestamp.before.max.ms and .after.max.ms, by what the header says of the first and the largest."""
    now_ms = wall_ms()
    after_ms, before_ms = config.timestamp_after_max_ms, config.timestamp_before_max_ms
    if header.max_timestamp < 0:
        return True  # it has none
    if after_ms is not None and header.max_timestamp - now_ms > after_ms:
        return False
    return before_ms is None or now_ms - header.base_timestamp <= before_ms


def recompressed(
    records: memoryview, header: BatchHeader, codec: CodecId, level: int | None
) -> tuple[memoryview, list[BatchHeader]]:
    """The batch under the topic's compression.type. The header keeps the CRC that the client sent: the journal tells
    by it which batch of the wire this was. Raises CorruptBatchError if the records do not decompress."""
    data = memoryview(bytearray(recompress(RawBatch(header, records), codec, level=level)))
    return data, [parse_batch_header(data)._replace(crc=header.crc)]

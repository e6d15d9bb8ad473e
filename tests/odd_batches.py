"""Batches that pass or nearly pass the checks of Produce, and whose records are odd. Any client may send them."""

from __future__ import annotations

from broker.wire.batch_encoder import encode_batch
from broker.wire.compression import CodecId, compress
from broker.wire.record_filter import with_body
from broker.wire.records import parse_batch_header
from broker.wire.varints import encode_varint


def with_records(
    records: bytes,
    count: int,
    *,
    timestamp: int = 1_000,
    max_timestamp: int | None = None,
    codec: CodecId = CodecId.NONE,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch whose lengths and CRC are right, and that has these bytes as its `count` records."""
    header = parse_batch_header(encode_batch([b"v"], timestamps_ms=timestamp, codec=codec))
    header = header._replace(
        record_count=count,
        last_offset_delta=count - 1 if last_offset_delta is None else last_offset_delta,
        max_timestamp=timestamp if max_timestamp is None else max_timestamp,
    )
    return with_body(header, compress(codec, records))


def record(index: int = 0, *, key: bytes = b"k", value: bytes = b"v", headers: bytes = b"\x00", time: int = 0) -> bytes:
    sized = encode_varint(len(key)) + key + encode_varint(len(value)) + value
    rest = b"\x00" + encode_varint(time) + encode_varint(index) + sized + headers
    return encode_varint(len(rest)) + rest


def foreign_name(timestamp: int = 1_000) -> bytes:
    """One record, with a header whose name is not UTF-8. Apache Kafka accepts it."""
    return with_records(record(headers=b"\x02\x04\xff\xfe\x02x"), 1, timestamp=timestamp)


def empty_headers(count: int, *, is_torn: bool = False) -> bytes:
    """One record with `count` headers without name and value: compressed, 8 million of them take some hundred bytes. A
    torn one has a byte too many at its end."""
    records = record(headers=encode_varint(count) + b"\x00\x00" * count)
    return with_records(records + b"\x00" * is_torn, 1, codec=CodecId.ZSTD)


def unreadable(timestamp: int = 1_000) -> bytes:
    """Its CRC is right, but its records are not what its header says. Only an old log can have it."""
    return with_records(b"no record", 1, timestamp=timestamp)

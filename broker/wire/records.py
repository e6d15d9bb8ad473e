"""Everything about record batches in one import: layout (batch.py), encoding (batch_encoder.py) and decoding
(batch_decoder.py)."""

from __future__ import annotations

from broker.wire.batch import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    BATCH_OVERHEAD_BYTES,
    CRC_POSITION,
    LENGTH_OVERHEAD_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    BatchHeader,
    RawBatch,
    check_header,
    iter_batches,
    last_batch_next_offset,
    parse_batch_header,
    set_base_offset,
    set_base_offset_and_epoch,
    set_log_append_time,
    set_max_timestamp,
    validate_batches,
)
from broker.wire.batch_decoder import (
    FETCHED_BYTES_MAX,
    FETCHED_RECORDS_MAX,
    DecodedRecord,
    check_fetched,
    control_key,
    decode_fetched,
    decode_records,
    uncompressed_size_bytes,
)
from broker.wire.batch_encoder import Headers, encode_batch, encode_batch_buffers
from broker.wire.compression import CodecId

__all__ = [
    "ATTRIBUTES_POSITION",
    "BATCH_HEADER",
    "BATCH_OVERHEAD_BYTES",
    "CRC_POSITION",
    "FETCHED_BYTES_MAX",
    "FETCHED_RECORDS_MAX",
    "LENGTH_OVERHEAD_BYTES",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "CodecId",
    "DecodedRecord",
    "Headers",
    "RawBatch",
    "check_fetched",
    "check_header",
    "control_key",
    "decode_fetched",
    "decode_records",
    "encode_batch",
    "encode_batch_buffers",
    "iter_batches",
    "last_batch_next_offset",
    "parse_batch_header",
    "set_base_offset",
    "set_base_offset_and_epoch",
    "set_log_append_time",
    "set_max_timestamp",
    "uncompressed_size_bytes",
    "validate_batches",
]

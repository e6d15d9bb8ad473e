"""Record batches: to find them in bytes, to check them, to read their records, and to make them."""

from __future__ import annotations

from broker.wire.batch import BatchHeader, RawBatch, iter_batches
from broker.wire.batch_encoder import encode_batch
from broker.wire.record_check import PURE_VARIABLE, use_compiled
from broker.wire.records import (
    FETCHED_BYTES_MAX,
    DecodedRecord,
    check_fetched,
    control_key,
    decode_fetched,
    decode_records,
    uncompressed_size_bytes,
)

__all__ = [
    "FETCHED_BYTES_MAX",
    "PURE_VARIABLE",
    "BatchHeader",
    "DecodedRecord",
    "RawBatch",
    "check_fetched",
    "control_key",
    "decode_fetched",
    "decode_records",
    "encode_batch",
    "iter_batches",
    "uncompressed_size_bytes",
    "use_compiled",
]

"""Records of a Produce that are not one sound batch: told apart as by Apache Kafka."""

from __future__ import annotations

import pytest

from broker.node.produce_checks import second_look
from broker.wire.errors import ErrorCode
from broker.wire.records import CodecId, encode_batch

BATCH = bytes(encode_batch([b"a", b"b"], timestamps_ms=1))
ZSTD = bytes(encode_batch([b"a" * 100], timestamps_ms=1, codec=CodecId.ZSTD))


def changed(data: bytes, position: int, value: int) -> bytes:
    return data[:position] + bytes([value]) + data[position + 1 :]


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0", b"\0" * 11 + b"\x7f" + b"\0" * 20])
def test_bytes_after_the_batch_that_are_no_whole_batch_are_cut_off(tail: bytes) -> None:
    whole, headers, error = second_look(memoryview(bytearray(BATCH + tail)), knows_zstd=True)
    assert (bytes(whole), len(headers), error) == (BATCH, 1, ErrorCode.none)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ErrorCode.invalid_record),
        (BATCH[:5], ErrorCode.invalid_record),
        (BATCH[:-1], ErrorCode.invalid_record),  # no whole batch
        (changed(BATCH, 16, 1), ErrorCode.invalid_record),  # magic 1
        (BATCH + BATCH, ErrorCode.invalid_record),  # one batch a partition
        (changed(BATCH, len(BATCH) - 1, BATCH[-1] ^ 1), ErrorCode.corrupt_message),
        (changed(BATCH, 60, 9), ErrorCode.corrupt_message),  # more records than the last offset delta says
        (changed(ZSTD, len(ZSTD) - 1, ZSTD[-1] ^ 1), ErrorCode.unsupported_compression_type),
    ],
)
def test_what_is_wrong_is_told(data: bytes, error: ErrorCode) -> None:
    assert second_look(memoryview(bytearray(data)), knows_zstd=False)[2] is error

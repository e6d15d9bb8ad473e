"""What a broker serves is unpacked within bounds that are known before: bytes, records, offsets."""

from __future__ import annotations

import struct

import crc32c
import pytest

from broker.wire.compression import compress
from broker.wire.errors import CorruptBatchError, UnpackedTooBigError
from broker.wire.records import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER,
    CRC_POSITION,
    FETCHED_BYTES_MAX,
    FETCHED_RECORDS_MAX,
    CodecId,
    RawBatch,
    control_key,
    decode_fetched,
    iter_batches,
)

BARE = b"\x0c\x00\x00\x00\x01\x01\x00"  # a record of nothing, with offset delta 0


def raw(
    body: bytes, *, count: int = 1, last_delta: int | None = None, codec: int = 0, base: int = 40, flags: int = 0
) -> bytes:
    delta = count - 1 if last_delta is None else last_delta
    fields = (base, 49 + len(body), 0, 2, 0, codec | flags, delta, 0, 0, -1, -1, -1, count)
    batch = bytearray(BATCH_HEADER.pack(*fields) + body)
    struct.pack_into(">I", batch, CRC_POSITION, crc32c.crc32c(bytes(batch[ATTRIBUTES_POSITION:])))
    return bytes(batch)


def parsed(*arguments: bytes, **fields: int) -> RawBatch:
    return next(iter_batches(raw(*arguments, **fields)))


@pytest.mark.parametrize("codec", [codec for codec in CodecId if codec], ids=lambda codec: codec.name)
@pytest.mark.thorough
def test_a_bomb_is_refused_by_its_offset_before_it_is_unpacked_further(codec: CodecId) -> None:
    body = compress(codec, bytes(FETCHED_BYTES_MAX + 1))
    assert len(body) < FETCHED_BYTES_MAX // 15
    with pytest.raises(UnpackedTooBigError, match=f"the batch at offset 40: .* more than {FETCHED_BYTES_MAX} bytes"):
        decode_fetched(parsed(body, codec=codec))


def test_records_are_refused_by_their_number_before_one_is_built() -> None:
    """One of 9 million empty records fits in the bytes that are allowed, and takes a gigabyte."""
    with pytest.raises(UnpackedTooBigError, match=f"offset 40 claims {FETCHED_RECORDS_MAX + 1} records"):
        decode_fetched(parsed(b"", count=FETCHED_RECORDS_MAX + 1))


@pytest.mark.parametrize("codec", [codec for codec in CodecId if codec], ids=lambda codec: codec.name)
def test_damaged_bodies_are_refused_by_their_offset(codec: CodecId) -> None:
    whole = compress(codec, BARE)
    for body in (b"", whole[:-3], b"\xff" * 40, whole[:4] + b"\xff" * 30):
        with pytest.raises(CorruptBatchError, match="the batch at offset 40"):
            decode_fetched(parsed(body, codec=codec))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_is_none_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatchError):
        decode_fetched(parsed(BARE, codec=codec))


def test_a_record_outside_its_batch_is_refused() -> None:
    """Its offset met the columns of the final read as an OverflowError."""
    delta = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2^63 - 1
    record = bytes([2 * (len(BARE) + len(delta) - 2)]) + BARE[1:3] + delta + BARE[4:]
    with pytest.raises(
        CorruptBatchError, match="the batch of offsets 40 to 40 has a record at offset 9223372036854775847"
    ):
        decode_fetched(parsed(record))


@pytest.mark.parametrize("base", [2**63 - 1, -5])
def test_offsets_that_no_log_has_are_refused(base: int) -> None:
    with pytest.raises(CorruptBatchError, match=f"a batch of offsets {base} to "):
        decode_fetched(parsed(BARE, base=base))


def test_a_control_batch_without_a_record_says_nothing() -> None:
    """It was an IndexError, in the consumer's poll as in the reading of copies."""
    assert control_key(parsed(b"", count=0, last_delta=0, flags=0x20)) is None

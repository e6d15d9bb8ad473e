"""The check of a producer's records agrees with the decoder, whatever was changed in them: in Python and compiled."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.errors import CorruptBatchError
from broker.wire.record_check import _check_record, check_records
from broker.wire.records import BATCH_OVERHEAD_BYTES, decode_records, encode_batch, parse_batch_header
from broker.wire.varints import encode_varint
from tests.amount import some

pytestmark = pytest.mark.usefixtures("record_check_path")


def _record(delta: int, *, time: int = 0, key: bytes | None = None, value: bytes = b"v") -> bytes:
    sized = encode_varint(-1) if key is None else encode_varint(len(key)) + key
    rest = b"\x00" + encode_varint(time) + encode_varint(delta) + sized + encode_varint(len(value)) + value + b"\x00"
    return encode_varint(len(rest)) + rest


@pytest.mark.parametrize("value", [b"", b"v", b"x" * 200])
def test_records_that_count_from_zero_pass(value: bytes) -> None:
    records = [_record(index, time=index // 7, value=value) for index in range(20_000)]
    for count in (1, 2, 63, 64, 65, 100, 8_191, 8_193, 20_000):
        check_records(b"".join(records[:count]), count)


@pytest.mark.parametrize("delta", [-1, 7, 64, 2**40])
def test_one_wrong_offset_delta_is_found(delta: int) -> None:
    right = [_record(index) for index in range(300)]
    for wrong in {0, 1, 5, 63, 64, 100, 299} - {delta}:
        body = b"".join([*right[:wrong], _record(delta), *right[wrong + 1 :]])
        with pytest.raises(CorruptBatchError, match=f"record {wrong} has the offset delta"):
            check_records(body, 300)


def _is_sound_one_by_one(body: bytes, count: int) -> bool:
    position = 0
    try:
        for index in range(count):
            position, *_ = _check_record(body, position, index)
    except (CorruptBatchError, IndexError, ValueError):
        return False
    return position == len(body)


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 70])
@pytest.mark.parametrize("value", [b"", b"x" * 5, b"x" * 61, b"x" * 70])
@pytest.mark.parametrize("time", [0, 63, 64])
def test_any_byte_that_is_changed_in_a_run_is_judged_as_one_by_one(key: bytes | None, value: bytes, time: int) -> None:
    """In columns and one by one: 70 records, so that offset deltas of one byte and of two are among them."""
    good = b"".join(_record(index, time=time, key=key, value=value) for index in range(70))
    check_records(good, 70)
    rng = random.Random(1)
    seen = set()
    for at in some(range(0, len(good), 1 + len(good) // 300), fast=150):
        body = bytearray(good)
        body[at] = rng.choice((body[at] ^ 1, body[at] ^ 2, body[at] ^ 0x80, rng.randrange(256)))
        expected = _is_sound_one_by_one(bytes(body), 70)
        try:
            check_records(bytes(body), 70)
            found = True
        except CorruptBatchError:
            found = False
        assert found is expected, (at, good[at], body[at])
        seen.add(found)
    assert seen == {True, False}


def test_a_count_that_the_body_does_not_hold_is_found() -> None:
    body = b"".join(_record(index) for index in range(50))
    for count in (49, 51):
        with pytest.raises(CorruptBatchError):
            check_records(body, count)


@pytest.mark.parametrize("size", [1, 100])
def test_a_run_of_records_with_negative_lengths_is_torn(size: int) -> None:
    """Each length is -n - 1 where it should be n, and all else agrees: one look at a column would let them pass."""
    sound = [_record(index, value=b"x" * size) for index in range(30)]
    wrong = b"".join(bytes([record[0] | 1]) + record[1:] for record in sound)
    check_records(b"".join(sound), 30)
    with pytest.raises(CorruptBatchError, match="a record of -"):
        check_records(wrong, 30)


@given(data=st.data(), seed=st.integers(0, 2**32))
def test_it_says_of_a_damaged_body_what_the_decoder_says(data: st.DataObject, seed: int) -> None:
    rng = random.Random(seed)
    count = data.draw(st.sampled_from((1, 3, 40, 130)))
    sizes = [rng.choice((0, 5)) if seed % 2 else 5 for _ in range(count)]
    headers = [("h", b"x")] if seed % 3 == 0 else []
    batch = bytearray(
        encode_batch(
            [bytes(size) for size in sizes],
            keys=[b"k"] * count if seed % 5 else [None] * count,
            timestamps_ms=[1_000 + index * rng.choice((0, 1, 30)) for index in range(count)],
            headers=[headers] * count,
        )
    )
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(BATCH_OVERHEAD_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    body = bytes(batch[BATCH_OVERHEAD_BYTES:])
    try:
        offsets = [record[0] for record in decode_records(bytes(batch))]
    except CorruptBatchError:
        offsets = None
    is_good = offsets == list(range(parse_batch_header(batch).record_count))
    try:
        check_records(body, count)
    except CorruptBatchError:
        assert not is_good, offsets
    else:
        assert is_good, offsets

"""The record header survives a round trip, notices any damage, and bodies compress as asked."""

from __future__ import annotations

import zlib

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from runlog.streams import payload, payload_pool


@given(
    producer=st.integers(0, 32_767),
    incarnation=st.integers(0, 2**31 - 1),
    seq=st.integers(0, 2**63 - 1),
    intended_ns=st.integers(0, 2**63 - 1),
    body=st.binary(max_size=200),
)
def test_a_made_value_parses_to_what_it_was_made_of(
    producer: int, incarnation: int, seq: int, intended_ns: int, body: bytes
) -> None:
    value = payload.make(producer=producer, incarnation=incarnation, seq=seq, intended_ns=intended_ns, body=body)
    assert len(value) == payload.HEADER_BYTES + len(body)
    assert payload.parse_fast(value) == (producer, incarnation, seq, intended_ns, True)


def test_damage_to_any_byte_is_noticed() -> None:
    value = payload.make(producer=3, incarnation=1, seq=77, intended_ns=123_456_789, body=b"body of a record")
    for index in range(len(value)):
        damaged = bytearray(value)
        damaged[index] ^= 0x40
        parsed = payload.parse_fast(bytes(damaged))
        assert parsed is None or parsed[4] is False, f"byte {index}"


@pytest.mark.parametrize("value", [b"", b"short", b"\0" * 64, b"x" * 31])
def test_foreign_values_are_not_taken_for_ours(value: bytes) -> None:
    assert payload.parse_fast(value) is None


@pytest.mark.thorough
def test_a_pool_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    pools = [payload_pool.PayloadPool(record_size_bytes=300, compressibility=0.5, seed=seed) for seed in (7, 7, 8)]
    values = [pool.value(1, 0, 5, 99) for pool in pools]
    assert values[0] == values[1]
    assert values[0] != values[2]
    assert len(values[0]) == 300
    assert payload.parse_fast(values[0]) == (1, 0, 5, 99, True)


@pytest.mark.thorough
@pytest.mark.parametrize("compressibility", [0.0, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("record_size_bytes", [256, 1024, 10_000])
def test_the_achieved_compression_is_near_the_target(record_size_bytes: int, compressibility: float) -> None:
    pool = payload_pool.PayloadPool(record_size_bytes=record_size_bytes, compressibility=compressibility, seed=1)
    for compress in (zlib.compress, lambda batch: bytes(cramjam.lz4.compress(batch))):
        remaining = 1 / pool.achieved_ratio(compress)
        assert remaining == pytest.approx(1 - compressibility, abs=0.06)


@pytest.mark.thorough
def test_small_records_do_not_repeat_within_a_batch() -> None:
    pool = payload_pool.PayloadPool(record_size_bytes=100, compressibility=0.0, seed=1)
    assert len(pool) * 100 >= payload_pool.POOL_BYTES
    assert pool.achieved_ratio() < 1.25  # the header's constant bytes are all that compresses


def test_impossible_sizes_and_shares_are_refused() -> None:
    with pytest.raises(ValueError, match="record_size_bytes is 31"):
        payload_pool.PayloadPool(record_size_bytes=31, compressibility=0.0, seed=1)
    with pytest.raises(ValueError, match="compressibility"):
        payload_pool.PayloadPool(record_size_bytes=100, compressibility=1.0, seed=1)


def test_what_the_header_holds_reaches_the_crc_of_a_batch() -> None:
    """Producers take the same bodies in the same order. Their batches of one millisecond differ by the headers alone,
    and predictions know a batch by its CRC-32C."""
    pool = payload_pool.PayloadPool(record_size_bytes=200, compressibility=0.5, seed=1)
    crcs = {
        crc32c(b"".join(pool.value(producer, 0, seq, 1_000_000 + 10 * producer + seq) for seq in range(4)))
        for producer in range(50)
    }
    assert len(crcs) == 50

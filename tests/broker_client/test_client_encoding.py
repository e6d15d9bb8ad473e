"""The fast encoder writes the very bytes of broker.wire's encoder, or declines."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.core import uniform
from broker.client.core.batch import Batch, BatchState, TopicPartition, record_size_bytes_max
from broker.client.core.uniform import uniform_body
from broker.client.protocol import encode_records
from broker.wire.compression import CodecId
from broker.wire.records import decode_records, encode_batch, uncompressed_size_bytes


def make_batch(values: list[bytes | None], stamps_ms: list[int], keys: list[bytes | None] | None = None) -> Batch:
    batch = Batch(TopicPartition("t", 0), limit_bytes=10**9, reserved_bytes=0, now_ms=0)
    for index, (value, stamp_ms) in enumerate(zip(values, stamps_ms, strict=True)):
        key = None if keys is None else keys[index]
        assert batch.append(value, key, (), stamp_ms, None, record_size_bytes_max(value, key, ())) == index
    batch.close(BatchState.IN_FLIGHT)
    return batch


stamp_steps = st.lists(st.integers(0, 400), min_size=1, max_size=300)


@given(size=st.integers(0, 300), steps=stamp_steps, start=st.integers(0, 2**41), codec=st.sampled_from(CodecId))
@pytest.mark.thorough
def test_uniform_values_give_the_bytes_of_the_general_encoder(
    size: int, steps: list[int], start: int, codec: CodecId
) -> None:
    stamps = [start := start + step for step in steps]
    stamps = [min(stamp, stamps[0] + 8191) for stamp in stamps]
    values: list[bytes | None] = [bytes([index % 251]) * size for index in range(len(stamps))]
    batch = make_batch(values, stamps)
    batch.producer_id, batch.producer_epoch, batch.base_sequence = 7, 1, 99
    expected = encode_batch(
        values, timestamps_ms=stamps, codec=codec, producer_id=7, producer_epoch=1, base_sequence=99
    )
    assert b"".join(encode_records(batch, codec, None)[0]) == expected


@pytest.mark.parametrize("count", [63, 64, 65, 8191, 8192, 8193])
def test_offset_deltas_change_length_at_the_right_record(count: int) -> None:
    values: list[bytes | None] = [b"x" * 10] * count
    body = uniform_body(values, [(0, 5)])
    assert body == encode_batch(values, timestamps_ms=5)[61:]


@given(
    values=st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=50),
    stamp=st.integers(0, 2**41),
    data=st.data(),
)
def test_any_batch_reads_back_as_it_was_appended(values: list[bytes | None], stamp: int, data: st.DataObject) -> None:
    count = len(values)
    stamps = data.draw(st.lists(st.integers(stamp, stamp + 10**6), min_size=count, max_size=count))
    keys = data.draw(st.one_of(st.none(), st.lists(st.binary(max_size=9), min_size=count, max_size=count)))
    batch = make_batch(values, stamps, keys)
    records = decode_records(b"".join(encode_records(batch, CodecId.NONE, None)[0]))
    expected_keys = keys or [None] * count
    assert [(stamp_ms, key, value) for _, stamp_ms, key, value, _ in records] == list(
        zip(stamps, expected_keys, values, strict=True)
    )


@pytest.mark.parametrize("size", [0, 10, 56, 57, 63, 64, 100, 1024, 7900])
def test_the_size_estimate_bounds_the_encoded_size_closely(size: int) -> None:
    batch = make_batch([b"x" * size] * 100, [1000 + index for index in range(100)])
    encoded = b"".join(encode_records(batch, CodecId.NONE, None)[0])
    assert len(encoded) <= batch.size_bytes <= len(encoded) + 100 * 5


@pytest.mark.parametrize("values", [[b"x" * 56] * 70, [b"a", None, b"bb" * 40]])
def test_the_uncompressed_size_is_what_a_reader_finds(values: list[bytes | None]) -> None:
    encoded, plain_bytes = encode_records(make_batch(values, [1000] * len(values)), CodecId.LZ4, None)
    assert plain_bytes == uncompressed_size_bytes(b"".join(encoded))


def test_values_of_different_sizes_go_the_general_way() -> None:
    assert uniform_body([b"a", b"bb"], [(0, 1)]) is None
    assert uniform_body([b"a", None], [(0, 1)]) is None
    assert uniform_body([b"aa", b"bb"], [(0, 9), (1, 3)]) is None


def test_several_sender_threads_share_the_kept_heads_without_mixing_them_up() -> None:
    """Found by the scenario `swarm`: two producers in one process wrote wrong offset deltas after an outage."""
    stamps = [(0, 1_000)]
    wrong: list[int] = []

    def encode(thread: int) -> None:
        for size in range(200, 240):
            for count in range(20 + thread, 400, 60):
                body = uniform_body([b"x" * size] * count, stamps)
                expected = encode_batch([b"x" * size] * count, timestamps_ms=1_000)[61:]
                if body != expected:
                    wrong.append(count)

    uniform._heads.clear()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=encode, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    finally:
        sys.setswitchinterval(before)
    assert wrong == []

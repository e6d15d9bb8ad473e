"""Records are taken out of batches; what stays is byte for byte what it was, and every reader still reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from broker.wire.errors import CorruptBatchError
from broker.wire.record_filter import Keep, body_of, delete_horizon_ms, filter_batch, record_spans, without_records
from broker.wire.records import CodecId, RawBatch, decode_records, encode_batch, parse_batch_header, validate_batches


def filtered(batch: RawBatch, keep: Keep, *, new_horizon_ms: int) -> bytes | None:
    body = body_of(batch)
    return filter_batch(batch, body, list(record_spans(batch.header, body)), keep, new_horizon_ms=new_horizon_ms)


def raw(data: bytes) -> RawBatch:
    return RawBatch(parse_batch_header(data), memoryview(data))


def made(values: list[bytes | None], codec: CodecId = CodecId.NONE) -> bytes:
    return encode_batch(
        values,
        keys=[b"%d" % number for number in range(len(values))],
        timestamps_ms=[1000 + 7 * number for number in range(len(values))],
        headers=[[("h", b"x")]] * len(values),
        codec=codec,
        base_offset=50,
        producer_id=3,
        producer_epoch=1,
        base_sequence=9,
    )


@given(
    values=st.lists(st.one_of(st.none(), st.binary(max_size=40)), min_size=1, max_size=12),
    chosen=st.sets(st.integers(0, 11)),
    codec=st.sampled_from(list(CodecId)),
)
def test_kept_records_are_what_they_were(values: list[bytes | None], chosen: set[int], codec: CodecId) -> None:
    data = made(values, codec)
    kept = filtered(raw(data), lambda offset, key, has_value: offset - 50 in chosen, new_horizon_ms=5_000_000)
    expected = [row for row in decode_records(data) if row[0] - 50 in chosen]
    if not expected:
        assert kept is None
        return
    assert kept is not None
    (header,) = validate_batches(kept, is_stored=True)
    before = parse_batch_header(data)
    assert decode_records(kept) == expected
    assert header.max_timestamp == max(row[1] for row in expected)
    same = ("base_offset", "last_offset_delta", "producer_id", "producer_epoch", "base_sequence", "last_sequence")
    assert all(getattr(header, name) == getattr(before, name) for name in same)
    has_tombstone = any(row[3] is None for row in expected)
    assert delete_horizon_ms(header) == (5_000_000 if has_tombstone else None)
    if len(expected) == len(values) and not has_tombstone:
        assert kept == data
    if codec is CodecId.NONE:
        theirs = [(record.offset, record.timestamp, record.value) for record in MemoryRecords(kept).next_batch()]
        assert theirs == [(offset, time, value) for offset, time, _, value, _ in expected]


def test_a_horizon_is_set_once() -> None:
    first = filtered(raw(made([None, b"x"])), lambda *_: True, new_horizon_ms=9000)
    assert first is not None
    assert filtered(raw(first), lambda *_: True, new_horizon_ms=12_000) == first
    assert [row[1] for row in decode_records(first)] == [1000, 1007]


def test_a_batch_without_records_keeps_offsets_and_sequences() -> None:
    data = without_records(parse_batch_header(made([b"x", b"y"])))
    (header,) = validate_batches(data, is_stored=True)
    assert (header.record_count, header.base_offset, header.last_offset, header.last_sequence) == (0, 50, 51, 10)
    assert decode_records(data) == []
    with pytest.raises(CorruptBatchError):
        validate_batches(data)  # from a producer it is refused


def test_a_torn_body_is_found() -> None:
    batch = raw(made([b"x" * 20, b"y"]))
    body = body_of(batch)
    for end in range(len(body)):
        with pytest.raises(CorruptBatchError):
            list(record_spans(batch.header, body[:end]))

"""Batches we make are read by kio, aiokafka and kafka-python; theirs by us; damage is found."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kio.records.readers import read_batch

from broker.wire.errors import CorruptBatchError, LocalProtocolError
from broker.wire.records import (
    BATCH_OVERHEAD_BYTES,
    CodecId,
    DecodedRecord,
    decode_records,
    encode_batch,
    encode_batch_buffers,
    iter_batches,
    parse_batch_header,
    set_base_offset_and_epoch,
    uncompressed_size_bytes,
    validate_batches,
)
from broker.wire.varints import decode_varint, encode_varint

optional_bytes = st.none() | st.binary(max_size=80)
header = st.tuples(st.text(max_size=8), optional_bytes)
record = st.tuples(st.integers(0, 2**45), optional_bytes, optional_bytes, st.lists(header, max_size=3))
records = st.lists(record, min_size=1, max_size=12)


def columns(rows: list[Any]) -> dict[str, Any]:
    return {
        "values": [row[2] for row in rows],
        "keys": [row[1] for row in rows],
        "timestamps_ms": [row[0] for row in rows],
        "headers": [row[3] for row in rows],
    }


def expected(rows: list[Any], base_offset: int = 0) -> list[DecodedRecord]:
    return [(base_offset + index, row[0], row[1], row[2], tuple(row[3])) for index, row in enumerate(rows)]


def read_by_aiokafka(batch: bytes) -> list[Any]:
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    return [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs]


def read_by_kafka_python(batch: bytes) -> list[Any]:
    theirs = KafkaPythonBatch(batch)
    assert theirs.validate_crc()
    return [(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs]


@settings(deadline=None)
@given(rows=records, codec=st.sampled_from(list(CodecId)), base_offset=st.integers(0, 2**50))
def test_every_reader_reads_what_we_write(rows: list[Any], codec: CodecId, base_offset: int) -> None:
    batch = encode_batch(**columns(rows), codec=codec, base_offset=base_offset)
    want = expected(rows, base_offset)
    assert decode_records(batch) == want
    assert read_by_aiokafka(batch) == want
    if codec in (CodecId.NONE, CodecId.GZIP):  # for the others it wants libraries that we do not need
        assert read_by_kafka_python(batch) == want
    (head,) = validate_batches(batch)
    assert (head.base_offset, head.next_offset, head.codec) == (base_offset, base_offset + len(rows), codec)
    assert head.max_timestamp == max(row[0] for row in rows)


@pytest.mark.thorough
@settings(deadline=None)
@given(rows=records, codec=st.sampled_from(list(CodecId)))
def test_we_read_and_reproduce_what_aiokafka_writes(rows: list[Any], codec: CodecId) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=9,
        producer_epoch=2,
        base_sequence=5,
        batch_size=10**6,
    )
    for index, (timestamp, key, value, headers) in enumerate(rows):
        assert builder.append(index, timestamp=timestamp, key=key, value=value, headers=headers)
    theirs = bytes(builder.build())
    assert decode_records(theirs) == expected(rows)
    ours = encode_batch(**columns(rows), producer_id=9, producer_epoch=2, base_sequence=5)
    assert ours == theirs
    packed = encode_batch(**columns(rows), codec=codec)
    assert uncompressed_size_bytes(packed) == len(theirs)


@given(values=st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=100), timestamp=st.integers(0, 2**45))
def test_fast_path_writes_the_same_bytes_as_the_general_path(values: list[bytes | None], timestamp: int) -> None:
    fast = encode_batch(values, timestamps_ms=timestamp)
    general = encode_batch(values, timestamps_ms=timestamp, keys=[None] * len(values))
    assert fast == general
    assert b"".join(encode_batch_buffers(values, timestamps_ms=timestamp)) == fast


def test_fast_path_beyond_the_varint_table() -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(9000)] + [bytes(20_000), None]
    batch = encode_batch(values, timestamps_ms=1)
    assert [row[3] for row in decode_records(batch)] == values
    assert batch == encode_batch(values, timestamps_ms=[1] * len(values))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_round_trip(number: int) -> None:
    encoded = encode_varint(number)
    assert decode_varint(encoded + b"\x01", 0) == (number, len(encoded))


@pytest.mark.parametrize("codec", list(CodecId))
def test_any_changed_byte_under_the_crc_is_found(codec: CodecId) -> None:
    batch = encode_batch([b"one", b"two"], timestamps_ms=7, codec=codec)
    for position in range(8, len(batch)):
        if 12 <= position < 16:
            continue  # the leader epoch is not covered, so that a leader may set it
        damaged = bytearray(batch)
        damaged[position] ^= 0x20
        with pytest.raises(CorruptBatchError):
            validate_batches(damaged)


def test_every_torn_length_is_found_and_walked_around() -> None:
    first, second = encode_batch([b"one"], timestamps_ms=1), encode_batch([b"two", b"3"], timestamps_ms=1)
    both = first + second
    for size in range(len(both)):
        part = both[:size]
        whole = len(first) if size >= len(first) else 0
        assert sum(batch.size_bytes for batch in iter_batches(part)) == whole
        if size not in (0, len(first)):
            with pytest.raises(CorruptBatchError):
                validate_batches(part)
    assert [batch.header.record_count for batch in iter_batches(both)] == [1, 2]
    assert [batch.position for batch in iter_batches(both)] == [0, len(first)]
    assert [batch.is_crc_valid() for batch in iter_batches(both)] == [True, True]


def test_empty_buffer_is_no_batch() -> None:
    with pytest.raises(CorruptBatchError, match="no batch"):
        validate_batches(b"")


def test_old_magic_is_refused() -> None:
    batch = bytearray(encode_batch([b"v"], timestamps_ms=1))
    batch[16] = 1
    with pytest.raises(CorruptBatchError, match="magic 1"):
        parse_batch_header(batch)


@given(offset=st.integers(0, 2**62), epoch=st.integers(0, 2**31 - 1))
def test_leaders_rewrite_keeps_crc_and_records(offset: int, epoch: int) -> None:
    batch = bytearray(b"\xaa" * 7 + encode_batch([b"a", b"b"], timestamps_ms=3))
    set_base_offset_and_epoch(batch, offset, epoch, 7)
    (head,) = validate_batches(memoryview(batch)[7:])
    assert (head.base_offset, head.partition_leader_epoch) == (offset, epoch)
    assert [row[0] for row in decode_records(memoryview(batch)[7:])] == [offset, offset + 1]
    assert batch[:7] == b"\xaa" * 7


def test_last_sequence_wraps_to_zero() -> None:
    batch = encode_batch([b"v"] * 4, timestamps_ms=1, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert parse_batch_header(batch).last_sequence == 1


def test_flags_are_kafkas() -> None:
    head = parse_batch_header(
        encode_batch([b"v"], timestamps_ms=1, transactional=True, control=True, codec=CodecId.LZ4)
    )
    assert head.attributes == 0x33
    assert head.is_transactional
    assert head.is_control
    assert head.codec is CodecId.LZ4


@pytest.mark.parametrize("bad", [{"keys": [b"k"]}, {"timestamps_ms": [1]}, {"headers": [(), (), ()]}])
def test_columns_of_different_lengths_are_our_error(bad: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"timestamps_ms": 1, **bad}
    with pytest.raises(LocalProtocolError, match="for 2 values"):
        encode_batch([b"a", b"b"], **arguments)


def test_no_records_is_our_error() -> None:
    with pytest.raises(LocalProtocolError, match="at least one"):
        encode_batch([], timestamps_ms=1)


@given(st.binary(max_size=200), st.integers(0, 5))
def test_random_record_bytes_never_escape_as_another_exception(body: bytes, count: int) -> None:
    batch = bytearray(encode_batch([b"x"] * max(count, 1), timestamps_ms=1)[:BATCH_OVERHEAD_BYTES] + body)
    batch[8:12] = (49 + len(body)).to_bytes(4, "big")
    try:
        rows = decode_records(batch)
    except CorruptBatchError:
        return
    assert len(rows) == max(count, 1)


def test_kio_reads_our_batch() -> None:
    batch = encode_batch([b"a", None], timestamps_ms=[5, 6], keys=[b"k", None], headers=[[("h", b"1")], []])
    theirs, size = read_batch(batch, 0)
    assert size == len(batch)
    assert [record.value for record in theirs.records] == [b"a", None]
    assert [record.key for record in theirs.records] == [b"k", None]

"""Records of a Produce that are not one sound batch: told apart as by Apache Kafka."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from broker.node.process.clock import wall_ms
from broker.node.replicas.produce_checks import (
    UNPACKED_BYTES_MAX,
    Rejection,
    rejection_of,
    second_look,
    unpack,
)
from broker.node.settings.config import config_of
from broker.node.settings.topic_config import parse_topic_config, topic_defaults
from broker.node.settings.values import Address
from broker.wire.compression import DECOMPRESSED_BYTES_MAX, compress
from broker.wire.errors import ErrorCode
from broker.wire.record_check import HEADERS_MAX, RECORDS_MAX, use_compiled
from broker.wire.record_filter import recompress, with_body
from broker.wire.records import BATCH_OVERHEAD_BYTES, CodecId, encode_batch, parse_batch_header
from tests.odd_batches import empty_headers, record, with_records

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


HOUR_MS = 3_600_000
_ANY = Address(host="127.0.0.1", port=1)
_NODE = config_of(
    node_id=1, controller_quorum_voters={1: _ANY}, listeners={"INTERNAL": _ANY}, advertised_listeners={},
    log_dirs=(Path("unused"),),
)  # fmt: skip
KEYED = replace(
    parse_topic_config(topic_defaults(_NODE.topics)), is_compacted=True, timestamp_before_max_ms=HOUR_MS,
    timestamp_after_max_ms=HOUR_MS,
)  # fmt: skip


@pytest.mark.parametrize("codec", [CodecId.NONE, CodecId.ZSTD])
def test_records_that_had_their_batch_refused_are_named(codec: CodecId) -> None:
    """KIP-467; librdkafka's test 0011 found that they were not."""
    now_ms = wall_ms()

    def rejected(
        keys: list[bytes | None], times_ms: list[int], *, is_compacted: bool = True
    ) -> tuple[ErrorCode, list[int]] | None:
        data = memoryview(encode_batch([b"v"] * len(keys), timestamps_ms=times_ms, keys=keys, codec=codec))
        header, config = parse_batch_header(data), replace(KEYED, is_compacted=is_compacted)
        body = unpack(data, header, config)
        assert not isinstance(body, Rejection)
        found = rejection_of(body, header, config, ("t", 3))
        return None if found is None else (found.code, [each.batch_index for each in found.records])

    assert rejected([b"a", b"b"], [now_ms, now_ms]) is None
    assert rejected([b"a", None, b"c", None], [now_ms] * 4) == (ErrorCode.invalid_record, [1, 3])
    assert rejected([b"a", None], [now_ms] * 2, is_compacted=False) is None
    early, late = now_ms - 2 * HOUR_MS, now_ms + 2 * HOUR_MS
    assert rejected([b"a", b"b", b"c"], [now_ms, late, now_ms]) == (ErrorCode.invalid_timestamp, [1])
    assert rejected([b"a", b"b", None], [early, now_ms, now_ms]) == (ErrorCode.invalid_timestamp, [0, 2])
    assert rejected([None, None], [early, late], is_compacted=False) == (ErrorCode.invalid_timestamp, [0, 1])


def test_a_topic_that_stamps_records_itself_asks_nothing_of_their_times() -> None:
    data = memoryview(encode_batch([b"v"], timestamps_ms=1))
    config = replace(KEYED, is_compacted=False, has_log_append_time=True)
    body = unpack(data, parse_batch_header(data), config)
    assert not isinstance(body, Rejection)
    assert rejection_of(body, parse_batch_header(data), config, ("t", 0)) is None


def _rejected(batch: bytes) -> ErrorCode | None:
    found = unpack(memoryview(batch), parse_batch_header(batch), KEYED)
    return found.code if isinstance(found, Rejection) else None


@pytest.mark.parametrize("codec", list(CodecId))
def test_a_batch_whose_offsets_do_not_count_from_zero_is_refused_also_when_compressed(codec: CodecId) -> None:
    good = encode_batch([b"v"] * 100, timestamps_ms=1)
    header = parse_batch_header(good)
    body = bytearray(good[BATCH_OVERHEAD_BYTES:])
    assert _rejected(recompress(header, bytes(body), codec)) is None
    at = bytes(body).index(bytes((0, 0, 2 * 50)))  # attributes, timestamp, offset delta
    body[at + 2] = 2 * 51
    assert _rejected(recompress(header, bytes(body), codec)) is ErrorCode.invalid_record


@pytest.mark.thorough
@pytest.mark.parametrize("codec", [CodecId.GZIP, CodecId.SNAPPY, CodecId.LZ4, CodecId.ZSTD])
def test_what_would_unpack_to_too_much_is_known_before_it_is_unpacked(codec: CodecId) -> None:
    bomb = encode_batch([bytes(UNPACKED_BYTES_MAX + 1)], timestamps_ms=1, codec=codec)
    tracemalloc.start()
    assert _rejected(bomb) is ErrorCode.message_too_large
    assert tracemalloc.get_traced_memory()[1] < 2.5 * UNPACKED_BYTES_MAX
    tracemalloc.stop()
    many = encode_batch([b""] * (RECORDS_MAX + 1), timestamps_ms=1, codec=codec)
    assert _rejected(many) is ErrorCode.message_too_large
    assert _rejected(encode_batch([b""] * RECORDS_MAX, timestamps_ms=1, codec=codec)) is None


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("is_torn", [True, False])
def test_a_batch_of_too_many_headers_is_refused_before_they_are_walked(is_compiled: bool, is_torn: bool) -> None:
    """584 bytes of zstd were 8 million headers, and the walk in Python took 10 s."""
    use_compiled(is_compiled)
    try:
        assert _rejected(empty_headers(8_000_000, is_torn=is_torn)) is ErrorCode.message_too_large
        assert _rejected(empty_headers(HEADERS_MAX + 1)) is ErrorCode.message_too_large
        assert _rejected(empty_headers(HEADERS_MAX, is_torn=True)) is ErrorCode.invalid_record
        assert _rejected(empty_headers(HEADERS_MAX)) is None
    finally:
        use_compiled(True)


def test_a_batch_unpacks_to_no_more_than_its_readers_can_read() -> None:
    config = replace(KEYED, max_message_bytes=2**31 - 1)
    bomb = encode_batch([bytes(DECOMPRESSED_BYTES_MAX + 1)], timestamps_ms=1, codec=CodecId.ZSTD)
    found = unpack(memoryview(bomb), parse_batch_header(bomb), config)
    assert isinstance(found, Rejection)
    assert found.code is ErrorCode.message_too_large


@pytest.mark.parametrize("codec", [CodecId.NONE, CodecId.ZSTD])
def test_times_are_those_of_the_records_whatever_the_header_says(codec: CodecId) -> None:
    now_ms = wall_ms()
    late, early = now_ms + 2 * HOUR_MS, now_ms - 2 * HOUR_MS

    def rejected(times_ms: list[int]) -> ErrorCode | None:
        records = b"".join(record(index, time=each - now_ms) for index, each in enumerate(times_ms))
        data = memoryview(with_records(records, len(times_ms), timestamp=now_ms, max_timestamp=now_ms, codec=codec))
        found = unpack(data, parse_batch_header(data), KEYED)
        assert not isinstance(found, Rejection)
        assert found[1:] == (min(times_ms), max(times_ms))
        rejection = rejection_of(found, parse_batch_header(data), KEYED, ("t", 0))
        return None if rejection is None else rejection.code

    assert rejected([now_ms, now_ms + 5, now_ms - 5]) is None
    assert rejected([now_ms, late]) is rejected([now_ms, early]) is ErrorCode.invalid_timestamp
    assert rejected([now_ms, 2**63]) is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("codec", [CodecId.GZIP, CodecId.SNAPPY])
def test_packed_data_of_very_many_empty_parts_is_refused(codec: CodecId) -> None:
    part = compress(codec, b"")
    packed = part * 50_000 if codec is CodecId.GZIP else part + (b"\0\0\0\1\0" * 50_000)
    header = parse_batch_header(encode_batch([b"v"], timestamps_ms=1, codec=codec))
    assert _rejected(with_body(header, packed)) is ErrorCode.corrupt_message


def test_a_header_that_contradicts_itself_is_an_invalid_record_as_in_apache_kafka() -> None:
    header = parse_batch_header(BATCH)._replace(record_count=9)
    wrong = with_body(header, BATCH[BATCH_OVERHEAD_BYTES:])
    assert second_look(memoryview(bytearray(wrong)), knows_zstd=True)[2] is ErrorCode.invalid_record

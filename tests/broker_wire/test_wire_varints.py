"""A varint has one meaning: code that reads the short forms in place reads every form as broker.wire.varints does.

The walks that check records, in Python and compiled, are compared in test_wire_compiled.py.
"""

from __future__ import annotations

import struct

import pytest

from broker.wire.apis import ApiKey
from broker.wire.batch_decoder import iter_fields
from broker.wire.codec import decode_request
from broker.wire.errors import RemoteProtocolError
from broker.wire.extent import extent_of
from broker.wire.hot_produce import decode_produce_request
from broker.wire.messages import response_type
from broker.wire.record_check import check_records, record_heads
from broker.wire.record_filter import record_spans, with_body
from broker.wire.records import decode_records, encode_batch, parse_batch_header
from broker.wire.varints import decode_varint, encode_varint, read_uvarint, unsigned_varint, uvarint, varint

VALUES = (0, 1, 62, 63, 64, 127, 128, 4095, 4096, 8191, 8192, 2**20, 2**28, 2**31 - 1)


def forms(encoded: bytes, bytes_max: int) -> list[bytes]:
    """The same number in as many bytes as are allowed: the shortest form first."""
    longer = encoded[:-1] + bytes([encoded[-1] | 0x80])
    return [encoded, *(longer + b"\x80" * spare + b"\x00" for spare in range(bytes_max - len(encoded)))]


@pytest.mark.parametrize("value", [*VALUES, *(-each for each in VALUES), 2**63 - 1, -(2**63)])
def test_every_form_of_a_signed_varint_is_the_same_number(value: int) -> None:
    assert varint(value) == encode_varint(value)
    for form in forms(encode_varint(value), 10):
        assert decode_varint(form + b"\x01", 0) == (value, len(form))


@pytest.mark.parametrize("value", VALUES)
def test_every_form_of_an_unsigned_varint_is_the_same_number(value: int) -> None:
    assert uvarint(value) == unsigned_varint(value)
    for form in forms(unsigned_varint(value), 5):
        assert read_uvarint(form + b"\x01", 0) == (value, len(form))


def record(time: bytes, key_size: bytes, value_size: bytes, header_count: bytes) -> bytes:
    rest = b"\x00" + time + b"\x00" + key_size + b"k" * 5 + value_size + b"v" * 300 + header_count + b"\x02h\x01"
    return varint(len(rest)) + rest


@pytest.mark.parametrize("field", ["time", "key_size", "value_size", "header_count"])
def test_all_readers_of_records_read_every_form_of_a_field_alike(field: str) -> None:
    """Values as wide as the field allows: one whose short form takes two bytes is among them."""
    usual = {"time": 70, "key_size": 5, "value_size": 300, "header_count": 1}
    for form in forms(encode_varint(usual[field]), 10):
        body = record(**{name: form if name == field else encode_varint(value) for name, value in usual.items()})
        check_records(body, 1)
        header = parse_batch_header(encode_batch([b"any"], timestamps_ms=1_000, base_offset=9))
        assert decode_records(with_body(header, body)) == [(9, 1_070, b"k" * 5, b"v" * 300, (("h", None),))]
        (span,) = record_spans(header, body)
        assert (span.start, span.end, span.timestamp_delta, span.offset) == (0, len(body), 70, 9)
        assert (span.key, span.has_value) == (b"k" * 5, True)
        assert list(record_heads(body, 1)) == [(70, 0, True)]
        assert list(iter_fields(header, body)) == [(9, 1_070, b"k" * 5, b"v" * 300)]


def test_the_codec_of_produce_by_hand_reads_every_form_of_a_length_as_the_general_one() -> None:
    for size in (1, 126, 127, 128, 16_383, 16_384, 70_000):
        for form in forms(unsigned_varint(size + 1), 5)[1:]:  # a shortest form is what test_wire_hot.py writes
            head = struct.pack(">hhih", ApiKey.PRODUCE, 9, 7, -1) + b"\x00"
            partition = struct.pack(">i", 3) + form + bytes(size) + b"\x00"
            body = b"\x00" + struct.pack(">hi", -1, 1000) + b"\x02" + b"\x02t" + b"\x02" + partition + b"\x00" + b"\x00"
            by_hand = decode_produce_request(memoryview(head + body), len(head), 9)
            assert by_hand is not None
            (topic,) = by_hand.topic_data
            assert [(each.index, bytes(each.records or b"")) for each in topic.partition_data] == [(3, bytes(size))]
            (general,) = decode_request(memoryview(bytearray(head + body)))[1].topic_data
            assert [(each.index, bytes(each.records)) for each in general.partition_data] == [(3, bytes(size))]


def test_the_walk_over_an_answer_reads_every_form_of_a_length_and_refuses_more_than_an_int() -> None:
    answer = response_type(ApiKey.LIST_GROUPS, 3)
    for form in forms(unsigned_varint(130 + 1), 5):
        group = form + b"g" * 130 + b"\x01" + b"\x00"
        frame = struct.pack(">ih", 0, 0) + b"\x02" + group + b"\x00"
        assert extent_of(answer, frame, 0, elements_max=10) == len(frame)
    frame = struct.pack(">ih", 0, 0) + b"\x80\x80\x80\x80\x08"
    with pytest.raises(RemoteProtocolError, match="more than Java's largest int"):
        extent_of(answer, frame, 0, elements_max=10)

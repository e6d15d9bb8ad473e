"""What an answer may claim: whoever listens on an address cannot make a decoder take memory or time for it."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map

from broker.wire.apis import ApiKey
from broker.wire.codec import decode_response, encode_response
from broker.wire.decoder import decode_in_place
from broker.wire.errors import ProtocolError, RemoteProtocolError
from broker.wire.extent import extent_of
from broker.wire.messages import response, response_type
from tests.amount import examples, some
from tests.broker_wire.test_wire_codec import ALL_TYPES, encoded_by_kio, random_message

ELEMENTS_MAX = 1_000_000
TWO_BILLION = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f"]


@pytest.mark.parametrize(
    ("key", "version", "frame", "claim"),
    [
        (
            ApiKey.API_VERSIONS,
            3,
            "00000001 0000 ffffffff0f",
            "ApiVersionsResponse version 3: a length or count of 4294967295",
        ),
        (ApiKey.METADATA, 9, "00000001 00 00000000 ffffffff0f", "a length or count of 4294967295"),
        (
            ApiKey.METADATA,
            5,
            "00000001 00000000 7fffffff",
            "MetadataResponse version 5: an array of 2147483647 elements",
        ),
    ],
)
def test_an_answer_of_12_bytes_that_claims_billions_is_a_peers_error(
    key: int, version: int, frame: str, claim: str
) -> None:
    """The first two ended the process by SIGABRT: kio's native decoder takes the memory first."""
    with pytest.raises(RemoteProtocolError, match=claim):
        decode_response(key, version, bytes.fromhex(frame))


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (key, version)
        for key, name in api_key_map.items()
        for version in {min(schema_name_map[name]), max(schema_name_map[name])}
    ],
)
def test_no_claim_in_an_answer_takes_memory(key: int, version: int) -> None:
    """Two billion, written over each byte in turn: decoded all the same, or refused. A claim that is believed ends
    this process."""
    message_type = response_type(key, version)
    small = min((encoded_by_kio(random_message(message_type, random.Random(seed))) for seed in range(8)), key=len)
    head = b"\x00\x00\x00\x01" + (b"\x00" if message_type.__flexible__ and key != ApiKey.API_VERSIONS else b"")
    for position in some(range(min(len(small), 64)), fast=16):
        for claim in TWO_BILLION:
            decode_or_refuse(key, version, head + small[:position] + claim + small[position + len(claim) :])


def decode_or_refuse(key: int, version: int, frame: bytes) -> Any:
    try:
        return decode_response(key, version, frame)[1]
    except ProtocolError as error:
        return error


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(ALL_TYPES), st.integers(0, 2**32), st.data())
def test_what_the_walk_passes_the_decoder_reads_to_the_same_end(which: Any, seed: int, data: st.DataObject) -> None:
    """Damaged at random. Where both take it they agree on its end; where the walk refuses, the decoder may not care."""
    type_of, key, version = which
    message_type = type_of(key, version)
    whole = bytearray(encoded_by_kio(random_message(message_type, random.Random(seed))))[:400]
    for _ in range(data.draw(st.integers(0, 3)) if whole else 0):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    frame = bytes(whole)
    try:
        end = extent_of(message_type, frame, 0, elements_max=ELEMENTS_MAX)
    except RemoteProtocolError:
        return
    assert 0 <= end <= len(frame)
    refusal = ""
    try:
        decode_in_place(message_type, memoryview(frame[:end]), 0)
    except RemoteProtocolError as error:  # a null, bad UTF-8, a time out of range: values are not the walk's part
        refusal = str(error)
    assert "after its frame" not in refusal
    assert "cannot fit" not in refusal


def test_all_arrays_of_an_answer_share_one_bound() -> None:
    partition = {
        "error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0,
        "replica_nodes": (1, 2, 3), "isr_nodes": (1, 2, 3), "offline_replicas": (),
    }  # fmt: skip
    topic = {"error_code": 0, "name": "t", "topic_id": None, "is_internal": False, "partitions": [partition] * 10}
    message = response(ApiKey.METADATA, 12, brokers=[], topics=[topic] * 10)
    frame = b"".join(encode_response(ApiKey.METADATA, 12, 7, message))[4:]
    elements = 10 + 10 * 10 + 10 * 10 * 6
    assert len(decode_response(ApiKey.METADATA, 12, frame, elements_max=elements)[1].topics) == 10
    with pytest.raises(RemoteProtocolError, match="where 2 more are allowed"):
        decode_response(ApiKey.METADATA, 12, frame, elements_max=elements - 1)


def test_an_array_that_would_fit_is_refused_by_its_count_before_anything_is_built() -> None:
    """Sixteen million empty groups in 64 MiB: within its frame, and a gigabyte of objects."""
    frame = struct.pack(">iihi", 1, 0, 0, 16 << 20) + bytes(64 << 20)  # ListGroups version 1
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="an array of 16777216 elements at byte 14"):
            decode_response(ApiKey.LIST_GROUPS, 1, frame)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_tagged_fields_count_too() -> None:
    frame = struct.pack(">i", 1) + b"\x00" + bytes(6) + b"\xff\xff\xff\x07" + bytes(40 << 20)  # Heartbeat 4
    with pytest.raises(RemoteProtocolError, match="an array of 16777215 elements"):
        decode_response(ApiKey.HEARTBEAT, 4, frame)


def test_a_header_with_a_million_tags_is_refused() -> None:
    frame = struct.pack(">i", 1) + b"\xff\xff\xff\x07" + bytes(40 << 20)
    with pytest.raises(RemoteProtocolError, match="a header claims 16777215 tagged fields"):
        decode_response(ApiKey.HEARTBEAT, 4, frame)


def test_an_error_code_from_the_future_is_read_as_an_unknown_error() -> None:
    frame = struct.pack(">iih", 1, 0, 31_000)  # Heartbeat version 1
    assert decode_response(ApiKey.HEARTBEAT, 1, frame)[1].error_code.name == "unknown_server_error"

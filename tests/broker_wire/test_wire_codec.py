"""Our generated encoder and in-place decoder against kio's own, for every API and version that kio knows."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from kio.static.primitive import i32, i64

from broker.wire import apis
from broker.wire.apis import APIS, ApiKey, Listener
from broker.wire.codec import (
    UnsupportedVersionError,
    decode_request,
    decode_request_header,
    decode_response,
    decode_response_correlation_id,
    encode_request,
    encode_response,
    encode_unsupported_api_versions,
)
from broker.wire.decoder import decode_in_place
from broker.wire.encoder import COPY_BELOW_BYTES, Output, encode_body
from broker.wire.errors import (
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    error_code,
    error_name,
    is_retriable,
)
from broker.wire.extent import extent_of
from broker.wire.messages import FieldShape, field_shapes, request, request_type, response, response_type, to_ms
from tests.amount import some

SEEDS = some(range(4), fast=2)
SIZES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def random_message(message_type: Any, rng: random.Random) -> Any:
    return message_type(**{shape.name: random_value(shape, rng) for shape in field_shapes(message_type)})


def random_value(shape: FieldShape, rng: random.Random) -> Any:
    if shape.tag is not None and rng.random() < 0.5:
        return shape.default
    # A tag is present or absent, and kio cannot write a null inside of one.
    if shape.nullable and shape.tag is None and rng.random() < 0.3:
        return None
    if shape.is_array:
        return tuple(random_scalar(shape, rng) for _ in range(rng.choice((0, 1, 2, 3))))
    return random_scalar(shape, rng)


def random_scalar(shape: FieldShape, rng: random.Random) -> Any:
    kind = shape.kafka_type
    if shape.nested is not None:
        return random_message(shape.nested, rng)
    if kind in SIZES:
        return rng.randrange(-(2 ** (SIZES[kind] - 1)), 2 ** (SIZES[kind] - 1))
    if kind in UNSIGNED:
        return rng.randrange(2 ** UNSIGNED[kind])
    if kind == "string":
        return "".join(rng.choices("abcé€", k=rng.choice((0, 1, 5, 130, 2000))))
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 1, 100, COPY_BELOW_BYTES, 20_000)))
    if kind == "timedelta_i32":
        return timedelta(milliseconds=rng.randrange(-(2**31), 2**31))
    if kind == "timedelta_i64":
        return timedelta(milliseconds=rng.randrange(-(2**40), 2**40))
    if kind == "datetime_i64":
        return datetime.fromtimestamp(rng.randrange(2**31), UTC)
    return {
        "float64": rng.random(),
        "bool": rng.random() < 0.5,
        "uuid": UUID(int=rng.randrange(1, 2**128)),
        "error_code": rng.choice(list(ErrorCode)),
    }[kind]


def encoded_by_kio(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def encoded_by_us(message: Any) -> bytes:
    output = Output()
    encode_body(message, output)
    return b"".join(output.finish())


ALL_TYPES = [
    (type_of, key, version)
    for key, name in api_key_map.items()
    for version in schema_name_map[name]
    for type_of in (request_type, response_type)
]
# One test for all versions of a message, because some 1,300 tests of one version each cost more than what they prove.
ALL_MESSAGES = [
    pytest.param(partial(type_of, key), schema_name_map[name], id=f"{name}-{kind.name}")
    for key, name in api_key_map.items()
    for kind, type_of in ((EntityType.request, request_type), (EntityType.response, response_type))
]


@pytest.mark.parametrize(("type_of", "versions"), some(ALL_MESSAGES, fast=60))
def test_encoder_writes_the_same_bytes_as_kio(type_of: Callable[[int], Any], versions: Iterable[int]) -> None:
    for version, seed in itertools.product(versions, SEEDS):
        message = random_message(type_of(version), random.Random(seed))
        assert encoded_by_us(message) == encoded_by_kio(message), (version, seed)


@pytest.mark.parametrize(("type_of", "versions"), some(ALL_MESSAGES, fast=60))
def test_in_place_decoder_reads_the_same_values_as_kio(type_of: Callable[[int], Any], versions: Iterable[int]) -> None:
    for which in itertools.product(versions, SEEDS):
        message_type = type_of(which[0])
        data = encoded_by_kio(random_message(message_type, random.Random(which[1])))
        expected, size = entity_reader(message_type)(data, 0)
        assert size == len(data), which
        assert decode_in_place(message_type, memoryview(data), 0) == expected, which
        assert extent_of(message_type, data + b"more", 0, elements_max=100_000) == size, which


@pytest.mark.parametrize("version", range(9, 14))
def test_torn_produce_request_is_a_remote_protocol_error_at_every_byte(version: int) -> None:
    message_type = request_type(ApiKey.PRODUCE, version)
    topic = {"name": "t", "topic_id": UUID(int=1), "partition_data": [{"index": 3, "records": bytes(900)}] * 2}
    data = encoded_by_kio(request(ApiKey.PRODUCE, version, transactional_id="x", topic_data=[topic]))
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode_in_place(message_type, memoryview(data)[:size], 0)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_requests_and_responses_survive_a_whole_frame(api: apis.Api) -> None:
    rng = random.Random(api.key)
    for version in range(api.min_version, api.max_version + 1):
        sent = random_message(request_type(api.key, version), rng)
        frame = b"".join(encode_request(api.key, version, 77, "client-é", sent))
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        header, received = decode_request(bytearray(frame[4:]))
        assert (header.api_key, header.api_version, header.correlation_id) == (api.key, version, 77)
        assert header.client_id == "client-é"
        assert encoded_by_us(received) == encoded_by_us(sent)
        answer = random_message(response_type(api.key, version), rng)
        frame = b"".join(encode_response(api.key, version, 78, answer))
        assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
        assert decode_response_correlation_id(frame[4:]) == 78
        correlation_id, received = decode_response(api.key, version, memoryview(bytearray(frame))[4:])
        assert correlation_id == 78
        assert encoded_by_us(received) == encoded_by_us(answer)


def produce_request(version: int, records: Any) -> Any:
    return request(
        ApiKey.PRODUCE,
        version,
        acks=-1,
        timeout=1500,
        topic_data=[{"name": "t", "partition_data": [{"index": 3, "records": records}]}],
    )


def test_payloads_are_handed_on_not_copied() -> None:
    payload = bytearray(100_000)
    buffers = encode_request(ApiKey.PRODUCE, 9, 1, None, produce_request(9, payload))
    assert any(buffer is payload for buffer in buffers)


def test_produce_records_are_a_writable_view_of_the_frame() -> None:
    frame = bytearray(b"".join(encode_request(ApiKey.PRODUCE, 9, 1, "c", produce_request(9, b"\x07" * 600)))[4:])
    _, message = decode_request(frame)
    records = message.topic_data[0].partition_data[0].records
    records[0:8] = b"ABCDEFGH"
    assert b"ABCDEFGH\x07" in frame
    assert to_ms(message.timeout) == 1500


@pytest.mark.parametrize("parts", [[b"a" * 600, b"b" * 10], [b"", b"x"], [memoryview(b"y" * 5000)]])
def test_records_may_be_a_list_of_buffers(parts: list[Any]) -> None:
    whole = b"".join(encode_request(ApiKey.PRODUCE, 9, 1, "c", produce_request(9, b"".join(parts))))
    assert b"".join(encode_request(ApiKey.PRODUCE, 9, 1, "c", produce_request(9, parts))) == whole


@pytest.mark.parametrize("version", [3, 9])
def test_null_records_stay_null(version: int) -> None:
    frame = b"".join(encode_request(ApiKey.PRODUCE, version, 1, "c", produce_request(version, None)))[4:]
    assert decode_request(frame)[1].topic_data[0].partition_data[0].records is None


def test_fetch_response_of_several_batches_and_an_empty_partition() -> None:
    batches = [b"a" * 700, b"b" * 300]
    partitions = [{"partition_index": 0, "records": batches}, {"partition_index": 1, "records": b""}]
    message = response(ApiKey.FETCH, 16, responses=[{"topic_id": UUID(int=5), "partitions": partitions}])
    frame = b"".join(encode_response(ApiKey.FETCH, 16, 4, message))[4:]
    received = decode_response(ApiKey.FETCH, 16, frame)[1].responses[0].partitions
    assert [bytes(each.records) for each in received] == [b"a" * 700 + b"b" * 300, b""]


def test_replica_state_is_a_tagged_field_of_fetch_15_and_later() -> None:
    values: dict[str, Any] = {"replica_state": {"replica_id": 2, "replica_epoch": 9}, "replica_id": 2, "max_wait": 500}
    for version in range(4, 18):
        frame = b"".join(encode_request(ApiKey.FETCH, version, 1, None, request(ApiKey.FETCH, version, **values)))[4:]
        header, message = decode_request(frame)
        assert header.client_id is None
        assert (message.replica_state.replica_id if version >= 15 else message.replica_id) == 2


def test_api_versions_response_header_has_no_tags() -> None:
    message = response(ApiKey.API_VERSIONS, 3)
    frame = b"".join(encode_response(ApiKey.API_VERSIONS, 3, 5, message))
    assert frame[4:10] == struct.pack(">ih", 5, 0)
    other = b"".join(encode_response(ApiKey.METADATA, 9, 5, response(ApiKey.METADATA, 9)))
    assert other[8] == 0  # an empty set of tags follows the correlation id


def test_unknown_api_versions_version_is_answered_in_version_0_with_error_35() -> None:
    with pytest.raises(UnsupportedVersionError) as raised:
        decode_request(struct.pack(">hhih", 18, 99, 41, -1) + b"\x00")
    assert raised.value.header.api_key == ApiKey.API_VERSIONS
    frame = b"".join(encode_unsupported_api_versions(raised.value.header.correlation_id, Listener.CLIENT))[4:]
    correlation_id, message = decode_response(ApiKey.API_VERSIONS, 0, frame)
    assert (correlation_id, message.error_code) == (41, 35)
    assert (0, 0, 13) in [(each.api_key, each.min_version, each.max_version) for each in message.api_keys]


@pytest.mark.parametrize("version", [0, 1, 2, 14])
def test_produce_outside_of_3_to_13_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        decode_request_header(struct.pack(">hhih", 0, version, 1, -1))


@pytest.mark.parametrize(
    "frame",
    [b"", b"\x00\x12", struct.pack(">hhih", 3, 1, 1, 500), struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe", bytes(10)],
)
def test_nonsense_is_a_remote_protocol_error(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_request(frame)


def test_misspelt_field_is_our_error() -> None:
    with pytest.raises(LocalProtocolError, match="no version has a field 'acs'"):
        request(ApiKey.PRODUCE, 9, acs=1)


@pytest.mark.parametrize("values", [{"acks": 70_000}, {"acks": None}, {"topic_data": [{"name": 5}]}])
def test_value_that_does_not_fit_is_our_error(values: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError, match="cannot encode"):
        encode_request(ApiKey.PRODUCE, 9, 1, "c", request(ApiKey.PRODUCE, 9, **values))


def test_message_of_another_version_is_our_error() -> None:
    with pytest.raises(LocalProtocolError, match="expected a"):
        encode_request(ApiKey.PRODUCE, 9, 1, "c", request(ApiKey.PRODUCE, 8))


def test_error_codes_have_names_and_say_whether_to_retry() -> None:
    assert is_retriable(ErrorCode.not_leader_or_follower)
    assert not is_retriable(ErrorCode.message_too_large)
    assert error_name(6) == "NOT_LEADER_OR_FOLLOWER"
    assert error_name(31_000) == "ERROR_31000"
    assert error_code(31_000) is ErrorCode.unknown_server_error


def test_kio_number_types_accept_plain_ints() -> None:
    """`build` relies on it: kio's narrow ints are checked by type checkers only."""
    assert isinstance(5, i32)
    assert isinstance(5, i64)


def test_a_transaction_that_has_not_begun_has_no_start_time() -> None:
    """Kafka sends -1 there; the generated reader of such a field takes no negative time."""
    state = {
        "error_code": 0, "transactional_id": "x", "transaction_state": "Empty", "transaction_timeout": 1000,
        "transaction_start_time": None, "producer_id": 1, "producer_epoch": 0, "topics": [],
    }  # fmt: skip
    message = response(ApiKey.DESCRIBE_TRANSACTIONS, 0, throttle_time=0, transaction_states=[state])
    frame = b"".join(encode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, 7, message))[4:]
    assert (0xFF).to_bytes() * 8 in frame
    _, decoded = decode_response(ApiKey.DESCRIBE_TRANSACTIONS, 0, frame)
    assert decoded.transaction_states[0].transaction_start_time is None

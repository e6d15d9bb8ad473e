"""The hand-written codecs of Produce and Fetch against the general ones: the same values and bytes, or declined."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.wire import hot_fetch, hot_produce
from broker.wire.apis import ApiKey
from broker.wire.codec import (
    decode_request,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.hot_fetch import FetchPartition, PartitionData, ReplicaState
from broker.wire.hot_produce import PartitionAnswer
from broker.wire.messages import request, response, to_ms
from tests.amount import examples

INT16, INT32, INT64 = (
    st.integers(-(2**15), 2**15 - 1),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
NAMES = st.text("abcé€", max_size=150)
IDS = st.one_of(st.none(), st.uuids().filter(lambda value: value.int != 0))
RECORDS = st.one_of(st.none(), st.sampled_from((0, 1, 126, 127, 128, 511, 512, 16_383, 16_384, 70_000)).map(bytes))
ERRORS = st.sampled_from(list(ErrorCode))
FRAMES = settings(max_examples=examples(80), deadline=None)


def lists(element: Any) -> Any:
    return st.lists(element, max_size=3)


PRODUCE_TOPICS = lists(st.tuples(NAMES, IDS, lists(st.tuples(INT32, RECORDS))))


def produce_frame(version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Any) -> bytearray:
    data = [
        {"name": name, "topic_id": topic_id, "partition_data": [{"index": i, "records": r} for i, r in partitions]}
        for name, topic_id, partitions in topics
    ]
    message = request(
        ApiKey.PRODUCE, version, transactional_id=transactional_id, acks=acks, timeout=timeout_ms, topic_data=data
    )
    return bytearray(b"".join(encode_request(ApiKey.PRODUCE, version, 7, "client", message))[4:])


def produce_values(message: Any) -> Any:
    topics = [
        (
            getattr(topic, "name", None),
            getattr(topic, "topic_id", None),
            [(each.index, None if each.records is None else bytes(each.records)) for each in topic.partition_data],
        )
        for topic in message.topic_data
    ]
    return message.transactional_id, message.acks, to_ms(message.timeout), topics


def fast_produce(frame: bytearray) -> Any:
    header = decode_request_header(frame)
    return hot_produce.decode_produce_request(memoryview(frame), header.body_position, header.api_version)


@FRAMES
@given(st.integers(3, 13), st.one_of(st.none(), NAMES), INT16, INT32, PRODUCE_TOPICS)
def test_produce_request_is_read_as_the_general_decoder_reads_it_or_declined(
    version: int, transactional_id: str | None, acks: int, timeout_ms: int, topics: Any
) -> None:
    frame = produce_frame(version, transactional_id, acks, timeout_ms, topics)
    fast = fast_produce(frame)
    assert fast is None or produce_values(fast) == produce_values(decode_request(frame)[1])
    names = [transactional_id or "", *(name for name, _, _ in topics)]
    if version < 9 or all(len(name.encode()) < 126 for name in names):
        assert fast is not None, "what clients send all day must not be declined"


def test_produce_records_are_a_writable_view_of_the_frame() -> None:
    frame = produce_frame(10, None, 1, 0, [("t", None, [(0, bytes(900))])])
    fast = fast_produce(frame)
    fast.topic_data[0].partition_data[0].records[0] = 0xAB
    assert 0xAB in frame


@pytest.mark.parametrize("version", range(3, 14))
def test_damaged_produce_request_is_read_alike_or_declined(version: int) -> None:
    """One byte changed, anywhere: never another meaning than the general decoder's, never an exception."""
    rng = random.Random(version)
    topics = [("topic", UUID(int=5), [(3, bytes(200)), (4, None)]), ("u", UUID(int=6), [(0, b"x")])]
    whole = produce_frame(version, "txn", -1, 1500, topics)
    begin = decode_request_header(whole).body_position
    for position in range(begin, len(whole)):
        for byte in {0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)}:
            frame = bytearray(whole)
            frame[position] = byte
            assert_alike(frame, fast_produce(frame), produce_values)
    for size in range(begin, len(whole)):
        assert_alike(whole[:size], fast_produce(whole[:size]), produce_values)


def assert_alike(frame: bytearray, fast: Any, values: Any) -> None:
    if fast is not None:
        header = decode_request_header(frame)
        assert values(fast) == values(decode_request_body(header, frame))
        return
    try:
        decode_request(frame)
    except RemoteProtocolError:
        return


ANSWERS = lists(st.tuples(NAMES, IDS, lists(st.tuples(INT32, ERRORS, INT64, st.integers(-1, 2**40), INT64))))


@FRAMES
@given(st.integers(3, 13), INT32, ANSWERS)
def test_produce_response_has_the_bytes_of_the_general_encoder(version: int, correlation_id: int, topics: Any) -> None:
    answers: list[tuple[str | UUID | None, list[PartitionAnswer]]] = []
    general = []
    for name, topic_id, partitions in topics:
        results, values = [], []
        for index, error, base_offset, time_ms, start_offset in partitions:
            result = PartitionAnswer(index)
            result.error_code, result.base_offset = error, base_offset
            result.log_append_time_ms, result.log_start_offset = time_ms, start_offset
            results.append(result)
            values.append({"index": index, "error_code": error, "base_offset": base_offset, "log_append_time": time_ms,
                           "log_start_offset": start_offset})  # fmt: skip
        answers.append((topic_id if version >= 13 else name, results))
        general.append({"name": name, "topic_id": topic_id, "partition_responses": values})
    expected = encode_response(
        ApiKey.PRODUCE, version, correlation_id, response(ApiKey.PRODUCE, version, responses=general)
    )
    fast = hot_produce.encode_produce_response(version, correlation_id, answers)
    if fast is None:
        assert version >= 9
        assert any(len(name.encode()) >= 126 for name, _, _ in topics)
    else:
        assert fast == b"".join(expected)


ASKED = st.tuples(INT32, INT32, INT64, INT32, INT64, INT32)
FETCH_TOPICS = lists(st.tuples(NAMES, IDS, lists(ASKED)))
ASKED_NAMES = ("partition", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "log_start_offset",
               "partition_max_bytes")  # fmt: skip


def fetch_frame(
    version: int, replica: tuple[int, int], limits: Any, session: Any, topics: Any, **more: Any
) -> bytearray:
    max_wait, min_bytes, max_bytes, isolation_level = limits
    message = request(
        ApiKey.FETCH,
        version,
        replica_id=replica[0],
        replica_state={"replica_id": replica[0], "replica_epoch": replica[1]},
        max_wait=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [dict(zip(ASKED_NAMES, each, strict=True)) for each in asked],
            }
            for name, topic_id, asked in topics
        ],
        **{"forgotten_topics_data": [], "rack_id": "", **more},
    )
    return bytearray(b"".join(encode_request(ApiKey.FETCH, version, 7, "client", message))[4:])


def fetch_values(version: int) -> Any:
    def values(message: Any) -> Any:
        replica = message.replica_id if version < 15 else tuple(
            getattr(message.replica_state, name) for name in ("replica_id", "replica_epoch")
        )  # fmt: skip
        topics = [
            (
                getattr(topic, "topic", None),
                getattr(topic, "topic_id", None),
                [tuple(getattr(each, name) for name in ASKED_NAMES) for each in topic.partitions],
            )
            for topic in message.topics
        ]
        numbers = (message.min_bytes, message.max_bytes, message.isolation_level, message.session_id)
        forgotten = len(message.forgotten_topics_data)
        return replica, to_ms(message.max_wait), *numbers, message.session_epoch, topics, forgotten

    return values


def fast_fetch(frame: bytearray) -> Any:
    header = decode_request_header(frame)
    return hot_fetch.decode_fetch_request(memoryview(frame), header.body_position, header.api_version)


@FRAMES
@given(
    st.integers(4, 18),
    st.tuples(INT32, INT64),
    st.tuples(INT32, INT32, INT32, st.integers(0, 1)),
    st.tuples(INT32, INT32),
    FETCH_TOPICS,
)
def test_fetch_request_is_read_as_the_general_decoder_reads_it_or_declined(
    version: int, replica: Any, limits: Any, session: Any, topics: Any
) -> None:
    frame = fetch_frame(version, replica, limits, session, topics)
    fast, values = fast_fetch(frame), fetch_values(version)
    assert fast is None or values(fast) == values(decode_request(frame)[1])
    if version >= 12 and all(len(name.encode()) < 126 for name, _, _ in topics):
        assert fast is not None


def test_fetch_request_with_forgotten_partitions_or_a_cluster_id_is_for_the_general_decoder() -> None:
    plain = ((1, 2), (500, 1, 1000, 0), (9, 3), [("t", UUID(int=1), [(0, 1, 2, 3, 4, 5)])])
    assert fast_fetch(fetch_frame(17, *plain)) is not None
    assert fast_fetch(fetch_frame(17, *plain, cluster_id="c")) is None
    forgotten = [{"topic_id": UUID(int=1), "partitions": (1,)}]
    assert fast_fetch(fetch_frame(17, *plain, forgotten_topics_data=forgotten)) is None


@pytest.mark.parametrize("version", range(12, 19))
def test_damaged_fetch_request_is_read_alike_or_declined(version: int) -> None:
    topics = [("topic", UUID(int=5), [(3, 1, 10, 1, 0, 100), (4, 1, 11, 1, 0, 100)])]
    whole = fetch_frame(version, (2, 5), (500, 1, 1000, 0), (9, 3), topics, rack_id="rack")
    begin = decode_request_header(whole).body_position
    for position in range(begin, len(whole)):
        for byte in (0, 1, 2, 0x7F, 0x80, 0xFF):
            frame = bytearray(whole)
            frame[position] = byte
            assert_alike(frame, fast_fetch(frame), fetch_values(version))
    for size in range(begin, len(whole)):
        assert_alike(whole[:size], fast_fetch(whole[:size]), fetch_values(version))


@FRAMES
@given(st.integers(15, 18), st.tuples(INT32, INT64), lists(st.tuples(st.uuids(), lists(ASKED))))
def test_follower_request_has_the_bytes_of_the_general_encoder(version: int, state: Any, topics: Any) -> None:
    expected = fetch_frame(version, state, (500, 1, 1000, 0), (0, -1), [("", *each) for each in topics])
    if state == (-1, -1):
        return  # the default: a tagged field that is left out
    asked = [(topic_id, [FetchPartition(*each) for each in partitions]) for topic_id, partitions in topics]
    frame = hot_fetch.encode_follower_fetch(version, 7, b"client", ReplicaState(*state), (500, 1, 1000), (0, -1), asked)
    assert frame[4:] == expected
    assert int.from_bytes(frame[:4], "big") == len(expected)


@settings(max_examples=examples(20), deadline=None)
@given(lists(st.tuples(st.uuids(), lists(INT32))))
def test_follower_request_forgets_as_the_general_encoder_does(topics: Any) -> None:
    frame = hot_fetch.encode_follower_fetch(
        17,
        7,
        b"client",
        ReplicaState(2, 5),
        (500, 1, 1000),
        (9, 3),
        [],
        [(topic_id, each) for topic_id, each in topics],
    )
    forgotten = [{"topic_id": topic_id, "partitions": tuple(each)} for topic_id, each in topics]
    expected = fetch_frame(17, (2, 5), (500, 1, 1000, 0), (9, 3), [], forgotten_topics_data=forgotten)
    assert frame[4:] == expected


TOLD = st.tuples(INT32, ERRORS, INT64, INT64, INT64, RECORDS.map(lambda value: value or b""), st.booleans())
TOLD_TOPICS = st.lists(st.tuples(NAMES, IDS, st.lists(TOLD, max_size=130)), max_size=3)


def general_fetch_response(version: int, session_id: int, topics: Any) -> Any:
    return response(
        ApiKey.FETCH,
        version,
        session_id=session_id,
        responses=[
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": index, "error_code": error, "high_watermark": high_watermark,
                     "last_stable_offset": stable, "log_start_offset": start, "records": records,
                     "aborted_transactions": [] if is_committed else None}
                    for index, error, high_watermark, stable, start, records, is_committed in partitions
                ],
            }
            for name, topic_id, partitions in topics
        ],
    )  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(12, 17), INT32, INT32, TOLD_TOPICS)
def test_fetch_response_has_the_bytes_of_the_general_encoder_and_a_follower_reads_them(
    version: int, correlation_id: int, session_id: int, topics: Any
) -> None:
    message = general_fetch_response(version, session_id, topics)
    expected = b"".join(encode_response(ApiKey.FETCH, version, correlation_id, message))
    answers = [
        (topic_id if version >= 13 else name, [PartitionData(*each) for each in partitions])
        for name, topic_id, partitions in topics
    ]
    assert b"".join(hot_fetch.encode_fetch_response(version, correlation_id, session_id, answers)) == expected
    frame = memoryview(expected)[4:]
    read = hot_fetch.decode_fetch_response(frame, version)
    if version < 13:
        assert read is None
        return
    assert read is not None
    assert response_values(read) == response_values(decode_response(ApiKey.FETCH, version, frame)[1])


def response_values(message: Any) -> Any:
    names = ("partition_index", "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "records")
    topics = [
        (
            topic.topic_id,
            [
                (*(getattr(each, name) for name in names), each.diverging_epoch.epoch, each.diverging_epoch.end_offset)
                for each in topic.partitions
            ],
        )
        for topic in message.responses
    ]
    return message.error_code, message.session_id, topics


def test_large_fetch_payload_is_handed_on_not_copied() -> None:
    records = bytes(100_000)
    buffers = hot_fetch.encode_fetch_response(16, 1, 0, [(UUID(int=1), [PartitionData(0, 0, 1, 1, 0, records)])])
    assert any(buffer is records for buffer in buffers)


@pytest.mark.parametrize("version", range(13, 18))
def test_diverging_log_or_aborted_transactions_are_for_the_general_decoder(version: int) -> None:
    part: dict[str, Any] = {"partition_index": 0, "high_watermark": 1, "records": b"x"}
    for more in ({"diverging_epoch": {"epoch": 1, "end_offset": 2}}, {"aborted_transactions": [{"producer_id": 1}]}):
        message = response(
            ApiKey.FETCH, version, responses=[{"topic_id": UUID(int=1), "partitions": [{**part, **more}]}]
        )
        frame = b"".join(encode_response(ApiKey.FETCH, version, 1, message))[4:]
        assert hot_fetch.decode_fetch_response(memoryview(frame), version) is None


@pytest.mark.parametrize("version", range(13, 18))
def test_torn_fetch_response_is_declined_at_every_byte(version: int) -> None:
    topics = [("t", UUID(int=5), [(0, ErrorCode.none, 9, 9, 0, bytes(300), False)])]
    whole = b"".join(encode_response(ApiKey.FETCH, version, 1, general_fetch_response(version, 4, topics)))[4:]
    for size in range(len(whole)):
        assert hot_fetch.decode_fetch_response(memoryview(whole)[:size], version) is None

"""What one request may ask for is known before it is built; work is done in turns; files have their descriptors."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterator

import pytest

from broker.node.cluster.links import LocalRequest
from broker.node.coordination.markers import MARKERS_MAX, PARTITIONS_MAX
from broker.node.coordination.verification import QUESTIONS_PER_REQUEST_MAX
from broker.node.net.limits import ELEMENTS_MAX, ELEMENTS_MAX_OF, ELEMENTS_MAX_OF_PEERS, elements_max
from broker.node.net.requests import guarded
from broker.node.net.time_slices import in_turns
from broker.node.process.descriptors import (
    FILE_DESCRIPTORS_MAX,
    OTHER_FILES,
    descriptors_for_connections,
    partitions_with_descriptors,
)
from broker.node.replicas.isr import PROPOSALS_MAX
from broker.wire.apis import ApiKey
from broker.wire.codec import RequestHeader, decode_request_body, decode_request_header, encode_request, encode_response
from broker.wire.encoder import STRING_BYTES_MAX
from broker.wire.errors import LocalProtocolError, RemoteProtocolError
from broker.wire.messages import request, response


def _metadata(topics: int) -> tuple[RequestHeader, bytes]:
    message = request(ApiKey.METADATA, 9, topics=[{"name": "t"}] * topics)
    frame = b"".join(encode_request(ApiKey.METADATA, 9, 1, None, message))[4:]
    return decode_request_header(frame), frame


def test_a_request_has_no_more_elements_than_allowed() -> None:
    header, frame = _metadata(101)
    assert len(decode_request_body(header, frame, elements_max=101).topics) == 101
    with pytest.raises(RemoteProtocolError, match="more than 100 elements"):
        decode_request_body(header, frame, elements_max=100)


def test_elements_count_over_all_arrays_of_a_request() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}] * 10}] * 10
    message = request(ApiKey.LIST_OFFSETS, 6, topics=topics)
    frame = b"".join(encode_request(ApiKey.LIST_OFFSETS, 6, 1, None, message))[4:]
    header = decode_request_header(frame)
    decode_request_body(header, frame, elements_max=110)
    with pytest.raises(RemoteProtocolError):
        decode_request_body(header, frame, elements_max=109)


def test_only_what_brokers_ask_one_another_may_be_larger() -> None:
    assert elements_max(ApiKey.OFFSET_COMMIT, is_peer=False) == ELEMENTS_MAX
    assert elements_max(ApiKey.FETCH, is_peer=True) == ELEMENTS_MAX_OF_PEERS[ApiKey.FETCH]
    # Each element takes 4 to 9 us: 200,000 of them kept a broker for 0.4 to 1 s.
    assert elements_max(ApiKey.ADD_PARTITIONS_TO_TXN, is_peer=True) == ELEMENTS_MAX
    for is_peer in (True, False):
        assert elements_max(ApiKey.CREATE_TOPICS, is_peer=is_peer) == ELEMENTS_MAX_OF[ApiKey.CREATE_TOPICS]


def test_brokers_keep_to_what_brokers_allow() -> None:
    """In elements: of a question transaction, topic, partition; of a proposal topic, partition and each ISR member; of
    markers each marker, and at most a topic for each partition."""
    replicas_max = 20
    assert elements_max(ApiKey.ADD_PARTITIONS_TO_TXN, is_peer=True) >= 3 * QUESTIONS_PER_REQUEST_MAX
    assert (2 + replicas_max) * PROPOSALS_MAX <= elements_max(ApiKey.ALTER_PARTITION, is_peer=True)
    assert elements_max(ApiKey.WRITE_TXN_MARKERS, is_peer=True) >= MARKERS_MAX + 2 * PARTITIONS_MAX


def test_texts_are_cut_and_names_are_not() -> None:
    long = "\N{SNOWMAN}" * STRING_BYTES_MAX
    for version in (1, 2):  # before compact texts, and with them
        told = {"name": "t", "error_code": 0, "error_message": long}
        answer = response(ApiKey.CREATE_PARTITIONS, version, results=[told])
        frame = b"".join(encode_response(ApiKey.CREATE_PARTITIONS, version, 1, answer))
        assert STRING_BYTES_MAX - 4 < frame.count("\N{SNOWMAN}".encode()) * 3 <= STRING_BYTES_MAX
        with pytest.raises(LocalProtocolError):
            message = response(ApiKey.CREATE_PARTITIONS, version, results=[{**told, "name": long}])
            encode_response(ApiKey.CREATE_PARTITIONS, version, 1, message)


def _request(failures: list[str]) -> LocalRequest:
    return LocalRequest(
        api_key=ApiKey.METADATA,
        message=None,
        version=0,
        listener_name="INTERNAL",
        log=lambda api_key, cause: failures.append(cause),
    )


def test_long_work_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def work(trace: list[str]) -> Iterator[None]:
        nonlocal now_ns
        for step in range(4):
            trace.append(f"step {step}")
            now_ns += 15_000_000
            yield

    async def run() -> list[str]:
        monkeypatch.setattr("broker.node.net.time_slices.monotonic_ns", lambda: now_ns)
        trace: list[str] = []
        in_turns(_request([]), work(trace), lambda: trace.append("done"))
        trace.append("other")
        for _ in range(3):
            await asyncio.sleep(0)
        return trace

    assert asyncio.run(run()) == ["step 0", "step 1", "other", "step 2", "step 3", "done"]


def test_what_fails_in_a_callback_fails_its_request_only() -> None:
    async def run() -> None:
        failures: list[str] = []
        asked = _request(failures)

        def answer(value: int) -> None:
            raise ZeroDivisionError(value)

        guarded(asked, answer)(7)
        assert "ZeroDivisionError: 7" in failures[0]
        assert asked.future.exception() is not None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1_024, 512), (300, 44), (256, 1), (1 << 20, (1 << 20) - 100_000)],
)
def test_files_have_their_share_of_the_descriptors(limit: int, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert descriptors_for_connections() == expected
    assert partitions_with_descriptors() == max(256, min(limit // 2, FILE_DESCRIPTORS_MAX)) - OTHER_FILES


def test_without_a_limit_there_is_one_that_nobody_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert descriptors_for_connections() > 2**30
    assert partitions_with_descriptors() == FILE_DESCRIPTORS_MAX - OTHER_FILES

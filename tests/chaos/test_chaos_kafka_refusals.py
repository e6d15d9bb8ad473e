"""Refusals of every API and version: beside Apache Kafka's own error responses, and at the level that brokers use."""

from __future__ import annotations

import random
import struct
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from broker.wire import codec, messages
from broker.wire.errors import ErrorCode
from chaos.toxiproxy.kafka import produce
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.refusals import refusal_frame
from harness.clusters.kafka.jars import ensure_jars, java_command
from tests.chaos import kafka_frames as kf
from tests.chaos.kafka_samples import CLIENT_ID, CORRELATION_ID, VERSIONS, request_frame, sample_request
from tests.patience import run_command

JAVA = Path(__file__).parent / "java" / "ErrorAnswers.java"
NOT_LEADER, COORDINATOR_LOADING, NOT_COORDINATOR, UNSUPPORTED_VERSION, TOPIC_FORBIDDEN = 6, 14, 16, 35, 29
SESSION_GONE, UNSTABLE, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER, UNKNOWN_CODE = 70, 88, 79, 25, 9999
# Here a broker answers these codes in another way than the method that is compared (chaos/toxiproxy/kafka/refusals.py).
BY_LEVEL = {"Fetch", "ShareFetch", "ShareAcknowledge", "OffsetFetch", "LeaveGroup"}
AT_THE_TOP = {"ShareFetch": 122, "ShareAcknowledge": 122, "LeaveGroup": COORDINATOR_LOADING}
WORDS = ("error_message",)


def answer(api_key: int, version: int, request: Any, code: int) -> Any:
    """The message that a client reads. None if there is no refusal."""
    frame = refusal_frame(request_frame(api_key, version, request), code, CLIENT_ID)
    if frame is None:
        return None
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, message = codec.decode_response(api_key, version, frame[4:])
    assert correlation_id == CORRELATION_ID
    return message


def plain(value: Any) -> Any:
    """Comparable: without words, without order (Kafka collects the topics of some APIs in hash tables), records as
    bytes."""
    if is_dataclass(value):
        return tuple((field.name, plain(getattr(value, field.name))) for field in fields(value)
                     if field.name not in WORDS)  # fmt: skip
    if isinstance(value, tuple):
        return sorted((plain(each) for each in value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


def kafkas(cases: list[tuple[int, bytes]]) -> list[str]:
    """What Kafka's own method answers to each error code and request frame."""
    lines = "".join(f"{code} {frame.hex()}\n" for code, frame in cases)
    command = [java_command(), "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", f"{ensure_jars()}/*", str(JAVA)]
    return run_command(command, input=lines, check=True).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.kafka
def test_every_refusal_says_what_kafkas_own_error_response_says() -> None:
    cases = [
        (api, key, version, entries, code)
        for api, key, version in VERSIONS
        for entries in (2, 1, 0)
        for code in codes(api, version, entries)
    ]
    frames = [
        request_frame(key, version, sample_request(key, version, entries)) for _, key, version, entries, _ in cases
    ]
    theirs = kafkas([(case[-1], frame) for case, frame in zip(cases, frames, strict=True)])
    compared, wrong = 0, []
    for (api, key, version, entries, code), frame, line in zip(cases, frames, theirs, strict=True):
        status, _, body = line.partition(" ")
        assert status == "ok", (api, version, line)
        expected = codec.decode_message(messages.response_type(key, version), bytes.fromhex(body), 0)
        ours = refusal_frame(frame, code, CLIENT_ID)
        if ours is None:
            assert not has_error(expected), (api, version)  # Kafka's own answer does not tell the client either
            continue
        _, got = codec.decode_response(key, version, ours[4:])
        if api == "JoinGroup":
            expected = replace(expected, member_id=got.member_id)
        # Here Kafka's method has the code of a partition or topic at the top too.
        is_of_partition = api == "Fetch" and 7 <= version < 13 and code == NOT_LEADER
        if is_of_partition or (api == "Metadata" and version >= 13 and entries):
            expected = replace(expected, error_code=ErrorCode.none)
        if plain(got) != plain(expected):
            wrong.append(f"{api} {version}, {entries} entries, error {code}:\n  {got}\n  {expected}")
        compared += 1
    assert not wrong, "\n".join(wrong)
    assert compared > 500


def codes(api: str, version: int, entries: int) -> tuple[int, ...]:
    """The codes for which a refusal must say what Kafka's method says."""
    if api == "Fetch":
        return (SESSION_GONE if version >= 13 or (version >= 7 and not entries) else NOT_LEADER,)
    return (AT_THE_TOP.get(api, COORDINATOR_LOADING),) if api in BY_LEVEL else (COORDINATOR_LOADING, NOT_LEADER)


def has_error(value: Any) -> bool:
    if is_dataclass(value):
        return any(has_error(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, tuple):
        return any(map(has_error, value))
    return isinstance(value, ErrorCode) and value != ErrorCode.none


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_fetch_has_errors_of_partitions_within_and_errors_of_its_session_at_the_top(version: int) -> None:
    request = sample_request(API_KEYS["Fetch"], version)
    got = answer(API_KEYS["Fetch"], version, request, NOT_LEADER)
    assert [int(each.error_code) for topic in got.responses for each in topic.partitions] == [NOT_LEADER] * 4
    assert getattr(got, "error_code", 0) == 0
    if version >= 7:
        got = answer(API_KEYS["Fetch"], version, request, SESSION_GONE)
        assert (int(got.error_code), got.responses) == (SESSION_GONE, ())
        assert got.session_id == request.session_id


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_an_offset_fetch_has_errors_of_its_group_and_of_partitions_in_their_places(version: int) -> None:
    key = API_KEYS["OffsetFetch"]
    request = sample_request(key, version)
    unstable = answer(key, version, request, UNSTABLE)
    groups = unstable.groups if version >= 8 else (unstable,)
    assert {int(each.error_code) for group in groups for topic in group.topics for each in topic.partitions} == {
        UNSTABLE
    }
    assert {int(getattr(group, "error_code", 0)) for group in groups} == {0}
    loading = answer(key, version, request, COORDINATOR_LOADING)
    if version >= 8:
        assert [(int(group.error_code), group.topics) for group in loading.groups] == [(COORDINATOR_LOADING, ())] * 2
    elif version >= 2:
        assert (int(loading.error_code), loading.topics) == (COORDINATOR_LOADING, ())
    if version >= 8:  # all partitions: there is no entry for their error
        everything = replace(request, groups=tuple(replace(group, topics=None) for group in request.groups))
        got = answer(key, version, everything, UNSTABLE)
        assert [int(group.error_code) for group in got.groups] == [UNSTABLE] * 2


def test_a_member_that_needs_an_id_gets_one() -> None:
    key = API_KEYS["JoinGroup"]
    request = replace(sample_request(key, 9), member_id="")
    got = answer(key, 9, request, MEMBER_ID_REQUIRED)
    assert got.member_id.startswith(f"{CLIENT_ID}-")
    assert answer(key, 9, request, MEMBER_ID_REQUIRED).member_id == got.member_id
    assert answer(key, 9, request, NOT_COORDINATOR).member_id == ""


def test_a_version_that_is_not_supported_is_told_in_version_0() -> None:
    frame = request_frame(18, 4, sample_request(18, 4))
    refusal = refusal_frame(frame, UNSUPPORTED_VERSION, CLIENT_ID)
    assert refusal is not None
    _, message = codec.decode_response(18, 0, refusal[4:])
    assert [(each.api_key, each.min_version, each.max_version) for each in message.api_keys] == [(18, 0, 3)]
    assert int(message.error_code) == UNSUPPORTED_VERSION


@pytest.mark.parametrize(("api", "version", "changes"), [
    ("Metadata", 12, {"topics": None}), ("Fetch", 6, {"topics": ()}), ("Fetch", 13, {"topics": ()}),
    ("DescribeLogDirs", 2, {}), ("OffsetCommit", 9, {"topics": ()}),
])  # fmt: skip
def test_a_request_whose_response_has_no_place_for_an_error_is_not_refused(
    api: str, version: int, changes: dict[str, object]
) -> None:
    request = replace(sample_request(API_KEYS[api], version), **changes)
    assert answer(API_KEYS[api], version, request, NOT_LEADER) is None


def test_a_code_that_nobody_knows_is_written_too() -> None:
    refusal = refusal_frame(request_frame(12, 4, sample_request(12, 4)), UNKNOWN_CODE, CLIENT_ID)
    assert refusal is not None
    assert refusal.endswith(struct.pack(">ih", 0, UNKNOWN_CODE) + b"\0")


@pytest.mark.parametrize("version", range(3, 14))
def test_the_quick_refusal_of_produce_is_the_same(version: int) -> None:
    frame = kf.produce_frame(version, CORRELATION_ID, partitions=(0, 1))
    quick = produce.refusal_frame(produce.read_request(frame, {}), NOT_LEADER)
    assert refusal_frame(frame, NOT_LEADER, CLIENT_ID) == quick


def test_no_request_ends_the_refusals() -> None:
    """Cut and changed frames of all APIs: a refusal, none, or MalformedFrame."""
    rng = random.Random(1)
    outcomes = {"made": 0, "malformed": 0}
    for _, key, version in VERSIONS:
        frame = request_frame(key, version, sample_request(key, version))
        for _ in range(4):
            changed = bytearray(frame[: rng.randrange(8, len(frame) + 1)] if rng.random() < 0.5 else frame)
            for _ in range(rng.randrange(3) if len(changed) > 8 else 0):
                changed[rng.randrange(8, len(changed))] = rng.randrange(256)
            try:
                refusal_frame(bytes(changed), NOT_LEADER, CLIENT_ID)
                outcomes["made"] += 1
            except MalformedFrame:
                outcomes["malformed"] += 1
    assert min(outcomes.values()) > 20

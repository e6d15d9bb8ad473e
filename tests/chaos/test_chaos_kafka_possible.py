"""Errors that no broker gives to such a request: a toxic with `possible_only` lets it pass."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Request

import pytest

from broker.door.protocol import ErrorCode
from chaos.lawful_answers import ANSWERS
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.possible import CONDITIONS, is_conditional, is_possible
from tests.chaos.kafka_samples import VERSIONS, request_frame, sample_request
from tests.chaos.kafka_wire import Wire, renumbered, request, toxic


def can(api: str, error: str, version: int, **values: object) -> bool:
    """Whether a broker may answer so to a request with these values."""
    message = sample_request(API_KEYS[api], version)
    return is_possible(API_KEYS[api], int(ErrorCode[error.lower()]), replace(message, **values))


def parts_with(api: str, version: int, **values: object) -> tuple[object, ...]:
    message = sample_request(API_KEYS[api], version)
    return tuple(
        replace(topic, partitions=tuple(replace(each, **values) for each in topic.partitions))
        for topic in message.topics
    )


def test_an_epoch_is_fenced_only_if_one_was_sent() -> None:
    for api, version in (("Fetch", 12), ("ListOffsets", 7), ("OffsetForLeaderEpoch", 4)):
        for error in ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"):
            assert can(api, error, version)
            assert not can(api, error, version, topics=parts_with(api, version, current_leader_epoch=-1))


def test_a_session_is_missed_only_by_a_request_within_one() -> None:
    for error in ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH"):
        found = [can("Fetch", error, 12, session_id=5, session_epoch=epoch) for epoch in (-1, 0, 1)]
        assert found == [False, False, True]


def test_the_beginning_of_a_log_is_always_told() -> None:
    for timestamp, is_told in ((-2, True), (-1, False)):
        topics = parts_with("ListOffsets", 7, timestamp=timestamp)
        assert can("ListOffsets", "OFFSET_NOT_AVAILABLE", 7, topics=topics) is not is_told


def test_who_joins_is_no_unknown_member() -> None:
    assert not can("JoinGroup", "UNKNOWN_MEMBER_ID", 7, member_id="")
    assert can("JoinGroup", "UNKNOWN_MEMBER_ID", 7, member_id="me")
    assert can("JoinGroup", "GROUP_MAX_SIZE_REACHED", 7, member_id="")
    for error in ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"):
        assert [can("ConsumerGroupHeartbeat", error, 1, member_epoch=epoch) for epoch in (0, 3)] == [False, True]
    found = [can("ConsumerGroupHeartbeat", "UNSUPPORTED_ASSIGNOR", 1, server_assignor=each) for each in (None, "x")]
    assert found == [False, True]


def test_a_commit_without_a_generation_is_no_members() -> None:
    assert not can("OffsetCommit", "ILLEGAL_GENERATION", 9, generation_id_or_member_epoch=-1)
    assert can("OffsetCommit", "ILLEGAL_GENERATION", 9, generation_id_or_member_epoch=2)
    assert not can("TxnOffsetCommit", "ILLEGAL_GENERATION", 3, generation_id=-1)


def test_offsets_are_unstable_only_for_who_wants_stable_ones() -> None:
    assert not can("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", 7, require_stable=False)
    assert can("OffsetFetch", "UNSTABLE_OFFSET_COMMIT", 7, require_stable=True)


def test_who_asks_for_all_topics_is_told_those_that_there_are() -> None:
    assert can("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", 9)
    assert not can("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", 9, topics=None)


def test_what_is_forbidden_is_what_was_asked_for() -> None:
    group, transaction = "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    found = {key: [can("FindCoordinator", each, 3, key_type=key) for each in (group, transaction)] for key in (0, 1)}
    assert found == {0: [True, False], 1: [False, True]}
    assert [can("FindCoordinator", each, 0) for each in (group, transaction)] == [True, False]
    found_of = [can("InitProducerId", "CLUSTER_AUTHORIZATION_FAILED", 4, transactional_id=each) for each in (None, "x")]
    assert found_of == [True, False]


def test_replicas_are_missed_only_by_who_waits_for_them() -> None:
    for error in (ErrorCode.not_enough_replicas, ErrorCode.request_timed_out):
        assert [is_possible(0, int(error), Request(acks=acks)) for acks in (-1, 1)] == [True, False]


def test_what_depends_on_nothing_is_possible_for_each_request() -> None:
    assert is_possible(API_KEYS["Fetch"], int(ErrorCode.not_leader_or_follower), None)


@pytest.mark.parametrize("api", sorted({api for api in API_KEYS if any(API_KEYS[api] == key for key, _ in CONDITIONS)}))
def test_each_condition_can_be_asked_of_every_version(api: str) -> None:
    for code in {code for key, code in CONDITIONS if key == API_KEYS[api]}:
        for version in (version for each, _, version in VERSIONS if each == api and api != "Produce"):
            assert is_possible(API_KEYS[api], code, sample_request(API_KEYS[api], version)) in (True, False)


def test_each_condition_is_about_an_answer_of_the_table() -> None:
    known = {(API_KEYS[one.api], one.code) for one in ANSWERS}
    assert [row for row in CONDITIONS if row not in known] == []
    assert is_conditional(API_KEYS["Fetch"], int(ErrorCode.fenced_leader_epoch))


def joining(number: int, member_id: str) -> bytes:
    key = API_KEYS["JoinGroup"]
    message = replace(sample_request(key, 7), member_id=member_id)
    return renumbered(request_frame(key, 7, message), 8, number)


def test_a_request_that_no_broker_refuses_so_passes_and_the_next_one_is_refused() -> None:
    refusing = toxic("kafka_refuse_request", api="JoinGroup", error_code=25, possible_only=1, followers=0)
    wire = Wire([refusing])
    wire.send(joining(1, ""), joining(2, "me"), joining(3, "me"))
    assert wire.to_broker == joining(1, "") + joining(3, "me")
    assert refusing.counters == {"matched": 2 + 1, "impossible": 1, "acted": 1}


def test_a_toxic_that_is_not_limited_refuses_any_request() -> None:
    wire = Wire([toxic("kafka_refuse_request", api="JoinGroup", error_code=25, followers=0)])
    wire.send(joining(1, ""))
    assert wire.to_broker == b""


def test_an_answer_for_all_topics_is_not_edited_so() -> None:
    editing = toxic("kafka_edit_response", api="Metadata", error_code=3, possible_only=1)
    wire = Wire([editing])
    key = API_KEYS["Metadata"]
    wire.send(renumbered(request_frame(key, 9, replace(sample_request(key, 9), topics=None)), 8, 1))
    assert editing.counters == {"matched": 1, "impossible": 1}
    wire.send(request(2, "Metadata", 9))
    assert editing.counters == {"matched": 2, "impossible": 1, "acted": 1}

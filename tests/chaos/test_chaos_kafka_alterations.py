"""Responses with other contents: what the client reads, and that each alteration stays one that a broker could send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.wire import codec
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.kafka.alterations import APIS, altered_response
from chaos.toxiproxy.kafka.apis import API_KEYS
from chaos.toxiproxy.kafka.edits import NothingChanged, Target
from chaos.toxiproxy.toxics import KAFKA
from tests.chaos.kafka_samples import VERSIONS, response_frame, sample_response

FETCH, METADATA = API_KEYS["Fetch"], API_KEYS["Metadata"]


def altered(api: str, version: int, how: str, response: Any = None, target: Target | None = None) -> Any:
    key = API_KEYS[api]
    frame = response_frame(key, version, sample_response(key, version) if response is None else response)
    changed = altered_response(frame, api_key=key, version=version, names={}, how=how, target=target or Target())
    return codec.decode_response(key, version, changed[4:])[1]


def with_records(version: int = 12, session_id: int = 7) -> Any:
    response = replace(sample_response(FETCH, version), session_id=session_id)
    topics = tuple(
        replace(topic, partitions=tuple(replace(part, records=b"records") for part in topic.partitions))
        for topic in response.responses
    )
    return replace(response, responses=topics)


def metadata(numbers: tuple[int, ...] = (2, 0, 1), leader_epoch: int = 4) -> Any:
    response = sample_response(METADATA, 12)
    topics = tuple(
        replace(topic, partitions=tuple(
            replace(topic.partitions[0], partition_index=number, leader_epoch=leader_epoch) for number in numbers))
        for topic in response.topics
    )  # fmt: skip
    return replace(response, topics=topics)


def numbers_of(message: Any) -> list[list[int]]:
    return [[part.partition_index for part in topic.partitions] for topic in message.topics]


@pytest.mark.parametrize(("partition", "left"), [(-1, [0, 1]), (1, [0]), (2, [0, 1]), (0, [0])])
def test_metadata_lacks_the_last_partitions_and_never_the_first(partition: int, left: list[int]) -> None:
    assert numbers_of(altered("Metadata", 12, "missing", metadata(), Target(partition=partition))) == [left, left]


def test_metadata_lacks_partitions_of_the_topic_that_is_meant() -> None:
    assert numbers_of(altered("Metadata", 12, "missing", metadata(), Target(topic="name-1"))) == [[2, 0, 1], [0, 1]]


def test_a_topic_of_one_partition_keeps_it() -> None:
    with pytest.raises(NothingChanged):
        altered("Metadata", 12, "missing", metadata((0,)))


def test_a_fetch_lacks_an_entry_only_within_a_session() -> None:
    message = altered("Fetch", 12, "missing", with_records(), Target(topic="topic-1", partition=2))
    assert [[part.partition_index for part in topic.partitions] for topic in message.responses] == [[1, 2], [1]]
    assert altered("Fetch", 12, "missing", with_records()).responses == ()
    with pytest.raises(NothingChanged):
        altered("Fetch", 12, "missing", with_records(session_id=0))


def test_an_empty_fetch_keeps_its_offsets_and_loses_only_the_records_that_are_meant() -> None:
    message = altered("Fetch", 12, "empty", with_records(), Target(topic="topic-0", partition=1))
    parts = [part for topic in message.responses for part in topic.partitions]
    assert [bytes(part.records) for part in parts] == [b"", b"records", b"records", b"records"]
    assert [part.high_watermark for part in parts] == [1, 2, 1, 2]
    with pytest.raises(NothingChanged):
        altered("Fetch", 12, "empty")  # it had none: the next one that has some is emptied


def test_an_older_epoch_is_one_lower_with_the_same_leader() -> None:
    before, after = metadata(leader_epoch=4), altered("Metadata", 12, "older_epoch", metadata(leader_epoch=4))
    for topic, old in zip(after.topics, before.topics, strict=True):
        assert [part.leader_epoch for part in topic.partitions] == [3, 3, 3]
        assert [part.leader_id for part in topic.partitions] == [part.leader_id for part in old.partitions]
    for epoch in (0, -1):
        with pytest.raises(NothingChanged):
            altered("Metadata", 12, "older_epoch", metadata(leader_epoch=epoch))


def test_a_leader_beside_an_error_has_an_older_epoch_too() -> None:
    response = sample_response(FETCH, 12)
    topic = response.responses[0]
    leader = replace(topic.partitions[0].current_leader, leader_id=2, leader_epoch=9)
    parts = (replace(topic.partitions[0], current_leader=leader), topic.partitions[1])
    message = altered("Fetch", 12, "older_epoch", replace(response, responses=(replace(topic, partitions=parts),)))
    assert [part.current_leader.leader_epoch for part in message.responses[0].partitions] == [8, -1]


def test_reversed_entries_are_the_same_entries() -> None:
    response = metadata()
    message = altered("Metadata", 12, "reversed", response)
    assert numbers_of(message) == [[1, 0, 2], [1, 0, 2]]
    assert [topic.name for topic in message.topics] == ["name-1", "name-0"]
    assert [broker.node_id for broker in message.brokers] == [2, 1]
    # The first of a partition's replicas is the preferred leader.
    assert message.topics[0].partitions[0].replica_nodes == response.topics[0].partitions[0].replica_nodes
    assert altered("Metadata", 12, "reversed", message) == response


def test_transactions_that_were_aborted_keep_their_order() -> None:
    message = altered("Fetch", 12, "reversed")
    assert [each.first_offset for each in message.responses[0].partitions[0].aborted_transactions] == [1, 2]
    assert [part.partition_index for part in message.responses[0].partitions] == [2, 1]


def test_every_api_that_can_be_reversed_has_entries_in_its_newest_version() -> None:
    newest = {api: version for api, _, version in VERSIONS}
    for api in APIS["reversed"]:
        altered(api, newest[api], "reversed")


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"api": "Metadata", "how": "empty"}, "possible with it: missing, reversed, older_epoch"),
        ({"api": "DescribeTopicPartitions"}, "possible with it: older_epoch"),
        ({"api": "Heartbeat"}, "expected one of Metadata"),
        ({"api": "JoinGroup", "how": "missing"}, "no broker answers JoinGroup so"),
    ],
)
def test_what_no_broker_answers_is_refused(attributes: dict[str, Any], problem: str) -> None:
    spec = KAFKA["kafka_alter_response"]
    with pytest.raises(ApiError, match=problem):
        spec.parse(attributes, spec.defaults())

"""The table of APIs for toxics, and what a request is about, beside the protocol's schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.index import api_key_map

from broker.wire import messages
from chaos.toxiproxy.errors import ApiError
from chaos.toxiproxy.kafka.apis import API_KEYS, SELECTORS
from chaos.toxiproxy.kafka.fields import MalformedFrame
from chaos.toxiproxy.kafka.matching import Scope, try_take
from chaos.toxiproxy.kafka.subjects import Subject, subject_of, subject_of_frame
from chaos.toxiproxy.kafka.turns import Turns
from chaos.toxiproxy.toxic import Toxic
from chaos.toxiproxy.toxics import KAFKA
from tests.chaos import kafka_frames as kf
from tests.chaos.kafka_samples import VERSIONS, VERSIONS_OF, request_frame, sample_request

# Only brokers and controllers send these.
OF_BROKERS = {27, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 83, 84, 85, 86, 87}
GROUP_FIELDS = {"group_id", "groups", "group_ids", "groups_names"}
TRANSACTION_FIELDS = {"transactional_id", "v3_and_below_transactional_id", "transactional_ids"}


def names_in(kind: Any) -> Iterator[str]:
    for shape in messages.field_shapes(kind):
        yield shape.name
        if shape.nested is not None:
            yield from names_in(shape.nested)


def test_the_table_has_every_api_that_a_client_may_send_and_no_other() -> None:
    assert set(API_KEYS.values()) == set(api_key_map) - OF_BROKERS


@pytest.mark.parametrize(("selector", "wanted"), [("group", GROUP_FIELDS), ("transactional_id", TRANSACTION_FIELDS)])
def test_a_selector_is_offered_where_requests_have_such_a_field(selector: str, wanted: set[str]) -> None:
    named: dict[str, set[str]] = {}
    for api, key, version in VERSIONS:
        named.setdefault(api, set()).update(names_in(messages.request_type(key, version)))
    having = {api for api, fields in named.items() if fields & wanted}
    assert {api for api, selectors in SELECTORS.items() if selector in selectors} == having | {"FindCoordinator"}


@pytest.mark.parametrize("api", VERSIONS_OF)
def test_every_request_names_what_it_may_be_selected_by(api: str) -> None:
    for key, version in VERSIONS_OF[api]:
        subject = subject_of_frame(request_frame(key, version, sample_request(key, version)), {})
        found = {
            "topic": {topic for topic, _ in subject.partitions},
            "partition": {partition for _, partition in subject.partitions if partition >= 0},
            "group": subject.groups,
            "transactional_id": subject.transactional_ids,
        }
        for selector, values in found.items():
            may_be_named = selector in SELECTORS[api] and not (selector == "partition" and api == "Metadata")
            if api == "FindCoordinator" or (selector == "partition" and "partition" not in SELECTORS[api]):
                continue  # its one field is either; and CreateTopics has partitions that do not exist yet
            assert bool(values) is may_be_named, (version, selector, values)


def test_a_request_of_several_groups_or_transactions_names_all() -> None:
    subject = subject_of(9, sample_request(9, 8), {})
    assert subject.groups == {"group_id-0", "group_id-1"}
    assert {("name-0", 1), ("name-1", 2)} < subject.partitions
    subject = subject_of(24, sample_request(24, 5), {})
    assert subject.transactional_ids == {"transactional_id-0", "transactional_id-1"}


@pytest.mark.parametrize(("kind", "named"), [(0, "groups"), (1, "transactional_ids"), (2, None)])
def test_a_coordinator_is_asked_for_groups_or_for_transactions(kind: int, named: str | None) -> None:
    for version in (1, 4):
        request = replace(sample_request(10, version), key_type=kind)
        subject = subject_of(10, request, {})
        expected = {"key-0"} if version == 1 else {"coordinator_keys-0", "coordinator_keys-1"}
        assert subject.groups == (expected if named == "groups" else set())
        assert subject.transactional_ids == (expected if named == "transactional_ids" else set())


def test_a_topic_of_which_only_the_id_is_sent_has_its_name() -> None:
    names = {UUID(int=7).bytes: "orders", UUID(int=8).bytes: "payments"}
    assert subject_of(1, sample_request(1, 13), names).partitions == {
        ("orders", 1), ("orders", 2), ("payments", 1), ("payments", 2)
    }  # fmt: skip


def test_a_fetch_within_a_session_means_partitions_that_it_does_not_name() -> None:
    request = replace(sample_request(1, 12), topics=())
    assert not subject_of(1, replace(request, session_epoch=0), {}).names_all
    assert subject_of(1, replace(request, session_epoch=3), {}) == Subject(names_all=True)


def test_what_cannot_be_read_is_malformed() -> None:
    frame = request_frame(11, 9, sample_request(11, 9))
    with pytest.raises(MalformedFrame):
        subject_of_frame(frame[:30], {})


def refusing(**attributes: Any) -> Toxic:
    spec = KAFKA["kafka_refuse_request"]
    parsed = spec.parse({"count": 0, "followers": 0, **attributes}, spec.defaults())
    return Toxic(name="t", spec=spec, stream="downstream", toxicity=1.0, attributes=parsed)


def test_a_toxic_acts_only_on_its_group_and_its_transactional_id() -> None:
    toxic = refusing(api="TxnOffsetCommit", group="g", transactional_id="t", topic="orders", partition=1)
    meant = Scope(api="TxnOffsetCommit", client_id="c", partitions=frozenset({("orders", 1)}), groups=frozenset({"g"}),
                  transactional_ids=frozenset({"t"}))  # fmt: skip
    assert try_take(toxic, meant, Turns(), [])
    for other in (
        {"groups": frozenset({"h"})}, {"transactional_ids": frozenset()}, {"partitions": frozenset({("orders", 2)})},
        {"api": "OffsetCommit"},
    ):  # fmt: skip
        assert not try_take(toxic, replace(meant, **other), Turns(), []), other
    assert toxic.counters == {"matched": 1, "acted": 1}


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({"api": "JoinGroup", "topic": "t"}, "attribute topic: a JoinGroup request names no topic, it names group"),
        ({"api": "Fetch", "group": "g"}, "attribute group: a Fetch request names no group, it names topic, partition"),
        ({"api": "Heartbeat", "transactional_id": "t"}, "names no transactional_id"),
        ({"api": "ApiVersions", "partition": 0}, "it names none of topic"),
        ({"api": "Produce", "group": "g"}, "it names topic, partition, transactional_id"),
    ],
)
def test_a_selector_that_no_request_can_meet_is_refused(attributes: dict[str, Any], problem: str) -> None:
    for kind in ("kafka_refuse_request", "kafka_silence", "kafka_delay_response"):
        spec = KAFKA[kind]
        with pytest.raises(ApiError, match=problem):
            spec.parse(attributes, spec.defaults())


@pytest.mark.parametrize(("code", "problem"), [(0, "0 is no error"), (-2, r"expected -1\.\.32767, got -2")])
def test_a_refusal_needs_an_error(code: int, problem: str) -> None:
    """-1 is one: UNKNOWN_SERVER_ERROR, of a broker that failed inside."""
    spec = KAFKA["kafka_refuse_request"]
    asked = {"api": "EndTxn", "followers": 0}
    with pytest.raises(ApiError, match=problem):
        spec.parse({**asked, "error_code": code}, spec.defaults())
    assert spec.parse({**asked, "error_code": -1}, spec.defaults())["error_code"] == -1


def test_a_produce_request_names_its_transaction() -> None:
    from chaos.toxiproxy.kafka.produce import read_request

    request = replace(sample_request(0, 9), transactional_id="t-1")
    assert read_request(request_frame(0, 9, request), {}).transactional_id == "t-1"
    assert read_request(kf.produce_frame(9, 1), {}).transactional_id == ""

"""What a Fetch request of a session means: followed from its first request on, over additions, removals and gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.wire import codec, messages
from chaos.toxiproxy.kafka.fetch_sessions import FetchSession, partitions_of
from tests.chaos.kafka_samples import request_frame, response_frame
from tests.chaos.kafka_wire import Wire, toxic

FETCH, SESSION = 1, 7
NOT_LEADER = 6
VERSIONS = (7, 11, 12)  # of these, versions from 13 on have ids instead of names


def fetch(version: int, epoch: int, *partitions: tuple[str, int], forgotten: tuple[tuple[str, int], ...] = ()) -> Any:
    def entries(pairs: tuple[tuple[str, int], ...], make: Any) -> list[dict[str, Any]]:
        topics = sorted({topic for topic, _ in pairs})
        return [{"topic": topic, "partitions": [make(number) for name, number in pairs if name == topic]}
                for topic in topics]  # fmt: skip

    return messages.request(
        FETCH, version, max_wait=1, min_bytes=1, max_bytes=1, session_id=SESSION if epoch else 0, session_epoch=epoch,
        topics=entries(partitions, lambda number: {"partition": number, "fetch_offset": 0, "partition_max_bytes": 1}),
        forgotten_topics_data=entries(forgotten, int),
    )  # fmt: skip


def fetched(version: int, session_id: int = SESSION, error_code: int = 0) -> bytes:
    message = messages.response(FETCH, version, session_id=session_id, error_code=error_code, responses=[])
    return response_frame(FETCH, version, message)


def numbered(frame: bytes, position: int, number: int) -> bytes:
    return frame[:position] + number.to_bytes(4, "big") + frame[position + 4 :]


def begun(version: int, *partitions: tuple[str, int]) -> FetchSession:
    session = FetchSession()
    session.asked(fetch(version, 0, *partitions), 1)
    session.answered(fetched(version), version, 1)
    return session


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_a_session_means_what_was_asked_before(version: int) -> None:
    session = begun(version, ("a", 0), ("a", 1), ("b", 0))
    asked = session.asked(fetch(version, 1), 2)
    assert partitions_of(asked, {}) == {("a", 0), ("a", 1), ("b", 0)}
    asked = session.asked(fetch(version, 2, ("c", 5), forgotten=(("a", 1), ("b", 0))), 3)
    assert partitions_of(asked, {}) == {("a", 0), ("c", 5)}
    assert session.is_known(asked)
    codec.encode_request(FETCH, version, 1, None, asked)


def test_a_session_that_was_not_seen_from_its_beginning_is_not_known() -> None:
    session = FetchSession()
    asked = session.asked(fetch(11, 4, ("a", 0)), 1)
    assert partitions_of(asked, {}) == {("a", 0)}
    assert not session.is_known(asked)


def test_a_gap_ends_what_is_known() -> None:
    session = begun(11, ("a", 0))
    assert not session.is_known(session.asked(fetch(11, 3), 2))
    assert not session.is_known(session.asked(fetch(11, 4), 3))


@pytest.mark.parametrize("answer", [{"session_id": 0}, {"error_code": 70}])
def test_no_session_begins_without_an_id_or_with_an_error(answer: dict[str, int]) -> None:
    session = FetchSession()
    session.asked(fetch(11, 0, ("a", 0)), 1)
    session.answered(fetched(11, **answer), 11, 1)
    assert not session.is_known(session.asked(fetch(11, 1), 2))


def test_a_refusal_and_a_selector_reach_the_partitions_of_the_session() -> None:
    refusing = toxic("kafka_refuse_request", api="Fetch", topic="a", partition=1, error_code=NOT_LEADER, skip=1)
    other = toxic("kafka_refuse_request", api="Fetch", topic="other", error_code=NOT_LEADER)
    wire = Wire([other, refusing])
    first = numbered(request_frame(FETCH, 11, fetch(11, 0, ("a", 0), ("a", 1))), 8, 1)
    wire.send(first)
    wire.answer(numbered(fetched(11), 4, 1))
    before = wire.to_client
    wire.send(numbered(request_frame(FETCH, 11, fetch(11, 1)), 8, 2))
    wire.pass_ms(0)
    assert wire.to_broker == first
    correlation_id, message = codec.decode_response(FETCH, 11, wire.to_client[len(before) + 4 :])
    assert (correlation_id, message.session_id, int(message.error_code)) == (2, SESSION, 0)
    [topic] = message.responses
    assert [(each.partition_index, int(each.error_code)) for each in topic.partitions] == [(0, 6), (1, 6)]
    assert other.counters == {}


def test_a_session_of_which_nothing_is_known_is_not_refused_for_its_partitions() -> None:
    refusing = toxic("kafka_refuse_request", api="Fetch", error_code=NOT_LEADER)
    wire = Wire([refusing])
    wire.send(request_frame(FETCH, 11, fetch(11, 9)))
    assert wire.to_broker == request_frame(FETCH, 11, fetch(11, 9))
    assert refusing.counters == {"matched": 1, "acted": 0, "no_place": 1}


def test_a_request_without_session_means_what_it_names() -> None:
    session = FetchSession()
    asked = replace(fetch(11, -1, ("a", 0)), session_id=0)
    assert session.asked(asked, 1) is asked
    assert session.is_known(asked)

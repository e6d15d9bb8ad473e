"""What is said on one connection: versions first, answers in order and within bounds; asked of one broker directly."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from broker.client.core.conversation import Conversation, Pending
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.direct import DirectConnection
from broker.client.questions import metadata_of
from broker.client.topic_questions import deleted_topic_by_id
from broker.wire.apis import ApiKey, Listener
from broker.wire.codec import RequestHeader, encode_response, encode_unsupported_api_versions
from broker.wire.errors import ErrorCode, RemoteProtocolError
from broker.wire.messages import request, response
from tests.harness.hostile_broker import Answer, HostileBroker

VERSIONS = [(ApiKey.API_VERSIONS, 0, 3), (ApiKey.METADATA, 0, 9), (ApiKey.DELETE_TOPICS, 0, 5)]
GREETS = frozenset({int(ApiKey.API_VERSIONS)})
ANY_ID = "6b1e1b62-5b43-4b54-8a08-1f4c5a2a0001"


def greeted(**bounds: int) -> Conversation:
    conversation = Conversation("test", itertools.count(), **bounds)
    conversation.greet(None, 0)
    assert conversation.on_greeted(conversation.take(told_versions(0))[1])
    return conversation


def told_versions(correlation_id: int, version: int = 3) -> memoryview:
    entries = [{"api_key": int(key), "min_version": low, "max_version": high} for key, low, high in VERSIONS]
    return framed(correlation_id, ApiKey.API_VERSIONS, version, api_keys=entries)


def framed(correlation_id: int, api_key: ApiKey, version: int, **values: object) -> memoryview:
    message = response(api_key, version, **values)
    return memoryview(b"".join(encode_response(api_key, version, correlation_id, message))[4:])


def ask_metadata(conversation: Conversation) -> None:
    conversation.ask(Pending(ApiKey.METADATA, 9, None, True, 0), request(ApiKey.METADATA, 9, topics=()))


def told_brokers(correlation_id: int, count: int) -> memoryview:
    brokers = [{"node_id": number, "host": "h", "port": 1} for number in range(count)]
    return framed(correlation_id, ApiKey.METADATA, 9, brokers=brokers)


def test_the_version_is_the_highest_of_both() -> None:
    conversation = greeted()
    assert conversation.version(ApiKey.METADATA, 12) == 9
    assert conversation.version(ApiKey.METADATA, 5) == 5
    assert conversation.version(ApiKey.FETCH, 12) is None


def test_a_broker_that_does_not_know_our_greeting_is_greeted_in_version_0() -> None:
    conversation = Conversation("test", itertools.count())
    conversation.greet(None, 0)
    refused = b"".join(encode_unsupported_api_versions(0, Listener.CLIENT))[4:]
    assert not conversation.on_greeted(conversation.take(memoryview(refused))[1])
    conversation.greet(None, 0, version=0)
    assert conversation.on_greeted(conversation.take(told_versions(1, version=0))[1])


def test_an_answer_that_nothing_waits_for_is_a_broken_peer() -> None:
    conversation = greeted()
    for correlation_id in (1, 2):
        ask_metadata(conversation)
        assert conversation.pending[-1].correlation_id == correlation_id
    with pytest.raises(RemoteProtocolError, match="correlation id 2"):
        conversation.take(told_brokers(2, 1))
    assert conversation.take(told_brokers(1, 1))[0].correlation_id == 1


def test_a_request_whose_answer_cannot_be_decoded_is_still_pending() -> None:
    conversation = greeted(elements_max=20)
    ask_metadata(conversation)
    with pytest.raises(RemoteProtocolError):
        conversation.take(told_brokers(1, 21))
    assert len(conversation.pending) == 1


def test_a_direct_connection_is_dropped_at_a_failure_and_opened_anew() -> None:
    answered = itertools.count()

    def every_second(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        if next(answered) % 2 == 0:
            raise ConnectionResetError  # ends the connection
        yield broker.proper(header, message)

    with HostileBroker(every_second, polite=GREETS) as broker:
        direct = DirectConnection("127.0.0.1", broker.port, client_id="test", timeout_s=30)
        with pytest.raises(KafkaError) as caught:
            direct.ask(metadata_of([]))
        assert (caught.value.code, caught.value.definite) == (ErrorCode.network_exception, False)
        assert direct.ask(metadata_of([])).brokers
        direct.close()


def test_nobody_was_asked_where_nobody_listens_or_the_question_is_too_new() -> None:
    with HostileBroker(lambda *_: iter(()), polite=GREETS) as broker:
        port = broker.port
    nobody = DirectConnection("127.0.0.1", port, client_id="test", timeout_s=30)
    with pytest.raises(KafkaError) as caught:
        nobody.ask(metadata_of([]))
    assert caught.value.definite
    with pytest.raises(KafkaError, match="offers no version of DELETE_TOPICS"):
        deleted_topic_by_id(ANY_ID, 1).version(greeted().version, "it")


@pytest.mark.thorough
def test_a_silent_broker_takes_no_longer_than_the_limit() -> None:
    def silent(broker: HostileBroker, header: RequestHeader, message: Any) -> Answer:
        while True:
            yield b""

    with HostileBroker(silent, polite=GREETS) as broker:
        direct = DirectConnection("127.0.0.1", broker.port, client_id="test", timeout_s=0.2)
        with pytest.raises(TimedOutError) as caught:
            direct.ask(metadata_of([]))
        assert not caught.value.definite

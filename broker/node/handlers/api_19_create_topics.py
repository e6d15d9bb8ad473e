"""CreateTopics (key 19), versions 2-7. On a client listener it is forwarded to the active controller.

The answer of a forwarded request waits until this broker's image holds the topics, so a client that asks the same
broker next finds them. It holds the effective settings (version 5 and later), without which the Java client fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.controller.types import CreateTopics, CreateTopicsResponse, NewTopic
from broker.node.channel import ChannelError
from broker.node.clock import monotonic_ms
from broker.node.control import AnyRequest
from broker.node.forwarding import request_as, response_as
from broker.node.topic_config import topic_defaults
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response, to_ms

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 7
TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000
SOURCE_TOPIC, SOURCE_DEFAULT = 1, 5


def handle(broker: Broker, request: AnyRequest) -> None:
    if request.listener is not Listener.CONTROLLER:
        broker.serve(request, _forward(broker, request))
        return
    message = request.message
    topics = tuple(_new_topic(topic) for topic in message.topics)
    is_dry = message.validate_only

    def answer(result: Any) -> None:  # the response type of this request
        names = [topic.name for topic in topics]
        request.respond(_to_kio(request.version, result, names, topic_defaults(broker.config)))

    broker.ask_controller(request, lambda token: CreateTopics(token=token, topics=topics, validate_only=is_dry), answer)


def _new_topic(topic: Message) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={each.partition_index: tuple(each.broker_ids) for each in topic.assignments},
        configs={each.name: each.value for each in topic.configs},
    )


def _configs(defaults: Mapping[str, str], overrides: Mapping[str, str]) -> list[dict[str, object]]:
    return [
        {
            "name": name,
            "value": overrides.get(name, default),
            "read_only": False,
            "config_source": SOURCE_TOPIC if name in overrides else SOURCE_DEFAULT,
            "is_sensitive": False,
        }
        for name, default in sorted(defaults.items())
    ]


def _to_kio(version: int, result: CreateTopicsResponse, names: list[str], defaults: Mapping[str, str]) -> Message:
    if result.error_code != ErrorCode.none:
        topics: list[dict[str, object]] = [_failed(name, ErrorCode(result.error_code), None) for name in names]
    else:
        topics = [
            {
                "name": each.name,
                "topic_id": each.topic_id,
                "error_code": each.error_code,
                "error_message": each.error_message,
                "num_partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "configs": _configs(defaults, each.configs) if each.error_code == ErrorCode.none else [],
            }
            for each in result.topics
        ]
    return response(ApiKey.CREATE_TOPICS, version, topics=topics)


def _failed(name: str, error: ErrorCode, message: str | None) -> dict[str, object]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


async def _forward(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    timeout_ms = min(max(to_ms(message.timeout), TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
    deadline_ms = monotonic_ms() + timeout_ms
    if request.version != FORWARD_VERSION:
        message = request_as(ApiKey.CREATE_TOPICS, FORWARD_VERSION, message)
    repeated: list[None] = []
    try:
        answer = await broker.control.call(
            ApiKey.CREATE_TOPICS,
            FORWARD_VERSION,
            message,
            timeout_ms=timeout_ms,
            on_repeat=lambda: repeated.append(None),
        )
    except ChannelError as error:
        topics = [_failed(topic.name, ErrorCode.request_timed_out, str(error)) for topic in message.topics]
        request.respond(response(ApiKey.CREATE_TOPICS, request.version, topics=topics))
        return
    if not message.validate_only:
        made = {topic.name for topic in answer.topics if topic.error_code is ErrorCode.none}
        while made - set(broker.metadata.image.topics) and monotonic_ms() < deadline_ms:
            await broker.image_moves(max(1, deadline_ms - monotonic_ms()))
    if repeated:
        answer = replace(answer, topics=tuple(_unsure(topic) for topic in answer.topics))
    request.respond(response_as(ApiKey.CREATE_TOPICS, request.version, answer))


def _unsure(topic: Message) -> Message:
    """A topic that exists after a repetition may be our own: to say that it existed before would be a guess."""
    if topic.error_code is not ErrorCode.topic_already_exists:
        return topic
    error = "the controller was asked more than once, and the topic may have been created by a request before the last"
    return replace(topic, error_code=ErrorCode.request_timed_out, error_message=error)

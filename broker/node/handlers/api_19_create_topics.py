"""CreateTopics (key 19), versions 2-7. On a client listener it is forwarded to the active controller.

The answer to a forwarded request waits until this broker's image contains the topics. So a client that asks the same
broker next finds them. From version 5 on the answer contains the effective settings. Without them the Java client
fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.topic_types import CreateTopics, CreateTopicsResponse, NewTopic
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.settings.topic_config import topic_defaults
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import create_topics as shapes

SOURCE_TOPIC, SOURCE_DEFAULT = 1, 5


def event(services: Services, request: AnyRequest[shapes.CreateTopicsRequest]) -> MakeEvent:
    topics = tuple(_new_topic(topic) for topic in request.message.topics)
    is_dry = request.message.validate_only
    return lambda token: CreateTopics(token=token, topics=topics, validate_only=is_dry)


def answer(
    services: Services, request: AnyRequest[shapes.CreateTopicsRequest], result: CreateTopicsResponse
) -> shapes.CreateTopicsResponse:
    names = [topic.name for topic in request.message.topics]
    return _to_kio(request.version, result, names, topic_defaults(services.config.topics))


def _new_topic(topic: shapes.CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={each.partition_index: tuple(each.broker_ids) for each in topic.assignments},
        configs={each.name: each.value for each in topic.configs},
    )


def _configs(defaults: Mapping[str, str], overrides: Mapping[str, str]) -> list[shapes.CreatableTopicConfigsFields]:
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


def _to_kio(
    version: int, result: CreateTopicsResponse, names: list[str], defaults: Mapping[str, str]
) -> shapes.CreateTopicsResponse:
    if result.error_code != ErrorCode.none:
        topics: list[shapes.CreatableTopicResultFields] = [
            _failed(name, ErrorCode(result.error_code), None) for name in names
        ]
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


def _failed(name: str, error: ErrorCode, message: str | None) -> shapes.CreatableTopicResultFields:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


def _all_failed(
    request: AnyRequest[shapes.CreateTopicsRequest], error: ErrorCode, cause: str | None
) -> shapes.CreateTopicsResponse:
    topics = [_failed(topic.name, error, cause) for topic in request.message.topics]
    return response(ApiKey.CREATE_TOPICS, request.version, topics=topics)


def _shows(image: MetadataImage, message: shapes.CreateTopicsRequest, answered: shapes.CreateTopicsResponse) -> bool:
    made = {topic.name for topic in answered.topics if topic.error_code is ErrorCode.none}
    return message.validate_only or not made - set(image.topics)


def _unsure_of_all(answered: shapes.CreateTopicsResponse) -> shapes.CreateTopicsResponse:
    return replace(answered, topics=tuple(_unsure(topic) for topic in answered.topics))


def _unsure(topic: shapes.CreatableTopicResult) -> shapes.CreatableTopicResult:
    """If the request was repeated and the topic exists, the first attempt may have created it. To answer that it
    existed before would be a guess."""
    if topic.error_code is not ErrorCode.topic_already_exists:
        return topic
    error = "the controller was asked more than once, and the topic may have been created by a request before the last"
    return replace(topic, error_code=ErrorCode.request_timed_out, error_message=error)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.CreateTopicsRequest, shapes.CreateTopicsResponse] = Forward(
    version=7, failed=_all_failed, is_visible=_shows, visible_within_ms=None, repeated=_unsure_of_all
)

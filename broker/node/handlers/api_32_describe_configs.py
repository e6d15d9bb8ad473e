"""DescribeConfigs (key 32), versions 1-4: topics and this broker, as they are in effect.

Not done: synonyms, documentation, loggers, dynamic broker settings, settings of another broker (refused).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.node.topic_config import ConfigEntry, describe_topic
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

TOPIC, BROKER = 2, 4
SOURCE_TOPIC, SOURCE_STATIC_BROKER, SOURCE_DEFAULT = 1, 4, 5
TYPE_UNKNOWN = 0


def handle(broker: Broker, request: AnyRequest) -> None:
    results = [_describe(broker, resource) for resource in request.message.resources]
    request.respond(response(ApiKey.DESCRIBE_CONFIGS, request.version, results=results))


def _describe(broker: Broker, resource: Message) -> dict[str, object]:
    error, message, entries = ErrorCode.none, None, []
    if resource.resource_type == TOPIC:
        if resource.resource_name in broker.metadata.image.topics:
            entries = describe_topic(broker.config, broker.metadata.image, resource.resource_name)
        else:
            error = ErrorCode.unknown_topic_or_partition
    elif resource.resource_type == BROKER and resource.resource_name in ("", str(broker.config.node_id)):
        entries = _describe_broker(broker)
    else:
        error = ErrorCode.invalid_request
        message = f"resource type {resource.resource_type} {resource.resource_name!r} is not known to this broker"
    wanted = resource.configuration_keys
    configs = [_config(entry, resource.resource_type) for entry in entries if wanted is None or entry.name in wanted]
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": configs,
    }


def _describe_broker(broker: Broker) -> list[ConfigEntry]:
    return [
        ConfigEntry(name=name, value=value, is_default=False, is_override=False)
        for name, value in sorted(broker.config.described().items())
    ]


def _config(entry: ConfigEntry, resource_type: int) -> dict[str, object]:
    default_source = SOURCE_DEFAULT if resource_type == TOPIC else SOURCE_STATIC_BROKER
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": resource_type == BROKER,
        "config_source": SOURCE_TOPIC if entry.is_override else default_source,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": TYPE_UNKNOWN,
        "documentation": None,
    }

"""IncrementalAlterConfigs (key 44), versions 0-1 (KIP-339): SET, DELETE, APPEND, SUBTRACT on topics and brokers.

On a client listener it is forwarded to the controller. Not kept: loggers, client metrics, groups (refused).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from broker.controller.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from broker.controller.types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.node.control import AnyRequest
from broker.node.forwarding import forward
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 1
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
RESOURCE_TYPES = (TOPIC_RESOURCE, BROKER_RESOURCE, 8, 16, 32)  # and loggers, client metrics, groups: those are refused


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    if request.listener is not Listener.CONTROLLER:
        broker.serve(
            request,
            forward(
                broker,
                request,
                api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS,
                version=FORWARD_VERSION,
                failed=lambda error, cause: all_failed(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, error, cause),
                is_visible=lambda image, answer: message.validate_only or _shows(image, message, answer),
            ),
        )
        return
    wrong = {position: cause for position, each in enumerate(message.resources) if (cause := _problem(each))}
    times = Counter((each.resource_type, each.resource_name) for each in message.resources)
    for position, each in enumerate(message.resources):
        if times[each.resource_type, each.resource_name] > 1:
            wrong[position] = "Each resource must appear at most once."
    judged = [each for position, each in enumerate(message.resources) if position not in wrong]
    operations = {
        each.config_operation
        for resource in judged
        if resource.resource_type == TOPIC_RESOURCE
        for each in resource.configs
    }
    if not operations <= {SET, DELETE, APPEND, SUBTRACT}:  # fails the whole request, as in Kafka
        cause = f"Unknown operation among {sorted(operations)}; there is: 0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT"
        failed = all_failed(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, ErrorCode.invalid_request, cause)
        request.respond(failed)
        return
    changes = tuple(_change(each) for each in judged)

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(to_kio(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, result, wrong))

    broker.ask_controller(
        request, lambda token: AlterConfigs(token=token, resources=changes, validate_only=message.validate_only), answer
    )


def _problem(resource: Message) -> str | None:
    if resource.resource_type not in RESOURCE_TYPES:
        return f"Unknown resource type {resource.resource_type}"
    if resource.resource_type != TOPIC_RESOURCE:
        for each in resource.configs:
            if each.config_operation not in (SET, DELETE, APPEND, SUBTRACT):
                return f"Unknown operation {each.config_operation} on {each.name}"
    if resource.resource_type == BROKER_RESOURCE and resource.resource_name and not _is_integer(resource.resource_name):
        return f"Node id must be an integer, but it is: {resource.resource_name}"
    twice = [name for name, times in Counter(each.name for each in resource.configs).items() if times > 1]
    if twice:
        return f"Error due to duplicate config keys : {', '.join(twice)}"
    for each in resource.configs:
        if each.value is None and each.config_operation != DELETE:
            return f"Null value not supported for : {each.name}"
    return None


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _change(resource: Message) -> ConfigChange:
    by_operation: dict[int, dict[str, str]] = {SET: {}, APPEND: {}, SUBTRACT: {}}
    changes: dict[str, str | None] = {}
    for each in resource.configs:
        if each.config_operation == DELETE:
            changes[each.name] = None
        else:
            by_operation[each.config_operation][each.name] = each.value
    return ConfigChange(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes={**by_operation[SET], **changes},
        appends=by_operation[APPEND],
        subtracts=by_operation[SUBTRACT],
    )


def to_kio(api_key: ApiKey, request: AnyRequest, result: AlterConfigsResponse, wrong: dict[int, str]) -> Message:
    """Answers in the order of the resources asked; `wrong` holds those that never came to the controller."""
    if result.error_code != ErrorCode.none:
        return all_failed(api_key, request, ErrorCode(result.error_code), None)
    answers = iter(result.resources)
    responses = []
    for position, resource in enumerate(request.message.resources):
        if position in wrong:
            error, cause = int(ErrorCode.invalid_request), wrong[position]
        else:
            altered = next(answers)
            error, cause = altered.error_code, altered.error_message or ""
        responses.append(_entry(resource, error, cause or None))
    return response(api_key, request.version, responses=responses)


def all_failed(api_key: ApiKey, request: AnyRequest, error: ErrorCode, cause: str | None) -> Message:
    responses = [_entry(resource, error, cause) for resource in request.message.resources]
    return response(api_key, request.version, responses=responses)


def _entry(resource: Message, error: int, cause: str | None) -> dict[str, object]:
    return {
        "error_code": error,
        "error_message": cause,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
    }


def _shows(image: MetadataImage, message: Message, answer: Message) -> bool:
    """Does our image hold what was set? Only for what the controller accepted."""
    accepted = {(each.resource_type, each.resource_name) for each in answer.responses if each.error_code == 0}
    for resource in message.resources:
        if (resource.resource_type, resource.resource_name) not in accepted:
            continue
        kept = {TOPIC_RESOURCE: image.topic_configs, BROKER_RESOURCE: image.broker_configs}[resource.resource_type]
        values = kept.get(resource.resource_name, {})
        for each in resource.configs:
            operation = getattr(each, "config_operation", SET)
            if operation == SET and values.get(each.name) != each.value:
                return False
            if operation == DELETE and each.name in values:
                return False
    return True

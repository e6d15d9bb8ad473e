"""What the two APIs that change settings share: their answers, and when a change shows in this broker's image."""

from __future__ import annotations

from broker.controller.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from broker.controller.types import AlterConfigsResponse
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

SET, DELETE = 0, 1  # operations of IncrementalAlterConfigs; AlterConfigs only sets


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


def shows(image: MetadataImage, message: Message, answer: Message) -> bool:
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

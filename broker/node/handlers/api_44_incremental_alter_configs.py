"""IncrementalAlterConfigs (key 44), versions 0-1 (KIP-339): SET, DELETE, APPEND, SUBTRACT on topics, brokers
and groups.

On a client listener it is forwarded to the controller. Changes of loggers are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.controller.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.node.handlers.config_answers import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    OutcomeFields,
    all_failed,
    named_twice,
    outcomes,
    shows,
)
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.own_settings import after_changes, refuse
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import incremental_alter_configs as shapes

OPERATIONS = frozenset({SET, DELETE, APPEND, SUBTRACT})
RESOURCE_TYPES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    LOGGER_RESOURCE,
    GROUP_RESOURCE,
)


def handle(services: Services, request: AnyRequest[shapes.IncrementalAlterConfigsRequest]) -> None:
    wrong = problems_of(request.message)
    judged = [each for position, each in enumerate(request.message.resources) if position not in wrong]
    operations = {
        each.config_operation
        for resource in judged
        if resource.resource_type == TOPIC_RESOURCE
        for each in resource.configs
    }
    if not operations <= OPERATIONS:  # the whole request fails, as in Kafka
        cause = f"Unknown operation among {sorted(operations)}; there is: 0 SET, 1 DELETE, 2 APPEND, 3 SUBTRACT"
        request.respond(_all_failed(request, ErrorCode.invalid_request, cause))
        return
    _CONTROLLER.ask(services, request)


def _event(services: Services, request: AnyRequest[shapes.IncrementalAlterConfigsRequest]) -> MakeEvent:
    message = request.message
    wrong = problems_of(message)
    changes = tuple(_change(each) for position, each in enumerate(message.resources) if position not in wrong)
    return lambda token: AlterConfigs(token=token, resources=changes, validate_only=message.validate_only)


def _answer(
    services: Services, request: AnyRequest[shapes.IncrementalAlterConfigsRequest], result: AlterConfigsResponse
) -> shapes.IncrementalAlterConfigsResponse:
    told = outcomes(request.message.resources, result, problems_of(request.message))
    return response(ApiKey.INCREMENTAL_ALTER_CONFIGS, request.version, responses=told)


def _all_failed(
    request: AnyRequest[shapes.IncrementalAlterConfigsRequest], error: ErrorCode, cause: str | None
) -> shapes.IncrementalAlterConfigsResponse:
    told = all_failed(request.message.resources, error, cause)
    return response(ApiKey.INCREMENTAL_ALTER_CONFIGS, request.version, responses=told)


def _shows(
    image: MetadataImage,
    message: shapes.IncrementalAlterConfigsRequest,
    answered: shapes.IncrementalAlterConfigsResponse,
) -> bool:
    asked = (
        (resource, [(each.config_operation, each.name, each.value) for each in resource.configs])
        for resource in message.resources
    )
    return message.validate_only or shows(image, asked, answered.responses)


def problems_of(message: shapes.IncrementalAlterConfigsRequest) -> dict[int, str]:
    """The errors of resources that are not sent to the controller, by their position in the request."""
    wrong = {position: cause for position, each in enumerate(message.resources) if (cause := _problem(each))}
    return wrong | named_twice(message.resources)


def _problem(resource: shapes.AlterConfigsResource) -> str | None:
    if resource.resource_type not in RESOURCE_TYPES:
        return f"Unknown resource type {resource.resource_type}"
    if resource.resource_type != TOPIC_RESOURCE:
        for each in resource.configs:
            if each.config_operation not in OPERATIONS:
                return f"Unknown operation {each.config_operation} on {each.name}"
    if resource.resource_type == BROKER_RESOURCE and resource.resource_name and not _is_integer(resource.resource_name):
        return f"Node id must be an integer, but it is: {resource.resource_name}"
    if len({each.name for each in resource.configs}) < len(resource.configs):
        return "Error due to duplicate config keys"
    for each in resource.configs:
        if each.value is None and each.config_operation != DELETE:
            return f"Null value not supported for : {each.name}"
    return None


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _change(resource: shapes.AlterConfigsResource) -> ConfigChange:
    by_operation: dict[int, dict[str, str]] = {SET: {}, APPEND: {}, SUBTRACT: {}}
    changes: dict[str, str | None] = {}
    for each in resource.configs:
        if each.config_operation == DELETE:
            changes[each.name] = None
        else:
            assert each.value is not None, "refused by _problem"
            by_operation[each.config_operation][each.name] = each.value
    return ConfigChange(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        changes={**by_operation[SET], **changes},
        appends=by_operation[APPEND],
        subtracts=by_operation[SUBTRACT],
    )


async def _refusal(
    services: Services, request: AnyRequest[shapes.IncrementalAlterConfigsRequest]
) -> shapes.IncrementalAlterConfigsResponse | None:
    def answered(told: list[OutcomeFields]) -> shapes.IncrementalAlterConfigsResponse:
        return response(ApiKey.INCREMENTAL_ALTER_CONFIGS, request.version, responses=told)

    return await refuse(services, request, problems_of(request.message), _after, answered)


def _after(present: Mapping[str, str], resource: shapes.AlterConfigsResource) -> Mapping[str, str]:
    return after_changes(present, ((each.config_operation, each.name, each.value) for each in resource.configs))


_CONTROLLER = ControllerApi(event=_event, answer=_answer)
FORWARD: Forward[shapes.IncrementalAlterConfigsRequest, shapes.IncrementalAlterConfigsResponse] = Forward(
    version=1, failed=_all_failed, is_visible=_shows, refusal=_refusal
)

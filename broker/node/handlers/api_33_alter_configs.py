"""AlterConfigs (key 33), versions 0-2: replaces all overrides of a resource by those in the request.

On a client listener it is forwarded to the controller. In Kafka it is deprecated in favour of IncrementalAlterConfigs.
Older clients still use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.node.handlers.config_answers import SET, OutcomeFields, all_failed, named_twice, outcomes, shows
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.own_settings import refuse
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_configs as shapes


def event(services: Services, request: AnyRequest[shapes.AlterConfigsRequest]) -> MakeEvent:
    message = request.message
    wrong = problems_of(message)
    changes = tuple(
        ConfigChange(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            changes={each.name: each.value for each in resource.configs},
            replaces_all=True,
        )
        for position, resource in enumerate(message.resources)
        if position not in wrong
    )
    return lambda token: AlterConfigs(token=token, resources=changes, validate_only=message.validate_only)


def problems_of(message: shapes.AlterConfigsRequest) -> dict[int, str]:
    """The errors of resources that are not sent to the controller, by their position in the request."""
    nulls = {
        position: f"Null value not supported for : {name}"
        for position, resource in enumerate(message.resources)
        for name in [each.name for each in resource.configs if each.value is None][:1]
    }
    return nulls | named_twice(message.resources)


def answer(
    services: Services, request: AnyRequest[shapes.AlterConfigsRequest], result: AlterConfigsResponse
) -> shapes.AlterConfigsResponse:
    told = outcomes(request.message.resources, result, problems_of(request.message))
    return response(ApiKey.ALTER_CONFIGS, request.version, responses=told)


def _all_failed(
    request: AnyRequest[shapes.AlterConfigsRequest], error: ErrorCode, cause: str | None
) -> shapes.AlterConfigsResponse:
    told = all_failed(request.message.resources, error, cause)
    return response(ApiKey.ALTER_CONFIGS, request.version, responses=told)


def _shows(image: MetadataImage, message: shapes.AlterConfigsRequest, answered: shapes.AlterConfigsResponse) -> bool:
    asked = ((resource, [(SET, each.name, each.value) for each in resource.configs]) for resource in message.resources)
    return message.validate_only or shows(image, asked, answered.responses)


async def _refusal(
    services: Services, request: AnyRequest[shapes.AlterConfigsRequest]
) -> shapes.AlterConfigsResponse | None:
    def answered(told: list[OutcomeFields]) -> shapes.AlterConfigsResponse:
        return response(ApiKey.ALTER_CONFIGS, request.version, responses=told)

    return await refuse(services, request, problems_of(request.message), _after, answered)


def _after(present: Mapping[str, str], resource: shapes.AlterConfigsResource) -> Mapping[str, str]:
    return {each.name: each.value for each in resource.configs if each.value is not None}


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.AlterConfigsRequest, shapes.AlterConfigsResponse] = Forward(
    version=2, failed=_all_failed, is_visible=_shows, refusal=_refusal
)

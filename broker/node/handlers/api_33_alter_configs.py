"""AlterConfigs (key 33), versions 0-2: replaces all overrides of a resource by those given.

On a client listener it is forwarded to the controller. Deprecated by Kafka for IncrementalAlterConfigs, still spoken by
older clients.
"""

from __future__ import annotations

from broker.controller.types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.node.handlers.config_answers import all_failed, shows, to_kio
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import Message


def event(services: Services, request: AnyRequest) -> MakeEvent:
    message = request.message
    wrong = _wrong(message)
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


def _wrong(message: Message) -> dict[int, str]:
    """What never comes to the controller, by the resource's position in the request."""
    return {
        position: f"Null value not supported for : {name}"
        for position, resource in enumerate(message.resources)
        for name in [each.name for each in resource.configs if each.value is None][:1]
    }


def answer(services: Services, request: AnyRequest, result: AlterConfigsResponse) -> Message:
    return to_kio(ApiKey.ALTER_CONFIGS, request, result, _wrong(request.message))


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD = Forward(
    version=2,
    failed=lambda request, error, cause: all_failed(ApiKey.ALTER_CONFIGS, request, error, cause),
    is_visible=lambda image, message, answered: message.validate_only or shows(image, message, answered),
)

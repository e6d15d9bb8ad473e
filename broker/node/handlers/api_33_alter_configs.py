"""AlterConfigs (key 33), versions 0-2: replaces all overrides of a resource by those given.

On a client listener it is forwarded to the controller. Deprecated by Kafka for IncrementalAlterConfigs, still spoken by
older clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.types import AlterConfigs, ConfigChange
from broker.node.control import AnyRequest
from broker.node.forwarding import forward
from broker.node.handlers.api_44_incremental_alter_configs import _shows, all_failed, to_kio
from broker.wire.apis import ApiKey, Listener

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 2


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    if request.listener is not Listener.CONTROLLER:
        broker.serve(
            request,
            forward(
                broker,
                request,
                api_key=ApiKey.ALTER_CONFIGS,
                version=FORWARD_VERSION,
                failed=lambda error, cause: all_failed(ApiKey.ALTER_CONFIGS, request, error, cause),
                is_visible=lambda image, answer: message.validate_only or _shows(image, message, answer),
            ),
        )
        return
    wrong = {
        position: f"Null value not supported for : {name}"
        for position, resource in enumerate(message.resources)
        for name in [each.name for each in resource.configs if each.value is None][:1]
    }
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

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(to_kio(ApiKey.ALTER_CONFIGS, request, result, wrong))

    broker.ask_controller(
        request, lambda token: AlterConfigs(token=token, resources=changes, validate_only=message.validate_only), answer
    )

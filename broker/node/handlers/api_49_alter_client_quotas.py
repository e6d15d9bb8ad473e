"""AlterClientQuotas (key 49), versions 0-1 (KIP-546). On a client listener it is forwarded to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.types import AlterClientQuotas, QuotaChange
from broker.node.control import AnyRequest
from broker.node.forwarding import forward
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 1


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    if request.listener is not Listener.CONTROLLER:
        broker.serve(
            request,
            forward(
                broker,
                request,
                api_key=ApiKey.ALTER_CLIENT_QUOTAS,
                version=FORWARD_VERSION,
                failed=lambda error, cause: _all_failed(request, error, cause),
            ),
        )
        return
    changes = tuple(
        QuotaChange(
            entity=tuple((part.entity_type, part.entity_name) for part in entry.entity),
            values={each.key: None if each.remove else each.value for each in entry.ops},
        )
        for entry in message.entries
    )

    def answer(result: Any) -> None:  # the response type of this request
        if result.error_code != ErrorCode.none:
            request.respond(_all_failed(request, ErrorCode(result.error_code), None))
            return
        entries = [
            {
                "error_code": each.error_code,
                "error_message": each.error_message,
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in each.entity],
            }
            for each in result.entries
        ]
        request.respond(response(ApiKey.ALTER_CLIENT_QUOTAS, request.version, entries=entries))

    broker.ask_controller(
        request,
        lambda token: AlterClientQuotas(token=token, changes=changes, validate_only=message.validate_only),
        answer,
    )


def _all_failed(request: AnyRequest, error: ErrorCode, cause: str | None) -> Message:
    entries = [
        {
            "error_code": error,
            "error_message": cause,
            "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
        }
        for entry in request.message.entries
    ]
    return response(ApiKey.ALTER_CLIENT_QUOTAS, request.version, entries=entries)

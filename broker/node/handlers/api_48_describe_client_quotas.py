"""DescribeClientQuotas (key 48), versions 0-1 (KIP-546): what is set, for the entities that match a filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import QuotaEntity
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

EXACT, DEFAULT, ANY = 0, 1, 2


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    kinds = [each.entity_type for each in message.components]
    problem = None
    if len(set(kinds)) != len(kinds):
        problem = "an entity type is named twice in the filter"
    elif any(each.match_type not in (EXACT, DEFAULT, ANY) for each in message.components):
        problem = "unknown match type in the filter"
    if problem is not None:
        request.respond(
            response(
                ApiKey.DESCRIBE_CLIENT_QUOTAS,
                request.version,
                error_code=ErrorCode.invalid_request,
                error_message=problem,
                entries=None,
            )
        )
        return
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
        }
        for entity, values in broker.metadata.image.client_quotas.items()
        if _matches(entity, message)
    ]
    request.respond(
        response(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            request.version,
            error_code=ErrorCode.none,
            error_message=None,
            entries=entries,
        )
    )


def _matches(entity: QuotaEntity, message: Message) -> bool:
    """Every component matches; with `strict` the entity has no other part."""
    names = dict(entity)
    if message.strict and len(message.components) != len(names):
        return False
    for component in message.components:
        if component.entity_type not in names:
            return False
        name = names[component.entity_type]
        if component.match_type == EXACT and name != component.match:
            return False
        if component.match_type == DEFAULT and name is not None:
            return False
    return True

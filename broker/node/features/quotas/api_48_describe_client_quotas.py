"""DescribeClientQuotas (key 48), versions 0-1 (KIP-546): the quotas that are set for the entities that match a
filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import QuotaEntity
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_client_quotas as shapes

EXACT, DEFAULT, ANY = 0, 1, 2
IP = "ip"
ENTITY_TYPES = ("user", "client-id", IP)


def handle(services: Services, request: AnyRequest[shapes.DescribeClientQuotasRequest]) -> None:
    message = request.message
    error, problem = _problem(message)
    if error is not ErrorCode.none:
        request.respond(
            response(
                ApiKey.DESCRIBE_CLIENT_QUOTAS,
                request.version,
                error_code=error,
                error_message=problem,
                entries=None,
            )
        )
        return
    entries: list[shapes.EntryDataFields] = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
            "values": [{"key": key, "value": value} for key, value in sorted(values.items())],
        }
        for entity, values in services.metadata.image.client_quotas.items()
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


def _problem(message: shapes.DescribeClientQuotasRequest) -> tuple[ErrorCode, str | None]:
    seen: set[str] = set()
    for each in message.components:
        kind = each.entity_type
        if not kind:
            return ErrorCode.invalid_request, "Invalid empty entity type."
        if kind in seen:
            return ErrorCode.invalid_request, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in ENTITY_TYPES:
            return ErrorCode.unsupported_version, f"Custom entity type {kind} not supported; there is: {ENTITY_TYPES}"
        if each.match_type not in (EXACT, DEFAULT, ANY):
            return ErrorCode.invalid_request, f"Unknown match type {each.match_type}"
        if (each.match_type == EXACT) != (each.match is not None):
            return ErrorCode.invalid_request, f"Match type {each.match_type} of {kind} with the name {each.match!r}"
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        return ErrorCode.invalid_request, "A filter by ip excludes filters by user or client-id."
    return ErrorCode.none, None


def _matches(entity: QuotaEntity, message: shapes.DescribeClientQuotasRequest) -> bool:
    """Whether every component matches the entity. With `strict` the entity must have no other part."""
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

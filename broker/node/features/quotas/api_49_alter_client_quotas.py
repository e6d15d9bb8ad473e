"""AlterClientQuotas (key 49), versions 0-1 (KIP-546). On a client listener it is forwarded to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.setting_types import AlterClientQuotas, AlterClientQuotasResponse, QuotaChange
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_client_quotas as shapes


def event(services: Services, request: AnyRequest[shapes.AlterClientQuotasRequest]) -> MakeEvent:
    message = request.message
    changes = tuple(
        QuotaChange(
            entity=tuple((part.entity_type, part.entity_name) for part in entry.entity),
            values={each.key: None if each.remove else each.value for each in entry.ops},
        )
        for entry in message.entries
    )
    return lambda token: AlterClientQuotas(token=token, changes=changes, validate_only=message.validate_only)


def answer(
    services: Services, request: AnyRequest[shapes.AlterClientQuotasRequest], result: AlterClientQuotasResponse
) -> shapes.AlterClientQuotasResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    entries: list[shapes.AnsweredEntryDataFields] = [
        {
            "error_code": each.error_code,
            "error_message": each.error_message,
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in each.entity],
        }
        for each in result.entries
    ]
    return response(ApiKey.ALTER_CLIENT_QUOTAS, request.version, entries=entries)


def _all_failed(
    request: AnyRequest[shapes.AlterClientQuotasRequest], error: ErrorCode, cause: str | None
) -> shapes.AlterClientQuotasResponse:
    entries: list[shapes.AnsweredEntryDataFields] = [
        {
            "error_code": error,
            "error_message": cause,
            "entity": [{"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity],
        }
        for entry in request.message.entries
    ]
    return response(ApiKey.ALTER_CLIENT_QUOTAS, request.version, entries=entries)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.AlterClientQuotasRequest, shapes.AlterClientQuotasResponse] = Forward(
    version=1, failed=_all_failed
)
